"""`gpu-planner watch`: what this machine's GPUs and processor do, as a table, as JSON lines, or into a file."""

from __future__ import annotations

import queue
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from planner.cli.exits import ExitCode
from planner.cli.invocation import json_option
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry import Poller

UNBOUNDED_WIDTH = 200
"""Columns when stdout is no terminal."""
WAIT_S = 0.5
"""How often the wait for a snapshot looks for a poller that stopped, and a table for one that went stale."""


@click.command()
@click.option("--once", is_flag=True, help="Read once and end.")
@click.option(
    "--interval", "interval_s", type=click.FloatRange(min=0.1, max=60), default=1.0, show_default=True, metavar="S", help="Seconds."
)
@json_option
@click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Append every reading to FILE as JSON lines."
)
def watch(*, once: bool, interval_s: float, as_json: bool, record: Path | None) -> int:
    """Show what this machine's GPUs and processor do, until Ctrl+C.

    A value that is not known shows as — with its reason below. --json prints one line per reading: SI units, fractions of 1.
    """
    with ExitStack() as stack:
        recording = stack.enter_context(_opened(record)) if record else None
        if once:
            from planner.observe.telemetry import read_once

            snapshot = read_once()
            _keep(snapshot, recording)
            _print(snapshot, as_json=as_json)
            return ExitCode.ANSWERED
        if as_json or not sys.stdout.isatty():
            for snapshot in _snapshots(stack, interval_s):
                _keep(snapshot, recording)
                _print(snapshot, as_json=as_json)
                sys.stdout.flush()
        else:
            _show_live(stack, interval_s, recording)
    return ExitCode.ANSWERED


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("ab")
    except OSError as error:
        raise UserError(Problem("--record", "", f"{path} cannot be written: {error.strerror}.")) from error


def _keep(snapshot: Snapshot, recording: BinaryIO | None) -> None:
    import msgspec

    if recording is not None:
        recording.write(msgspec.json.encode(snapshot) + b"\n")
        recording.flush()


def _print(snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(snapshot))
        return
    from rich.console import Console

    from planner.cli.telemetry_table import telemetry_table

    width = shutil.get_terminal_size((UNBOUNDED_WIDTH, 24)).columns
    Console(width=width, highlight=False).print(telemetry_table(snapshot, width))


def _started(stack: ExitStack, interval_s: float) -> tuple[Poller, queue.SimpleQueue[Snapshot]]:
    from planner.observe.telemetry import Poller

    arrived: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
    poller = Poller(arrived.put, interval_s=interval_s)
    stack.callback(poller.stop)
    poller.start()
    return poller, arrived


def _snapshots(stack: ExitStack, interval_s: float) -> Iterator[Snapshot]:
    poller, arrived = _started(stack, interval_s)
    while True:
        try:
            yield arrived.get(timeout=WAIT_S)
        except queue.Empty:
            _raise_if_ended(poller)


def _show_live(stack: ExitStack, interval_s: float, recording: BinaryIO | None) -> None:
    from rich.console import Console
    from rich.live import Live

    from planner.cli.telemetry_table import telemetry_table

    console = Console(highlight=False)
    live = stack.enter_context(Live(console=console, auto_refresh=False))
    poller, arrived = _started(stack, interval_s)
    while True:
        try:
            snapshot = arrived.get(timeout=WAIT_S)
            _keep(snapshot, recording)
        except queue.Empty:
            _raise_if_ended(poller)
            if poller.stale_for_s() is None or poller.latest is None:
                continue
            snapshot = poller.latest
        live.update(telemetry_table(snapshot, console.width, stale_for_s=poller.stale_for_s()), refresh=True)


def _raise_if_ended(poller: Poller) -> None:
    if poller.failure is not None:
        raise poller.failure
