"""Watching this machine, or a recording, while the app runs: readings as messages, and the window that advice rests on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry.poller import Poller
    from planner.observe.telemetry.source import Telemetry

WINDOW = 300
"""Readings kept for advice: five minutes at one a second."""


@dataclass
class SnapshotRead(Message):
    """One reading of this machine."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """True if `message` is an older reading: on a slow terminal only the newest is drawn."""
        return isinstance(message, SnapshotRead)


class TelemetryWatch:
    """Source of readings, started once the screen is up."""

    def __init__(
        self, post: Callable[[Message], object], interval_s: float, *, replay: Path | None = None, demo: bool = False
    ) -> None:
        self._post = post
        self._interval_s = interval_s
        self._replay, self._demo = replay, demo
        self._telemetry: Telemetry | None = None
        self._poller: Poller | None = None
        """The same, where it is this machine."""
        self._window: deque[Snapshot] = deque(maxlen=WINDOW)
        self._window_lock = threading.Lock()
        self._count = 0

    @property
    def running(self) -> bool:
        """True if there is a source."""
        return self._telemetry is not None

    @property
    def paused(self) -> bool:
        """True if nothing is read for now."""
        return self._telemetry is not None and self._telemetry.paused

    @property
    def window(self) -> tuple[Snapshot, ...]:
        """Last readings, the oldest first."""
        with self._window_lock:
            return tuple(self._window)

    @property
    def sees_gpus(self) -> bool:
        """True if the last reading has a GPU."""
        with self._window_lock:
            return bool(self._window and self._window[-1].devices)

    @property
    def polls(self) -> int:
        """Number of times the devices of this machine were read; a recording reads none."""
        return 0 if self._demo or self._replay is not None else self._count

    @property
    def trouble(self) -> str:
        """Reason why there are no new readings, in words; empty while they come, and while paused."""
        source = self._telemetry
        if source is None:
            return ""
        if source.failure is not None:
            return f"stopped: {source.failure}"
        if source.ended:
            return "ended"
        stale_s = source.stale_for_s()
        return "" if stale_s is None else f"stale for {stale_s:.0f} s"

    def start(self) -> None:
        """Begin reading, in a thread of the source's own."""
        if self._telemetry is None:
            self._telemetry = self._opened()
            self._telemetry.start()

    def _opened(self) -> Telemetry:
        if self._demo or self._replay is not None:
            from planner.observe.telemetry.recording import read_demo, read_recording
            from planner.observe.telemetry.stream import replay

            path = self._replay
            return replay(read_demo if path is None else lambda: read_recording(path), self._read, again=self._demo)
        from planner.observe.telemetry.poller import Poller

        self._poller = Poller(self._read, interval_s=self._interval_s)
        return self._poller

    def _read(self, snapshot: Snapshot) -> None:
        """Hand a reading over, from the source's thread."""
        with self._window_lock:
            if self._window and self._window[-1].taken_at_s > snapshot.taken_at_s:
                self._window.clear()  # a recording began again
            self._window.append(snapshot)
            self._count += 1
        self._post(SnapshotRead(snapshot))

    def thin(self, thin: bool) -> None:
        """Read this machine at the slow interval only, or at the usual one; a recording keeps its pace."""
        if self._poller is not None:
            self._poller.thinned = thin

    def list_processes(self, wanted: bool) -> None:
        """List the processes on each GPU in readings of this machine, as long as they are shown."""
        if self._poller is not None:
            self._poller.lists_processes = wanted

    def toggle(self) -> None:
        """Pause or go on."""
        if self._telemetry is not None:
            if self._telemetry.paused:
                self._telemetry.resume()
            else:
                self._telemetry.pause()

    def stop(self) -> None:
        """End reading."""
        if self._telemetry is not None:
            self._telemetry.stop()
