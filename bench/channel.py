"""Where the worker's messages go: to the planner that listens, and into a journal that outlives both."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from bench.protocol import Bye, Heartbeat, Message, Progress, Result, encode


class Channel:
    """The descriptor the planner listens on, and the journal that outlives it."""

    def __init__(self, descriptor: int, journal: str | None) -> None:
        self._descriptor: int | None = descriptor
        self._journal = open(journal, "ab") if journal else None  # noqa: SIM115, PTH123  # open as long as the process
        self._lock = threading.Lock()

    @property
    def heard(self) -> bool:
        """Whether anything said is read or kept."""
        return self._descriptor is not None or self._journal is not None

    def send(self, message: Message) -> None:
        """One line to the listener; to the journal too unless it is a mere sign of life."""
        line = encode(message)
        with self._lock:
            if not isinstance(message, (Heartbeat, Progress)):
                self._write_down(line, sync=isinstance(message, (Result, Bye)))
            view = memoryview(line)
            while view and self._descriptor is not None:
                try:
                    view = view[os.write(self._descriptor, view) :]
                except OSError:
                    self._descriptor = None

    def _write_down(self, line: bytes, *, sync: bool) -> None:
        """Into the journal; where the disk is full it ends there, and the listener still hears everything."""
        if self._journal is None:
            return
        try:
            self._journal.write(line)
            self._journal.flush()
            if sync:
                os.fsync(self._journal.fileno())
        except OSError as refused:
            sys.stderr.write(f"the journal ends here: {refused.strerror}\n")
            with contextlib.suppress(OSError):
                self._journal.close()
            self._journal = None
