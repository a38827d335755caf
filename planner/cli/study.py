"""`gpu-planner study`: FLOP/s and FLOP per dollar over model or batch sizes, and the sizes at which the best GPU changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, basis_option, pass_invocation
from planner.cli.terminal.streams import say, write_json
from planner.durable import write_out
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.engine.answers.study import StudyAnswer

PUBLISHED_LAW = "log2"
"""Interpretation of the published study's depth law that reproduces its finding."""
OTHER_CONDITIONS = "--published sets the prices and the depth law."


@click.command()
@click.option(
    "--axis",
    type=click.Choice(["width", "batch"]),
    default="width",
    show_default=True,
    help="Axis: the size of the model at a fixed batch, or the batch of one model.",
)
@click.option("--gpu", "gpus", multiple=True, metavar="NAME", help="Study this GPU (repeat for more; all: the whole catalogue).")
@click.option(
    "--prices",
    default="runpod-secure",
    show_default=True,
    metavar="SET",
    help="Prices to use: cheapest, a provider, a provider's tier, or runpod-secure-2025.",
)
@click.option("--price", "given", multiple=True, metavar="GPU=USD", help="Use this price per hour for this GPU.")
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
    help="Use the prices of the published study that this is compared with, and its depth law read as log2(depth).",
)
@click.option("--vocabulary", type=click.IntRange(1, 10**7), metavar="N", help="Vocabulary entries (default: Qwen3's 151936).")
@click.option(
    "--width", type=click.IntRange(256, 2**17), metavar="N", help="Width of the model, with --axis batch. [default: 1024]"
)
@click.option(
    "--sequences", type=click.IntRange(1, 10**6), metavar="N", help="Sequences of a step, with --axis width. [default: 4]"
)
@click.option("--sequence", type=click.IntRange(1, 10**7), metavar="TOKENS", help="Tokens of a sequence (default: 256).")
@basis_option
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--svg", type=FILE, metavar="FILE", help="Also draw both charts into this file.")
@pass_invocation
@click.pass_context
def study(
    ctx: click.Context,
    invocation: Invocation,
    /,
    axis: Literal["width", "batch"],
    gpus: tuple[str, ...],
    prices: str,
    given: tuple[str, ...],
    depth_law: str,
    published: bool,
    basis: Literal["measured", "spec"],
    form: str | None,
    svg: Path | None,
    **sizes: Any,
) -> int:
    """Compare compute per dollar of one training step: Qwen3 layout, AdamW, autocast to bfloat16, 4 sequences of 256 random tokens.

    Measured points of this machine (`gpu-planner bench --suite study`) replace predictions of the same steps. Exits with 1
    if no GPU has both a speed and a price.
    """
    from planner.engine.study.sizes import Study

    varied, other = ("width", "batch") if axis == "width" else ("sequences", "width")
    if sizes[varied] is not None:
        raise click.UsageError(f"--{varied} cannot be given with --axis {axis}, which varies it; use --axis {other}.")
    session = invocation.session()
    if published:
        by_default = click.core.ParameterSource.DEFAULT
        depth_law = PUBLISHED_LAW if ctx.get_parameter_source("depth_law") is by_default else depth_law
        prices = session.published_study.price_set if ctx.get_parameter_source("prices") is by_default else prices
    chosen = Study(axis=axis, depth_law=depth_law, **{name: size for name, size in sizes.items() if size is not None})
    found = session.study(chosen, gpus=gpus, prices=prices, given=_prices(given), basis=basis)
    if svg is not None:
        from planner.present.files.study_svg import study_svg

        write_out(svg, study_svg(found))
        say(f"charts: {svg}")
    _print(found, form)
    if form is None and found.published and not published:
        print(OTHER_CONDITIONS)
    for note in found.notes:
        say(f"note: {note}")
    return ExitCode.ANSWERED if found.leads else ExitCode.NOTHING_FOUND


def _print(found: StudyAnswer, form: str | None) -> None:
    if form == "json":
        write_json(found)
    elif form == "csv":
        from planner.present.files.csv_text import study_csv

        sys.stdout.write(study_csv(found))
    else:
        from planner.cli.terminal import sections as listing
        from planner.present.study import study_sections

        listing.print_sections(study_sections(found), listing.console())


def _prices(given: tuple[str, ...]) -> dict[str, float]:
    """GPU -> price in USD per hour; raises `UserError` with every invalid text."""
    found: dict[str, float] = {}
    problems = []
    for text in given:
        name, equals, price = text.rpartition("=")
        try:
            found[name.strip()] = float(price)
        except ValueError:
            equals = ""
        if not equals or not name.strip() or not 0 < found.get(name.strip(), 0.0) <= 1e6:
            problems.append(Problem("--price", "", f"{text!r} is not accepted; write GPU=USD, as in L4=0.44."))
    if problems:
        raise UserError(problems)
    return found
