"""`gpu-planner study`: FLOP/s and FLOP per dollar over model or batch sizes, and the sizes where the best GPU changes."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, pass_invocation
from planner.errors import Problem, UserError
from planner.units import UNKNOWN, count_text, si_text, usd_text

if TYPE_CHECKING:
    from planner.engine.answers.figure import Figure
    from planner.engine.answers.study import StudyAnswer, StudyPoint

MOST_COLUMNS = 5
"""GPUs that have columns of their own; of more, the table holds the best of each size."""
BEST_SHOWN = 3
PUBLISHED_LAW = "log2"
"""The reading of the published study's depth law under which its finding comes out."""
OTHER_CONDITIONS = "With --published its prices are taken, and its depth law is read as log2(depth)."
LAWS = {"printed": "depth = 0.77 log2(width) - 2.5", "log2": "log2(depth) = 0.77 log2(width) - 2.5"}


@click.command()
@click.option(
    "--axis",
    type=click.Choice(["width", "batch"]),
    default="width",
    show_default=True,
    help="What grows: the model at a fixed batch, or the batch of one model.",
)
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Study this GPU (repeat for more; all: the whole catalogue).")
@click.option(
    "--prices",
    default="runpod-secure",
    show_default=True,
    metavar="SET",
    help="Whose prices: cheapest, a provider, a provider's tier, or runpod-secure-2025.",
)
@click.option(
    "--price", "given", multiple=True, metavar="GPU=USD", help="An hour of this GPU costs this, whatever the price set says."
)
@click.option(
    "--depth-law",
    default="printed",
    show_default=True,
    metavar="LAW",
    help="printed: depth = 0.77 log2(width) - 2.5; log2: the same read as log2(depth); or a number of layers.",
)
@click.option(
    "--published",
    is_flag=True,
    help="As the published study that this is held against: its prices, and its depth law read as log2(depth).",
)
@click.option("--vocabulary", type=click.IntRange(min=1), metavar="N", help="Entries (default: Qwen3's 151936).")
@click.option("--width", type=click.IntRange(min=256), metavar="N", help="Of the model along the axis of batch (default: 1024).")
@click.option("--sequences", type=click.IntRange(min=1), metavar="N", help="Of a step along the axis of width (default: 4).")
@click.option("--sequence", type=click.IntRange(min=1), metavar="TOKENS", help="Tokens of a sequence (default: 256).")
@click.option(
    "--basis",
    type=click.Choice(["measured", "spec"]),
    default="measured",
    show_default=True,
    help="Use measurements, or vendor figures alone.",
)
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also draw both charts into this file."
)
@pass_invocation
@click.pass_context
def study(
    ctx: click.Context,
    invocation: Invocation,
    axis: Literal["width", "batch"],
    gpus: tuple[str, ...],
    prices: str,
    given: tuple[str, ...],
    depth_law: str,
    published: bool,
    basis: Literal["measured", "spec"],
    form: str | None,
    svg: Path | None,
    vocabulary: int | None,
    width: int | None,
    sequences: int | None,
    sequence: int | None,
) -> int:
    """Compute per dollar of one training step: Qwen3 layout, AdamW, autocast to bfloat16, 4 sequences of 256 random tokens.

    Measured points of this machine (`gpu-planner bench --suite study`) stand for the predictions they answer. Exits with 1
    when no GPU has both a speed and a price.
    """
    from planner.engine.study.sizes import Study

    session = invocation.session()
    if published:
        by_default = click.core.ParameterSource.DEFAULT
        depth_law = PUBLISHED_LAW if ctx.get_parameter_source("depth_law") is by_default else depth_law
        prices = session.published_study.price_set if ctx.get_parameter_source("prices") is by_default else prices
    usual = Study()
    asked = Study(
        axis=axis,
        depth_law=depth_law,
        vocabulary=vocabulary or usual.vocabulary,
        width=width or usual.width,
        sequences=sequences or usual.sequences,
        sequence=sequence or usual.sequence,
    )
    found = session.study(asked, gpus=gpus, prices=prices, given=_prices(given), basis=basis)
    if svg is not None:
        from planner.cli.study_svg import study_svg

        try:
            svg.write_text(study_svg(found), encoding="utf-8")
        except OSError as refused:
            raise UserError(Problem("--svg", "", f"{svg} cannot be written: {refused.strerror}.")) from refused
        print(f"charts: {svg}", file=sys.stderr)
    if form == "json":
        import msgspec

        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif form == "csv":
        write_csv(found, sys.stdout)
    else:
        _print_for_people(found, published=published)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    return ExitCode.ANSWERED if found.leads else ExitCode.NOTHING_FOUND


def _prices(given: tuple[str, ...]) -> dict[str, float]:
    """GPU -> USD an hour; raises `UserError` for each that is no such pair."""
    found: dict[str, float] = {}
    problems = []
    for text in given:
        name, equals, price = text.rpartition("=")
        try:
            found[name.strip()] = float(price)
        except ValueError:
            equals = ""
        if not equals or not name.strip() or not 0 < found.get(name.strip(), 0.0) < float("inf"):
            problems.append(Problem("--price", "", f"{text!r} is not accepted; write GPU=USD, as in L4=0.44."))
    if problems:
        raise UserError(problems)
    return found


def _print_for_people(found: StudyAnswer, *, published: bool) -> None:
    from rich.text import Text

    from planner.cli import listing
    from planner.cli.text_table import TextColumn, fitted
    from planner.engine.answers.study import story

    console = listing.console()
    console.print(Text(_heading(found), style="bold"))
    points = found.curves[0].points if found.curves else []
    columns = [
        TextColumn("parameters", [count_text(point.parameters) for point in points], right=True),
        TextColumn("width", [f"{point.width:,}" for point in points], right=True, keep=20),
        TextColumn("depth", [str(point.depth) for point in points], right=True, keep=20),
    ]
    if found.axis == "batch":
        columns = [TextColumn("tokens/step", [f"{point.tokens_per_step:,}" for point in points], right=True)]
    if len(found.curves) <= MOST_COLUMNS:
        for place, curve in enumerate(found.curves):
            columns.append(
                TextColumn(f"{curve.gpu} FLOP/s", [_speed(point) for point in curve.points], right=True, keep=60 - place)
            )
            cells = [_per_usd(point) for point in curve.points]
            columns.append(TextColumn(f"{curve.gpu} FLOP/$", cells, right=True, keep=90 - place))
        columns.append(
            TextColumn("best", [_best(found, number)[0] if _best(found, number) else UNKNOWN for number in range(len(points))])
        )
    else:
        for place in range(BEST_SHOWN):
            title = ("best FLOP/$", "second", "third")[place]
            cells = [(*_best(found, number), *[UNKNOWN] * BEST_SHOWN)[place] for number in range(len(points))]
            columns.append(TextColumn(title, cells, keep=90 - place))
    table = fitted(columns, console.width)
    listing.print_table(console, table, [""] * len(points))
    listing.tell_left_out(table.left_out)
    for line in (*_law_told(found), _prices_told(found), *_unfitting(found)):
        console.print(Text(line, style="dim"))
    for line in ("", *story(found)):
        console.print(Text(line))
    for line in (*found.published, *([OTHER_CONDITIONS] if found.published and not published else [])):
        console.print(Text(line, style="dim"))


def _heading(found: StudyAnswer) -> str:
    model = f"width {found.curves[0].points[0].width:,}" if found.axis == "batch" and found.curves else "growing model"
    prices = f"prices {found.prices}" + (f" (oldest of {found.prices_as_of})" if found.prices_as_of else "")
    law = f"depth law {found.depth_law}" if found.depth_law in LAWS else f"{found.depth_law} layers"
    return f"Compute per dollar · {model} · {law} · vocabulary {found.vocabulary:,} · {prices}"


def _law_told(found: StudyAnswer) -> list[str]:
    """How the depth law is read, where there is one."""
    return [f"Depth law {found.depth_law}: {LAWS[found.depth_law]}."] if found.depth_law in LAWS else []


def _prices_told(found: StudyAnswer) -> str:
    """Whose price of what, in one line."""
    told = [
        f"{curve.gpu} {usd_text(curve.usd_per_gpu_h)} $/h ({curve.price}{f', {curve.price_as_of}' if curve.price_as_of else ''})"
        for curve in found.curves[:MOST_COLUMNS]
        if curve.usd_per_gpu_h is not None
    ]
    return f"Prices: {'; '.join(told)}"


def _spread(figure: Figure) -> str:
    wider = max(figure.high / figure.value - 1, 1 - figure.low / figure.value)
    return f"±{wider * 100:.0f}%"


def _speed(point: StudyPoint) -> str:
    if point.flop_per_s is None:
        return UNKNOWN
    sign = "●" if point.flop_per_s.basis == "measured" else ""
    return f"{sign}{si_text(point.flop_per_s.value)} {_spread(point.flop_per_s)}"


def _per_usd(point: StudyPoint) -> str:
    return si_text(point.flop_per_usd.value) if point.flop_per_usd else UNKNOWN


def _best(found: StudyAnswer, number: int) -> list[str]:
    """GPUs at one place of the axis, the most FLOP per dollar first."""
    known = [(figure.value, curve.gpu) for curve in found.curves if (figure := curve.points[number].flop_per_usd)]
    ranked = sorted(known, key=lambda entry: -entry[0])
    return [f"{gpu} {si_text(value)}" if len(found.curves) > MOST_COLUMNS else gpu for value, gpu in ranked]


def _unfitting(found: StudyAnswer) -> list[str]:
    """The first place of each curve that has no speed, and why."""
    lines = []
    for curve in found.curves[:MOST_COLUMNS]:
        first = next((point for point in curve.points if point.reason), None)
        if first is not None:
            size = (
                f"{first.tokens_per_step:,} tokens a step"
                if found.axis == "batch"
                else f"{count_text(first.parameters)} parameters"
            )
            lines.append(f"{curve.gpu} from {size} on: {first.reason}")
    return lines


def write_csv(found: StudyAnswer, out: TextIO) -> None:
    """Write a row a GPU and point: SI units in the names, an empty cell for what is unknown."""
    writer = csv.writer(out, lineterminator="\n")
    figures = ("flop_per_s", "flop_per_usd", "step_s", "mfu", "memory_bytes")
    heads = [f"{name}{part}" for name in figures for part in ("", "_low", "_high", "_basis")]
    facts = ("parameters", "non_embedding_parameters", "width", "depth", "sequences", "tokens_per_step")
    writer.writerow(["gpu", "here", "usd_per_gpu_h", *facts, "flop_per_byte", "bottleneck", "reason", *heads])
    for curve in found.curves:
        for point in curve.points:
            cells: list[Any] = []
            for name in figures:
                figure = getattr(point, name)
                cells += [figure.value, figure.low, figure.high, figure.basis] if figure else [None] * 4
            known = [getattr(point, fact) for fact in facts]
            row = [curve.gpu, int(curve.here), curve.usd_per_gpu_h, *known, point.flop_per_byte, point.bottleneck, point.reason]
            writer.writerow([*row, *cells])
