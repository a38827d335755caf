"""`gpu-planner watch`: what this machine's GPUs and processor do, as a table, as JSON lines, as Prometheus text, or into a file."""

from __future__ import annotations

import queue
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.exits import ExitCode
from planner.cli.invocation import json_option
from planner.cli.watch.source import Origin, origin_options
from planner.errors import Problem, UserError
from planner.units import MIB

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry.recording import Recorder
    from planner.observe.telemetry.source import Telemetry

UNBOUNDED_WIDTH = 200
"""Columns when stdout is no terminal."""
WAIT_S = 0.5
"""How often the wait for a snapshot looks for a source that stopped, and a table for one that went stale."""


@click.command()
@click.option("--once", is_flag=True, help="Read once and end.")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(min=0.1, max=60), default=1.0, show_default=True, metavar="S", help="Seconds."
)
@json_option
@click.option("--processes", is_flag=True, help="Tell who uses each GPU too.")
@click.option("--prometheus", is_flag=True, help="Print one reading in the text format of Prometheus, and end.")
@origin_options
@click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Append every reading to FILE as JSON lines."
)
@click.option(
    "--record-limit",
    "limit_mib",
    type=click.FloatRange(min=1),
    default=256.0,
    show_default=True,
    metavar="MIB",
    help="Of FILE and the parts before it (FILE.1 to FILE.3); the oldest go.",
)
def watch(
    *,
    once: bool,
    interval_s: float,
    as_json: bool,
    processes: bool,
    prometheus: bool,
    replay: Path | None,
    demo: bool,
    source: str | None,
    speed: float,
    record: Path | None,
    limit_mib: float,
) -> int:
    """Show what this machine's GPUs and processor do, until Ctrl+C.

    A value that is not known shows as — with its reason below. --json prints one line per reading: SI units, fractions of 1.
    """
    if as_json and prometheus:
        raise UserError(Problem("", "", "--json and --prometheus exclude each other; give one."))
    origin = Origin(replay=replay, demo=demo, source=source, speed=speed, processes=processes)
    with ExitStack() as stack:
        recorder = stack.enter_context(_recorder(record, replay, limit_mib)) if record else None
        if once or prometheus:
            snapshot = origin.once()
            _keep(snapshot, recorder)
            _print(snapshot, as_json=as_json, prometheus=prometheus)
            return ExitCode.ANSWERED
        if as_json or not sys.stdout.isatty():
            for snapshot in _snapshots(stack, origin, interval_s):
                _keep(snapshot, recorder)
                _print(snapshot, as_json=as_json)
                sys.stdout.flush()
        else:
            _show_live(stack, origin, interval_s, recorder)
    return ExitCode.ANSWERED


def _recorder(path: Path, replayed: Path | None, limit_mib: float) -> Recorder:
    from planner.observe.telemetry.recording import Recorder

    if replayed is not None and replayed.resolve() == path.resolve():
        raise UserError(Problem("--record", "", f"{path} is being replayed; record into another file."))
    return Recorder(path, limit_mib * MIB)


def _keep(snapshot: Snapshot, recorder: Recorder | None) -> None:
    """Record a reading; who used the GPUs is nobody's business later."""
    if recorder is not None:
        recorder.keep(snapshot.without_processes())


def _print(snapshot: Snapshot, *, as_json: bool, prometheus: bool = False) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(snapshot))
        return
    if prometheus:
        from planner.observe.telemetry.exposition import prometheus_text

        click.echo(prometheus_text(snapshot), nl=False)
        return
    from rich.console import Console

    from planner.cli.watch.table import telemetry_text

    width = shutil.get_terminal_size((UNBOUNDED_WIDTH, 24)).columns
    Console(width=width, highlight=False).print(telemetry_text(snapshot, width))


def _started(
    stack: ExitStack, origin: Origin, interval_s: float, *, again: bool = False
) -> tuple[Telemetry, queue.SimpleQueue[Snapshot]]:
    arrived: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
    telemetry = origin.stream(arrived.put, interval_s, again=again)
    stack.callback(telemetry.stop)
    telemetry.start()
    return telemetry, arrived


def _snapshots(stack: ExitStack, origin: Origin, interval_s: float) -> Iterator[Snapshot]:
    """Readings to the end of the source; what ended it early is raised."""
    telemetry, arrived = _started(stack, origin, interval_s)
    while True:
        try:
            yield arrived.get(timeout=WAIT_S)
        except queue.Empty:
            if telemetry.failure is not None:
                raise telemetry.failure from None
            if telemetry.ended and arrived.empty():
                return


def _show_live(stack: ExitStack, origin: Origin, interval_s: float, recorder: Recorder | None) -> None:
    from rich.console import Console
    from rich.live import Live

    from planner.cli.watch.table import telemetry_text

    console = Console(highlight=False)
    live = stack.enter_context(Live(console=console, auto_refresh=False))
    telemetry, arrived = _started(stack, origin, interval_s, again=True)
    while True:
        try:
            snapshot = arrived.get(timeout=WAIT_S)
            _keep(snapshot, recorder)
        except queue.Empty:
            if telemetry.failure is not None:
                raise telemetry.failure from None
            if telemetry.ended and arrived.empty():
                return
            if telemetry.stale_for_s() is None or telemetry.latest is None:
                continue
            snapshot = telemetry.latest
        live.update(telemetry_text(snapshot, console.width, stale_for_s=telemetry.stale_for_s()), refresh=True)
