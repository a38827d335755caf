"""`gpu-planner rightsize`: what GPUs were seen to do, and what to change about it, with what each change saves a month."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, Number, folder_options, json_option, pass_invocation
from planner.cli.terminal.streams import print_line, say
from planner.cli.watch.readings import Readings
from planner.cli.watch.source import Origin
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.engine.advice.observation import Observed
    from planner.observe.snapshot import Snapshot
    from planner.session import Session

DEFAULT_SECONDS = 30.0
DEFAULT_FLEET_SECONDS = 3600.0
INTERVAL_S = 1.0
GRACE_S = 15.0
"""Waited for longer where a source is slow to begin."""


@click.command()
@click.option(
    "--seconds",
    type=Number(1, 31 * 86400),
    metavar="S",
    help="How long to watch, or of a recording its last S. [default: 30; all of a recording; 3600 with --prometheus]",
)
@click.option(
    "--replay", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Judge a recording instead of this machine."
)
@click.option("--demo", is_flag=True, help="Judge the recording that is shipped: composed, not measured.")
@click.option("--source", metavar="URL", help="Watch an exporter: dcgm-exporter's, or one in the format of watch --prometheus.")
@click.option("--prometheus", "server", metavar="URL", help="Ask a Prometheus server what it has kept of a fleet.")
@click.option("--match", default="", metavar="LABELS", help='With --prometheus: label matchers, as \'cluster="a",job=~"dcgm.*"\'.')
@click.option("--preset", metavar="NAME", help="What runs on each GPU: the engine then checks cheaper ones, batches and formats.")
@click.option("--tokens-per-s", type=Number(0, 1e12, above=True), metavar="N", help="What it was measured to do, of one GPU.")
@click.option("--price", "usd_per_h", type=Number(0, 1e6), metavar="USD", help="What one GPU costs you an hour.")
@click.option(
    "--provider", "providers", multiple=True, metavar="NAME", help="Compare with offers of this provider alone; repeatable."
)
@click.option("--kwh", type=Number(0, 1e3), default=0.15, show_default=True, metavar="USD", help="Electricity, to own one.")
@click.option(
    "--hosting", type=Number(0, 1e9), default=0.0, metavar="USD", help="Server and rack a month, to own one. [default: 0]"
)
@json_option
@folder_options
@pass_invocation
def rightsize(
    invocation: Invocation,
    *,
    seconds: float | None,
    replay: Path | None,
    demo: bool,
    source: str | None,
    server: str | None,
    match: str,
    preset: str | None,
    tokens_per_s: float | None,
    usd_per_h: float | None,
    providers: Sequence[str],
    kwh: float,
    hosting: float,
    as_json: bool,
    config: Path | None,
    state: Path | None,
) -> int:
    """Judge what GPUs do, and advise: batch, slice, quantise, move, give back, or stay.

    Exit code 1: there is no GPU to judge.
    """
    from planner.engine.advice.ownership import Owning

    invocation.config, invocation.state = config or invocation.config, state or invocation.state
    origin = Origin(replay=replay, demo=demo, source=source)
    if server is not None and (replay or demo or source):
        raise UserError(Problem("", "", "--prometheus excludes --replay, --demo and --source; give one."))
    if match and server is None:
        raise UserError(Problem("--match", "", "narrows --prometheus; give its address."))
    session = invocation.session()
    workload = session.presets.load(preset).workload if preset is not None else None
    observed, badge, reason = _fleet(session, server, seconds, match) if server is not None else _window(session, origin, seconds)
    if not observed:
        say(f"no GPU to judge: {reason}")
        return ExitCode.NOTHING_FOUND
    advice = session.rightsize(
        observed,
        workload=workload,
        tokens_per_s=tokens_per_s,
        usd_per_h=usd_per_h,
        providers=providers,
        owning=Owning(usd_per_kwh=kwh, hosting_usd_per_month=hosting),
    )
    if as_json:
        from planner.cli.terminal.sections import print_json

        print_json(advice)
        return ExitCode.ANSWERED
    from planner.cli.terminal.sections import console, print_sections
    from planner.present.advice import advice_sections

    if badge:
        print_line(f"[{badge}]")
    print_sections(advice_sections(advice), console())
    return ExitCode.ANSWERED


def _fleet(session: Session, server: str, seconds: float | None, match: str) -> tuple[list[Observed], str, str]:
    from planner.observe.telemetry.prometheus import read_fleet
    from planner.observe.telemetry.window import observe_fleet

    return observe_fleet(read_fleet(server, seconds or DEFAULT_FLEET_SECONDS, match=match), session.gpus), server, ""


def _window(session: Session, origin: Origin, seconds: float | None) -> tuple[list[Observed], str, str]:
    """(what was observed, the badge of where it comes from, why there is nothing)."""
    from planner.observe.telemetry.window import observe

    recording = origin.recording()
    if recording is not None:
        last_s = recording.snapshots[-1].taken_at_s
        snapshots = [one for one in recording.snapshots if seconds is None or one.taken_at_s >= last_s - seconds]
    else:
        snapshots = _watched(origin, seconds or DEFAULT_SECONDS)
    return observe(snapshots, session.gpus), snapshots[-1].badge or "", snapshots[-1].nvml_detail


def _watched(origin: Origin, seconds: float) -> list[Snapshot]:
    """The readings of the next `seconds`; a machine without a driver is read once."""
    end_s = time.monotonic() + seconds
    snapshots: list[Snapshot] = []
    say(f"watching for {seconds:g} s …")
    with Readings(origin, INTERVAL_S) as readings:
        for snapshot in readings:
            snapshots += [snapshot] if snapshot is not None else []
            if (snapshots and not snapshots[-1].devices) or time.monotonic() >= end_s + (0 if snapshots else GRACE_S):
                break
    if not snapshots:
        raise UserError(Problem("", "", f"nothing answered within {seconds + GRACE_S:g} s."))
    return snapshots
