"""`gpu-planner gpus`: the GPUs of the catalogue, and their performance per dollar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from planner.cli.commands import DefaultGroup
from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_facts, print_items, print_json
from planner.hardware.catalogue.gpu import Purchase
from planner.hardware.catalogue.gpus import Gpu
from planner.units import GIB, UNKNOWN, bytes_text, digits, si_text, usd_text


@click.group(cls=DefaultGroup, default="list", of_word="show")
def gpus() -> None:
    """GPUs of the catalogue."""


@gpus.command("list")
@click.option(
    "--value",
    is_flag=True,
    help="Compare with the purchase price: bandwidth (GB/s) for decoding, arithmetic (TFLOP/s) for training.",
)
@json_option
@pass_invocation
def list_gpus(invocation: Invocation, value: bool, as_json: bool) -> int:
    """List every GPU: memory, bandwidth, dense peaks, power."""
    known = invocation.session().gpus.all
    if as_json:
        print_json(known)
        return ExitCode.ANSWERED
    if value:
        return _print_value(known)
    columns: dict[str, Callable[[Gpu], str]] = {
        "GPU": lambda gpu: gpu.name,
        "memory": lambda gpu: bytes_text(gpu.memory_bytes),
        "bandwidth": lambda gpu: si_text(gpu.memory_bandwidth_bytes_per_s, "B/s"),
        "bf16": lambda gpu: si_text(gpu.compute_flop_per_s.get("bf16"), "FLOP/s"),
        "fp8": lambda gpu: si_text(gpu.compute_flop_per_s.get("fp8"), "FLOP/s"),
        "power": lambda gpu: f"{gpu.tdp_w:,.0f} W" if gpu.tdp_w else UNKNOWN,
        "architecture": lambda gpu: gpu.architecture,
        "year": lambda gpu: str(gpu.release_year or UNKNOWN),
    }
    print_items(known, columns, numeric=("memory", "bandwidth", "bf16", "fp8", "power"))
    return ExitCode.ANSWERED


def _print_value(known: Sequence[Gpu]) -> int:
    """Print GPUs with a known price, most bandwidth per dollar first."""

    def per_thousand(amount: float | None, price: Purchase, unit: float) -> str:
        return digits(None if amount is None else amount / price.price_usd * 1000 / unit)

    priced = [(gpu, gpu.purchase) for gpu in known if gpu.purchase is not None]
    columns: dict[str, Callable[[tuple[Gpu, Purchase]], str]] = {
        "GPU": lambda item: item[0].name,
        "$": lambda item: usd_text(item[1].price_usd),
        "GB/s per k$": lambda item: per_thousand(item[0].memory_bandwidth_bytes_per_s, item[1], 1e9),
        "GiB per k$": lambda item: per_thousand(item[0].memory_bytes, item[1], GIB),
        "bf16 TFLOP/s per k$": lambda item: per_thousand(item[0].compute_flop_per_s.get("bf16"), item[1], 1e12),
        "fp8 TFLOP/s per k$": lambda item: per_thousand(item[0].compute_flop_per_s.get("fp8"), item[1], 1e12),
        "W per k$": lambda item: per_thousand(item[0].tdp_w, item[1], 1.0),
        "price is": lambda item: item[1].kind,
        "as of": lambda item: item[1].as_of,
    }
    best_first = sorted(priced, key=lambda item: -(item[0].memory_bandwidth_bytes_per_s or 0.0) / item[1].price_usd)
    print_items(best_first, columns, numeric=[head for head in columns if "$" in head])
    return ExitCode.ANSWERED


@gpus.command("show")
@click.argument("name", shell_complete=gpu_names)
@json_option
@pass_invocation
def show_gpu(invocation: Invocation, name: str, as_json: bool) -> int:
    """Show one GPU, with its aliases and the source of its figures."""
    gpu = invocation.session().gpus.find(name)
    if as_json:
        print_json(gpu)
    else:
        print_facts(gpu.name, _gpu_facts(gpu))
    return ExitCode.ANSWERED


def _gpu_facts(gpu: Gpu) -> dict[str, str]:
    purchase = gpu.purchase
    return {
        "architecture": " ".join(filter(None, (gpu.vendor, gpu.architecture, gpu.form_factor, str(gpu.release_year or "")))),
        "memory": _memory_text(gpu),
        "bandwidth": si_text(gpu.memory_bandwidth_bytes_per_s, "B/s"),
        **{f"dense {dtype}": si_text(peak, "FLOP/s") for dtype, peak in gpu.compute_flop_per_s.items()},
        "NVLink": si_text(gpu.nvlink_bytes_per_s, "B/s both ways") if gpu.nvlink_bytes_per_s else "",
        "PCIe": si_text(gpu.pcie_bytes_per_s, "B/s both ways") if gpu.pcie_bytes_per_s else "",
        "power": f"{gpu.tdp_w:,.0f} W" if gpu.tdp_w else "",
        "MIG": ", ".join(f"{profile.count} × {profile.name}" for profile in gpu.mig),
        "purchase": f"${usd_text(purchase.price_usd)} ({purchase.kind}, {purchase.as_of}, {purchase.source})" if purchase else "",
        "aliases": ", ".join(gpu.aliases),
        "NVML names": ", ".join(gpu.nvml_names),
        "source": f"{gpu.source} ({gpu.retrieved}, confidence {gpu.confidence})",
        **{f"source of {field}": source for field, source in gpu.figure_sources.items()},
        "note": gpu.note,
    }


def _memory_text(gpu: Gpu) -> str:
    usable = f", {bytes_text(gpu.usable_memory_bytes)} of it usable" if gpu.usable_memory_bytes else ""
    return f"{bytes_text(gpu.memory_bytes)} {gpu.memory_type or ''}".rstrip() + usable
