"""`gpu-planner offers refresh`: today's prices from a public catalogue, which replace the shipped ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, Number, json_option, pass_invocation
from planner.cli.terminal.sections import print_items, print_json
from planner.cli.terminal.streams import say
from planner.units import UNKNOWN, counted, usd_text

if TYPE_CHECKING:
    from planner.hardware.prices.offers import Change
    from planner.hardware.prices.refresh import Refreshed

NAMED = 6
"""Unknown accelerators listed in the summary; `--json` lists all."""


@click.command()
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="This provider only; repeatable.")
@click.option("--source", metavar="URL|FOLDER", help="Another copy of the catalogue: <SOURCE>/<cloud>/vms.csv.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(0.1, 3600),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Time limit for one file, in seconds.",
)
@click.option(
    "--within",
    "within_s",
    type=Number(0.1, 36_000),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Time limit for all files, in seconds; files that have arrived are kept.",
)
@click.option("--fewer", is_flag=True, help="Accept prices even if they lack most of the GPUs that had one.")
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them.")
@json_option
@pass_invocation
def refresh(invocation: Invocation, /, providers: Sequence[str], dry_run: bool, as_json: bool, **how: Any) -> int:
    """Fetch today's prices from the SkyPilot catalogue.

    Each provider's prices are written to a file in offers/ of your config folder. They replace its shipped offers until you remove the file. A provider that cannot
    be read within the time limit keeps its present offers. Exit code 1: none could be read; 74: prices were read but could not be written.
    """
    found = []
    today = dt.datetime.now(dt.UTC).date()
    for one in invocation.session().refresh_offers(providers, today=today, dry_run=dry_run, **how):
        found.append(one)
        for line in _narrated(one):
            say(line)
    found.sort(key=lambda one: one.provider)
    if as_json:
        print_json(found)
    else:
        _print_summary(found)
        if dry_run:
            _print_changes(found)
    if any(one.state == "not kept" for one in found):
        return ExitCode.OUTPUT_LOST
    return ExitCode.NOTHING_FOUND if all(one.state in {"failed", "own file"} for one in found) else ExitCode.ANSWERED


def _narrated(one: Refreshed) -> Iterator[str]:
    if one.state in {"failed", "not kept"}:
        yield f"error: {one.provider}: {one.url}: {one.detail}"
    elif one.detail:
        yield f"{one.provider}: {one.url}: {one.detail}"
    if one.unknown:
        named = ", ".join(f"{name} ({count})" for name, count in list(one.unknown.items())[:NAMED])
        more = f" and {len(one.unknown) - NAMED} more" if len(one.unknown) > NAMED else ""
        yield f"{one.provider}: skipped, because the GPU is ambiguous: {named}{more}"
    if one.unusable:
        yield f"{one.provider}: {counted(len(one.unusable), 'line')} cannot be read; {one.unusable[0]}"


def _print_summary(found: Sequence[Refreshed]) -> None:
    taken = [one for one in found if one.state in {"written", "would be written"}]
    if not taken:
        return

    def count(one: Refreshed, kind: str) -> str:
        return str(sum(change.kind == kind for change in one.changes))

    columns: dict[str, Callable[[Refreshed], str]] = {
        "provider": lambda one: one.provider,
        "offers": lambda one: str(one.offers),
        "added": lambda one: count(one, "added"),
        "gone": lambda one: count(one, "gone"),
        "repriced": lambda one: count(one, "changed"),
        "most": lambda one: _most(one.changes),
        "kept": lambda one: str(one.kept),
        "as of": lambda one: one.as_of or UNKNOWN,
        "state": lambda one: one.state,
        "file": lambda one: one.file or UNKNOWN,
    }
    print_items(taken, columns, numeric=("offers", "added", "gone", "repriced", "most", "kept"))


def _most(changes: Sequence[Change]) -> str:
    """Text of the largest relative change of a list price, which is the first of `changes`."""
    return next((_share_text(change) for change in changes if change.kind == "changed"), UNKNOWN)


def _share_text(change: Change) -> str:
    from planner.hardware.prices.offers import share_of_change

    share = share_of_change(change)
    return UNKNOWN if share is None else f"{share:+.1%}"


def _print_changes(found: Sequence[Refreshed]) -> None:
    columns: dict[str, Callable[[tuple[str, Change]], str]] = {
        "provider": lambda item: item[0],
        "offer": lambda item: item[1].kind,
        "instance": lambda item: item[1].instance,
        "GPUs": lambda item: f"{item[1].gpus} × {item[1].gpu}",
        "$/h was": lambda item: usd_text(item[1].on_demand_before_usd_per_h),
        "$/h": lambda item: usd_text(item[1].on_demand_usd_per_h),
        "by": lambda item: _share_text(item[1]),
        "spot was": lambda item: usd_text(item[1].spot_before_usd_per_h),
        "spot": lambda item: usd_text(item[1].spot_usd_per_h),
    }
    if changes := [(one.provider, change) for one in found for change in one.changes]:
        print()
        print_items(changes, columns, numeric=("$/h was", "$/h", "by", "spot was", "spot"))
