"""`gpu-planner gpus|models|presets|offers`: what the catalogue holds, listed or one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from planner.cli.exits import ExitCode, tell_problems
from planner.cli.groups import DefaultGroup, LazyCommand
from planner.cli.invocation import Invocation, json_option, pass_invocation
from planner.cli.listing import print_card, print_columns, print_json
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.units import GIB, UNKNOWN, bytes_text, count_text, digits, si_text, usd_text
from planner.workload.presets import Preset

if TYPE_CHECKING:
    from planner.workload.architecture import Architecture


@click.group(cls=DefaultGroup, default="list")
def gpus() -> None:
    """GPUs as their vendors describe them."""


@gpus.command("list")
@click.option("--value", is_flag=True, help="What each gives for its price to buy: for decoding (GB/s) and for training (TFLOP/s).")
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
        return UNKNOWN if amount is None else digits(amount * 1000 / unit)

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
@click.argument("name")
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


@click.group(cls=DefaultGroup, default="list")
def models() -> None:
    """Models, each a Hugging Face style config."""


@models.command("list")
@json_option
@pass_invocation
def list_models(invocation: Invocation, as_json: bool) -> int:
    """List every model the catalogue knows by name."""
    shelf = invocation.session().models
    known = [shelf.find(name) for name in shelf.names()]
    if as_json:
        print_json(known)
        return ExitCode.ANSWERED
    heads = ("model", "title", "type", "Hugging Face id and other names")
    print_columns(
        heads,
        [(model.name, model.title, str(model.config.get("model_type", UNKNOWN)), ", ".join(model.aliases)) for model in known],
    )
    return ExitCode.ANSWERED


@models.command("show")
@click.argument("name")
@json_option
@pass_invocation
def show_model(invocation: Invocation, name: str, as_json: bool) -> int:
    """Show one model: its parameters, its config and where that comes from."""
    session = invocation.session()
    model = session.models.find(name)
    parameters = _parameters(session.architecture(model.name))
    if as_json:
        print_json({**msgspec.to_builtins(model), "parameters": parameters})
        return ExitCode.ANSWERED
    counts = {field: count_text(count) for field, count in parameters.items()}
    facts = {
        "title": model.title,
        **{f"{field} parameters": text for field, text in counts.items()},
        "other names": ", ".join(model.aliases),
        "source": f"{model.source} ({model.retrieved})",
        "note": model.note,
        **{key: str(value) for key, value in model.config.items()},
    }
    print_card(model.name, facts)
    return ExitCode.ANSWERED


def _parameters(architecture: Architecture) -> dict[str, int]:
    """Parameters of the whole model, and of what one token passes."""
    return {"total": architecture.total, "active": architecture.active, "embedding": architecture.embedding}


@click.group(cls=DefaultGroup, default="list")
def presets() -> None:
    """Workload presets: the shipped ones and your own."""


@presets.command("list")
@json_option
@pass_invocation
def list_presets(invocation: Invocation, as_json: bool) -> int:
    """List every preset, yours included."""
    shelf = invocation.session().presets
    loaded: list[Preset] = []
    unusable: list[Problem] = []
    for name in shelf.names():
        try:
            loaded.append(shelf.load(name))
        except UserError as wrong:
            unusable += wrong.problems
    if as_json:
        print_json([_as_object(preset) for preset in loaded])
    else:
        heads = ("preset", "task", "origin", "title")
        print_columns(heads, [(preset.name, preset.workload.task, preset.origin, preset.workload.title) for preset in loaded])
    if unusable:
        tell_problems(UserError(unusable))
        return ExitCode.WRONG_INPUT
    return ExitCode.ANSWERED


def _as_object(preset: Preset) -> dict[str, Any]:
    return {"name": preset.name, "path": str(preset.path), "origin": preset.origin, "workload": preset.workload}


@presets.command("show")
@click.argument("name")
@json_option
@pass_invocation
def show_preset(invocation: Invocation, name: str, as_json: bool) -> int:
    """Print one preset: as the TOML file it is, ready to be saved under another name and changed, or as JSON."""
    preset = invocation.session().presets.load(name)
    if as_json:
        print_json(_as_object(preset))
    else:
        click.echo(preset.path.read_text(encoding="utf-8"), nl=False)
    return ExitCode.ANSWERED


REFRESH = {"refresh": LazyCommand("planner.cli.refresh", "refresh", "Fetch today's prices from the SkyPilot catalogue.")}


@click.group(cls=DefaultGroup, default="list", lazy=REFRESH)
def offers() -> None:
    """Rental prices, each with its date and source."""


@offers.command("list")
@click.option("--provider", metavar="NAME", help="Of this provider only.")
@json_option
@pass_invocation
def list_offers(invocation: Invocation, provider: str | None, as_json: bool) -> int:
    """List every offer, cheapest GPU hour first."""
    session = invocation.session()
    known = session.offers
    if provider is not None:
        known = tuple(offer for offer in known if offer.provider.casefold() == provider.casefold())
    return _print_offers(known, session.own_offers, as_json)


@offers.command("show")
@click.argument("gpu")
@json_option
@pass_invocation
def show_offers(invocation: Invocation, gpu: str, as_json: bool) -> int:
    """List the offers of one GPU, cheapest GPU hour first."""
    session = invocation.session()
    name = session.gpus.find(gpu).name
    return _print_offers(tuple(offer for offer in session.offers if offer.gpu == name), session.own_offers, as_json)


PRICES = (
    ("$/h", "on_demand_usd_per_h"),
    ("spot $/h", "spot_usd_per_h"),
    ("1 year $/h", "reserved_1y_usd_per_h"),
    ("3 years $/h", "reserved_3y_usd_per_h"),
)
"""Of the whole instance; a column that no offer has is left out."""


def _print_offers(found: Sequence[Offer], own: Sequence[Offer], as_json: bool) -> int:
    """Print `found` and say by the exit code whether there were any; `own` are those of the user's files."""
    yours = {offer.provider for offer in own}

    def price_per_gpu(offer: Offer) -> float:
        price = offer.on_demand_usd_per_h or offer.spot_usd_per_h
        return price / offer.gpus if price else float("inf")

    ordered = sorted(found, key=price_per_gpu)
    if as_json:
        print_json(ordered)
    else:
        priced = [(head, name) for head, name in PRICES if any(getattr(offer, name) is not None for offer in ordered)]
        heads = ("provider", "GPU", "×", "$/GPU-h", *(head for head, _ in priced), "instance", "region", "as of", "from")
        rows = [
            (
                offer.provider,
                offer.gpu,
                str(offer.gpus),
                usd_text(price_per_gpu(offer)),
                *(usd_text(getattr(offer, name)) for _, name in priced),
                offer.instance,
                offer.region,
                offer.as_of,
                "yours" if offer.provider in yours else "shipped",
            )
            for offer in ordered
        ]
        print_columns(heads, rows, numeric=heads[2 : 4 + len(priced)])
    return ExitCode.ANSWERED if ordered else ExitCode.NOTHING_FOUND
