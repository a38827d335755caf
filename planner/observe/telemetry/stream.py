"""Telemetry that comes from elsewhere than this machine's driver, told as a `Poller` tells it: a recording, or an exporter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from planner.observe.snapshot import Snapshot
from planner.observe.telemetry.recording import Recording

STOP_WAIT_S = 0.3
LONGEST_GAP_S = 10.0
"""A recording that was interrupted goes on after at most this long."""


class Telemetry(Protocol):
    """What front ends need of a source of snapshots; `Poller` is one."""

    latest: Snapshot | None
    failure: Exception | None

    @property
    def paused(self) -> bool:
        """Whether nothing is told for now."""

    @property
    def ended(self) -> bool:
        """Whether no snapshot will follow."""

    def start(self) -> None:
        """Begin."""

    def pause(self) -> None:
        """Tell nothing until `resume`."""

    def resume(self) -> None:
        """Go on at once."""

    def stop(self) -> bool:
        """End within 0.3 s; False when a call is stuck."""

    def stale_for_s(self) -> float | None:
        """Seconds without an answer; None while there is nothing amiss."""


class Due(NamedTuple):
    """A snapshot, and how long it stands before the next one is asked for."""

    snapshot: Snapshot | None
    """None: no answer this time."""
    rest_s: float


class Stream:
    """One daemon thread that asks `following` for the next snapshot, hands it to `on_snapshot`, and rests.

    `following` answers None at the end. `latest`, `failure`, pausing and stopping are as of `Poller`.
    """

    def __init__(self, following: Callable[[], Due | None], on_snapshot: Callable[[Snapshot], None] | None = None) -> None:
        self.latest: Snapshot | None = None
        self.failure: Exception | None = None
        self._following = following
        self._on_snapshot = on_snapshot
        self._wake = threading.Event()
        self._stopping = False
        self._paused = False
        self._ended = False
        self._due_s = float("inf")
        self._thread: threading.Thread | None = None

    @property
    def paused(self) -> bool:
        """Whether nothing is told for now."""
        return self._paused

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return self._ended

    def start(self) -> None:
        """Begin."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Hold after the snapshot that is on its way."""
        self._paused = True

    def resume(self) -> None:
        """Go on at once."""
        self._paused = False
        self._wake.set()

    def stop(self) -> bool:
        """End; waits at most 0.3 s. False when the source does not answer: its thread is left to the process's end."""
        self._stopping = True
        self._wake.set()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(STOP_WAIT_S)
        return not self._thread.is_alive()

    def stale_for_s(self) -> float | None:
        """Seconds by which the next snapshot is late; None while it is not, when paused, and after the end."""
        if self.latest is None or self._paused or self._ended:
            return None
        late_s = time.monotonic() - self._due_s
        return late_s if late_s > 1.0 else None

    def _publish(self, due: Due) -> None:
        if due.snapshot is None:
            return
        self._due_s = time.monotonic() + due.rest_s
        self.latest = due.snapshot
        if self._on_snapshot is not None:
            self._on_snapshot(due.snapshot)

    def _run(self) -> None:
        try:
            while not self._stopping:
                rest_s: float | None = None
                if not self._paused:
                    due = self._following()
                    if due is None or self._stopping:
                        break
                    rest_s = due.rest_s
                    self._publish(due)
                self._wake.wait(rest_s)
                self._wake.clear()
        except Exception as failure:  # noqa: BLE001 - a thread has no caller to tell; its owner raises or shows `failure`
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
    """A stream of what was recorded, `speed` times as fast as it happened (0: without waiting); `again`: for ever.

    A function that reads the recording is called in the stream's own thread.
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
