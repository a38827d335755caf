"""Readings of a telemetry source as they come."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    from planner.cli.watch.source import Origin
    from planner.observe.snapshot import Snapshot

WAIT_S = 0.2
"""Interval of checking a silent source: whether it stopped, or is overdue."""


class Readings:
    """The readings of `origin`, which is read while this context is open."""

    def __init__(self, origin: Origin, interval_s: float, *, again: bool = False) -> None:
        self._arrived: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
        self.telemetry = origin.stream(self._arrived.put, interval_s, again=again)

    def __enter__(self) -> Self:
        self.telemetry.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.telemetry.stop()

    def __iter__(self) -> Iterator[Snapshot | None]:
        """Each reading, and None after every `WAIT_S` without one, to the end of the source; raises what ended it early."""
        while True:
            try:
                yield self._arrived.get(timeout=WAIT_S)
            except queue.Empty:
                if self.telemetry.failure is not None:
                    raise self.telemetry.failure from None
                if self.telemetry.ended and self._arrived.empty():
                    return
                yield None
