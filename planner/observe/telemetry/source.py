"""Interface of every source of telemetry: a daemon thread that passes on snapshots until it is stopped or has no more."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from planner.observe.snapshot import Snapshot

STOP_WAIT_S = 0.3
"""Seconds that stopping waits for an answer in progress."""


class Telemetry(ABC):
    """A source of snapshots; each is passed to `on_snapshot` in the source's own thread."""

    def __init__(self, on_snapshot: Callable[[Snapshot], None] | None = None) -> None:
        self.latest: Snapshot | None = None
        """Last snapshot; None before the first."""
        self.failure: Exception | None = None
        """Exception that ended the thread; None while it runs, and after an orderly end."""
        self._on_snapshot = on_snapshot
        self._wake = threading.Event()
        self._stopping = False
        self.paused = False
        """True if no snapshots are handed on for now."""
        self._thread: threading.Thread | None = None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True if no snapshot will follow."""

    @abstractmethod
    def stale_for_s(self) -> float | None:
        """Seconds since an answer was due; None while none is late."""

    def start(self) -> None:
        """Start the thread, which does everything that takes time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Pass on no snapshots until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Continue at once."""
        self.paused = False
        self._wake.set()

    def stop(self, within_s: float = STOP_WAIT_S) -> bool:
        """End; waits at most `within_s` seconds. False when a call does not return: the thread is left until the process ends."""
        self._stopping = True
        self._wake.set()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(within_s)
        return not self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """Work of the thread until `_stopping` is set, with `_paused` and `_wake`; an exception becomes `failure`."""

    def _publish(self, snapshot: Snapshot) -> None:
        self.latest = snapshot
        if self._on_snapshot is not None:
            self._on_snapshot(snapshot)
