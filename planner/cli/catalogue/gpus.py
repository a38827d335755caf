"""`gpu-planner gpus`: the GPUs of the catalogue, and what each gives for its price."""

from __future__ import annotations

from collections.abc import Sequence

import click

from planner.cli.commands import DefaultGroup
from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_card, print_columns, print_json
from planner.hardware.catalogue.gpus import Gpu
from planner.units import GIB, UNKNOWN, bytes_text, digits, si_text, usd_text


@click.group(cls=DefaultGroup, default="list")
def gpus() -> None:
    """GPUs as their vendors describe them."""


@gpus.command("list")
@click.option(
    "--value", is_flag=True, help="Show what each gives for its purchase price: for decoding (GB/s) and for training (TFLOP/s)."
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
    heads = ("GPU", "memory", "bandwidth", "bf16", "fp8", "power", "architecture", "year")
    rows = [
        (
            gpu.name,
            bytes_text(gpu.memory_bytes),
            si_text(gpu.memory_bandwidth_bytes_per_s, "B/s"),
            si_text(gpu.compute_flop_per_s.get("bf16"), "FLOP/s"),
            si_text(gpu.compute_flop_per_s.get("fp8"), "FLOP/s"),
            f"{gpu.tdp_w:,.0f} W" if gpu.tdp_w else UNKNOWN,
            gpu.architecture,
            str(gpu.release_year or UNKNOWN),
        )
        for gpu in known
    ]
    print_columns(heads, rows, numeric=heads[1:6])
    return ExitCode.ANSWERED


def _print_value(known: Sequence[Gpu]) -> int:
    """The GPUs whose price is known, those with the most bandwidth for it first."""

    def per_usd(gpu: Gpu, amount: float | None) -> float | None:
        return amount / gpu.purchase.price_usd if gpu.purchase and amount is not None else None

    def text(amount: float | None, unit: float) -> str:
        return digits(None if amount is None else amount * 1000 / unit)

    priced = sorted(
        (gpu for gpu in known if gpu.purchase is not None), key=lambda gpu: -(per_usd(gpu, gpu.memory_bandwidth_bytes_per_s) or 0.0)
    )
    heads = ("GPU", "$", "GB/s per k$", "GiB per k$", "bf16 TFLOP/s per k$", "fp8 TFLOP/s per k$", "W per k$", "price is", "as of")
    rows = [
        (
            gpu.name,
            usd_text(gpu.purchase.price_usd),
            text(per_usd(gpu, gpu.memory_bandwidth_bytes_per_s), 1e9),
            text(per_usd(gpu, gpu.memory_bytes), GIB),
            text(per_usd(gpu, gpu.compute_flop_per_s.get("bf16")), 1e12),
            text(per_usd(gpu, gpu.compute_flop_per_s.get("fp8")), 1e12),
            text(per_usd(gpu, gpu.tdp_w), 1.0),
            gpu.purchase.kind,
            gpu.purchase.as_of,
        )
        for gpu in priced
        if gpu.purchase is not None
    ]
    print_columns(heads, rows, numeric=heads[1:7])
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
        print_card(gpu.name, _gpu_facts(gpu))
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
