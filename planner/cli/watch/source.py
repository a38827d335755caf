"""Sources of telemetry: this machine, a recording, the demonstration or an exporter."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click
import msgspec

from planner.cli.options import FILE, Number, options
from planner.cli.terminal.streams import say
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry.recording import Recording
    from planner.observe.telemetry.source import Telemetry


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Source given by the options; by default this machine."""

    replay: Path | None = None
    demo: bool = False
    source: str | None = None
    speed: float = 1.0
    processes: bool = False
    """True to list the processes of each GPU, which only this machine's driver can do."""

    def __post_init__(self) -> None:
        """Raise `UserError` if more than one source is named."""
        given = [name for name, value in (("--replay", self.replay), ("--demo", self.demo), ("--source", self.source)) if value]
        if len(given) > 1:
            raise UserError(Problem("", "", f"{' and '.join(given)} exclude each other; give one."))
        if given and self.processes:
            raise UserError(
                Problem("--processes", "", f"only this machine's driver lists the processes of a GPU; leave {given[0]} out.")
            )

    def recording(self) -> Recording | None:
        """Recording, if the source is one; unreadable lines are reported on stderr."""
        from planner.observe.telemetry.recording import read_demo, read_recording

        if not self.demo and self.replay is None:
            return None
        recording = read_recording(self.replay) if self.replay is not None else read_demo()
        if recording.unreadable:
            count, first = len(recording.unreadable), recording.unreadable[0]
            lines = f"line {first} is" if count == 1 else f"{count} lines (the first is line {first}) are"
            say(f"{self.replay}: {lines} no reading and left out")
        return recording

    def once(self) -> Snapshot:
        """One reading; the last one of a recording."""
        recording = self.recording()
        if recording is not None:
            return recording.snapshots[-1]
        if self.source is not None:
            from planner.observe.telemetry.exporter import read_exporter

            return read_exporter(self.source)
        from planner.observe.telemetry.reading import read_once

        return read_once(processes=self.processes)

    def stream(self, on_snapshot: Callable[[Snapshot], None], interval_s: float, *, again: bool = False) -> Telemetry:
        """Readings at `interval_s` (those of a recording at their recorded times); `again`: the demonstration is repeated without end."""
        recording = self.recording()
        if recording is not None:
            from planner.observe.telemetry.stream import replay

            return replay(recording, on_snapshot, speed=self.speed, again=again and self.demo)
        if self.source is not None:
            return _exporter_stream(self.source, on_snapshot, interval_s)
        from planner.observe.telemetry.poller import Poller

        poller = Poller(on_snapshot, interval_s=interval_s)
        poller.lists_processes = self.processes
        return poller


def _exporter_stream(url: str, on_snapshot: Callable[[Snapshot], None], interval_s: float) -> Telemetry:
    from planner.observe.telemetry.exporter import read_exporter
    from planner.observe.telemetry.stream import Due, Stream

    answered = False

    def following() -> Due:
        nonlocal answered
        began_s = time.monotonic()
        snapshot = None
        try:
            snapshot = read_exporter(url)
        except UserError:
            if not answered:  # an exporter that has answered before may recover
                raise
        answered = True
        return Due(snapshot, max(0.0, began_s + interval_s - time.monotonic()))

    return Stream(following, on_snapshot)


demo_option = click.option("--demo", is_flag=True, help="Use the shipped recording, which is synthetic, not measured.")
origin_options = options(
    click.option("--replay", type=FILE, metavar="FILE", help="Show a recording instead of this machine."),
    demo_option,
    click.option("--source", metavar="URL", help="Read an exporter: dcgm-exporter's, or one in the format of --prometheus."),
    click.option(
        "--speed", type=Number(0, 1e6), default=1.0, metavar="X", help="Speed of a replay; 0: without waiting. [default: 1]"
    ),
)


WAIT_S = 0.2
"""Interval between checks of whether a silent source has stopped or is overdue."""


class Readings:
    """Readings of `origin` while this context is open."""

    def __init__(self, origin: Origin, interval_s: float, *, again: bool = False) -> None:
        self._arrived: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
        self.telemetry = origin.stream(self._arrived.put, interval_s, again=again)

    def __enter__(self) -> Self:
        self.telemetry.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.telemetry.stop()

    def __iter__(self) -> Iterator[Snapshot | None]:
        """Each reading, and None after every `WAIT_S` without one, until the source ends; raises the error that ended it early."""
        while True:
            try:
                yield self._arrived.get(timeout=WAIT_S)
            except queue.Empty:
                if self.telemetry.failure is not None:
                    raise self.telemetry.failure from None
                if self.telemetry.ended and self._arrived.empty():
                    return
                yield None
