"""Watching this machine while the app runs: the poller's readings as messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot
    from planner.observe.telemetry import Poller


@dataclass
class SnapshotRead(Message):
    """One reading of this machine."""

    snapshot: Snapshot

    def can_replace(self, message: Message) -> bool:
        """On a slow terminal only the newest reading is drawn."""
        return isinstance(message, SnapshotRead)


class Watching:
    """The poller, started once the screen is up."""

    def __init__(self, post: Callable[[Message], object], interval_s: float) -> None:
        self._post = post
        self._interval_s = interval_s
        self._poller: Poller | None = None

    @property
    def running(self) -> bool:
        """Whether there is a poller."""
        return self._poller is not None

    @property
    def paused(self) -> bool:
        """Whether nothing is read for now."""
        return self._poller is not None and self._poller.paused

    def start(self) -> None:
        """Begin reading, in a thread of the poller's own."""
        if self._poller is None:
            from planner.observe.telemetry import Poller

            self._poller = Poller(self._read, interval_s=self._interval_s)
            self._poller.start()

    def _read(self, snapshot: Snapshot) -> None:
        """Hand a reading over, from the poller's thread."""
        self._post(SnapshotRead(snapshot))

    def toggle(self) -> None:
        """Pause or go on."""
        if self._poller is not None:
            if self._poller.paused:
                self._poller.resume()
            else:
                self._poller.pause()

    def stop(self) -> None:
        """End reading."""
        if self._poller is not None:
            self._poller.stop()
