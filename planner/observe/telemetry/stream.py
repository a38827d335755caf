"""Telemetry from sources other than this machine's driver, with the interface of a `Poller`: a recording, or an exporter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from planner.observe.snapshot import Snapshot
from planner.observe.telemetry.recording import Recording
from planner.observe.telemetry.source import Telemetry

LONGEST_GAP_S = 10.0
"""Longest pause in the replay of a recording that was interrupted."""


class Due(NamedTuple):
    """A snapshot, and how long to wait before the next one."""

    snapshot: Snapshot | None
    """None: no answer this time."""
    rest_s: float


class Stream(Telemetry):
    """Source that calls `following` for the next snapshot, passes it on, and waits; `following` returns None at the end."""

    def __init__(self, following: Callable[[], Due | None], on_snapshot: Callable[[Snapshot], None] | None = None) -> None:
        super().__init__(on_snapshot)
        self._following = following
        self._ended = False
        self._due_s = float("inf")

    @property
    def ended(self) -> bool:
        """True if nothing more will come."""
        return self._ended

    def stale_for_s(self) -> float | None:
        """Seconds by which the next snapshot is late; None while it is not, when paused, and after the end."""
        if self.latest is None or self.paused or self._ended:
            return None
        late_s = time.monotonic() - self._due_s
        return late_s if late_s > 1.0 else None

    def _run(self) -> None:
        try:
            while not self._stopping:
                rest_s: float | None = None
                if not self.paused:
                    due = self._following()
                    if due is None or self._stopping:
                        break
                    rest_s = due.rest_s
                    if due.snapshot is not None:
                        self._due_s = time.monotonic() + due.rest_s
                        self._publish(due.snapshot)
                self._wake.wait(rest_s)
                self._wake.clear()
        except Exception as failure:  # noqa: BLE001  # a thread has no caller; its owner raises or shows `failure`
            self.failure = failure
        finally:
            self._ended = True


def replay(
    recorded: Recording | Callable[[], Recording],
    on_snapshot: Callable[[Snapshot], None] | None = None,
    *,
    speed: float = 1.0,
    again: bool = False,
) -> Stream:
    """A recording as a stream, `speed` times as fast as it happened (0: without waiting); `again`: endlessly.

    If `recorded` is a function that reads the recording, it is called in the stream's own thread.
    """
    place = 0

    def following() -> Due | None:
        nonlocal place, recorded
        recording = recorded = recorded if isinstance(recorded, Recording) else recorded()
        if place == len(recording.snapshots):
            if not again:
                return None
            place = 0
        snapshot = recording.snapshots[place]
        place += 1
        if speed <= 0:
            return Due(snapshot, 0.0)
        later = recording.snapshots[place] if place < len(recording.snapshots) else None
        gap_s = later.taken_at_s - snapshot.taken_at_s if later is not None else snapshot.interval_s if again else 0.0
        return Due(snapshot, min(LONGEST_GAP_S, max(0.0, gap_s)) / speed)

    return Stream(following, on_snapshot)
