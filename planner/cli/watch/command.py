"""`gpu-planner watch`: telemetry of this machine's GPUs and processor, as a table, as JSON lines, as Prometheus text, or in a file."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Number, given_options, json_option
from planner.cli.terminal.streams import say, write_json
from planner.cli.watch.serving import DEFAULT_LISTEN, STALE_AFTER, Latest, served
from planner.cli.watch.source import Origin, Readings, origin_options
from planner.errors import Problem, UserError
from planner.units import MIB

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry.recording import Recorder

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))


class _Ended(BaseException):
    """A signal that asks the process to end."""


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """Raise signals as exceptions in the block, so that it cleans up before the process ends; ignored signals stay ignored."""
    came: list[int] = []

    def end(number: int, _: object) -> None:
        came.append(number)
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise _Ended

    before = {number: signal.getsignal(number) for number in ENDING if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except _Ended:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])


UNBOUNDED_WIDTH = 200
"""Width if stdout is not a terminal."""


@click.command()
@click.option("--once", is_flag=True, help="Read once and exit.")
@click.option("--interval", "interval_s", type=Number(0.1, 60), default=1.0, show_default=True, metavar="S", help="Seconds.")
@json_option
@click.option("--processes", is_flag=True, help="Also list the processes on each GPU.")
@click.option("--prometheus", is_flag=True, help="Print one reading in the text format of Prometheus, and exit.")
@click.option("--serve-metrics", "serve", is_flag=True, help="Serve the readings to a Prometheus server until Ctrl+C, at /metrics.")
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    help=f"With --serve-metrics: address to listen on. [default: {DEFAULT_LISTEN}, only this machine]",
)
@origin_options
@click.option("--record", type=FILE, metavar="FILE", help="Append every reading to FILE as JSON lines.")
@click.option(
    "--record-limit",
    "limit_mib",
    type=Number(1, 1e9),
    default=256.0,
    show_default=True,
    metavar="MIB",
    help="Size limit of FILE and its older parts (FILE.1 to FILE.3); the oldest are deleted.",
)
def watch(
    *,
    once: bool,
    interval_s: float,
    as_json: bool,
    prometheus: bool,
    serve: bool,
    listen: str | None,
    record: Path | None,
    limit_mib: float,
    **of_origin: Any,
) -> int:
    """Show telemetry of this machine's GPUs and processor until Ctrl+C.

    An unknown value is shown as — with its reason below. --json prints one line per reading: SI units, fractions of 1.
    """
    if as_json and prometheus:
        raise UserError(Problem("", "", "--json and --prometheus exclude each other; give one."))
    if listen and not serve:
        raise UserError(Problem("--listen", "", "needs --serve-metrics."))
    if record is None and given_options(["limit_mib"]):
        raise UserError(Problem("--record-limit", "", "needs --record."))
    if not (of_origin["replay"] or of_origin["demo"]) and given_options(["speed"]):
        raise UserError(Problem("--speed", "", "needs --replay or --demo."))
    if serve and (once or as_json or prometheus):
        raise UserError(Problem("--serve-metrics", "", "excludes --once, --json and --prometheus."))
    origin = Origin(**of_origin)
    with ExitStack() as stack:
        recorder = stack.enter_context(_recorder(record, origin.replay, limit_mib)) if record else None
        if serve:
            _serve(origin, interval_s, listen or DEFAULT_LISTEN, recorder)
        elif once or prometheus:
            reading = origin.once()
            _keep(reading, recorder)
            _print(reading, as_json=as_json, prometheus=prometheus)
        elif as_json or not sys.stdout.isatty():
            for snapshot in filter(None, stack.enter_context(Readings(origin, interval_s))):
                _keep(snapshot, recorder)
                _print(snapshot, as_json=as_json)
                sys.stdout.flush()
        else:
            _show_live(origin, interval_s, recorder)
    return ExitCode.ANSWERED


def _recorder(path: Path, replayed: Path | None, limit_mib: float) -> Recorder:
    from planner.observe.telemetry.recording import Recorder

    if replayed is not None and replayed.resolve() == path.resolve():
        raise UserError(Problem("--record", "", f"{path} is being replayed; record into another file."))
    return Recorder(path, limit_mib * MIB)


def _keep(snapshot: Snapshot, recorder: Recorder | None) -> None:
    """Record a reading without the list of processes, which is private."""
    if recorder is not None:
        recorder.keep(snapshot.without_processes())


def _print(snapshot: Snapshot, *, as_json: bool, prometheus: bool = False) -> None:
    if as_json:
        write_json(snapshot)
        return
    if prometheus:
        from planner.observe.telemetry.exposition import prometheus_text

        sys.stdout.write(prometheus_text(snapshot))
        return
    from planner.cli.terminal.clean_console import CleanConsole
    from planner.cli.watch.table import telemetry_text

    width = shutil.get_terminal_size((UNBOUNDED_WIDTH, 24)).columns
    CleanConsole(width).print(telemetry_text(snapshot, width))


def _serve(origin: Origin, interval_s: float, listen: str, recorder: Recorder | None) -> None:
    """Serve the latest reading to scrapes until the source ends or Ctrl+C."""
    latest = Latest()
    with served(latest, listen) as address, Readings(origin, interval_s, again=True) as readings:
        say(f"serving readings at {address}")
        for snapshot in readings:
            if snapshot is not None:
                _keep(snapshot, recorder)
            stale_s = readings.telemetry.stale_for_s()
            latest.keep(snapshot, stale=stale_s is not None and stale_s > STALE_AFTER * interval_s)


def _show_live(origin: Origin, interval_s: float, recorder: Recorder | None) -> None:
    """Show a table that each reading replaces, and how long a reading has been overdue."""
    from rich.live import Live

    from planner.cli.terminal.clean_console import CleanConsole
    from planner.cli.watch.table import telemetry_text

    out = CleanConsole()
    with unwound_by_signals(), Live(console=out, auto_refresh=False) as live, Readings(origin, interval_s, again=True) as readings:
        for snapshot in readings:
            stale_for_s = readings.telemetry.stale_for_s()
            if snapshot is not None:
                _keep(snapshot, recorder)
            shown = snapshot or (readings.telemetry.latest if stale_for_s is not None else None)
            if shown is not None:
                live.update(telemetry_text(shown, out.width, stale_for_s), refresh=True)
