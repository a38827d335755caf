"""Messages of the worker: sent to the planner, and written to a journal that survives both processes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import BinaryIO

from bench.protocol import Bye, Heartbeat, Message, Progress, Result, encode


class Channel:
    """Descriptor on which the planner listens, and the journal that survives it."""

    def __init__(self, descriptor: int, journal: str | None) -> None:
        self._descriptor: int | None = descriptor
        self._journal = _opened(journal) if journal else None
        self._lock = threading.Lock()
        self._ended = False
        """True if `Bye` has been sent."""

    @property
    def has_reader(self) -> bool:
        """True if messages are still read or written to the journal."""
        return self._descriptor is not None or self._journal is not None

    def send(self, message: Message) -> None:
        """Send one line to the listener, and write it to the journal unless it is only a heartbeat or progress; nothing after `Bye`."""
        line = encode(message)
        with self._lock:
            if self._ended:
                return
            self._ended = isinstance(message, Bye)
            if not isinstance(message, (Heartbeat, Progress)):
                self._write_down(line, sync=isinstance(message, (Result, Bye)))
            view = memoryview(line)
            while view and self._descriptor is not None:
                try:
                    view = view[os.write(self._descriptor, view) :]
                except OSError:
                    self._descriptor = None

    def _write_down(self, line: bytes, *, sync: bool) -> None:
        """Append a line to the journal. If the disk is full, the journal ends; the listener still gets every message."""
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


def _opened(path: str) -> BinaryIO | None:
    """Journal, open for the life of the process; None, with the reason on stderr, if it cannot be written."""
    try:
        journal = open(path, "ab")  # noqa: SIM115, PTH123 - open as long as the process; pathlib would be one more import in the worker
        if journal.tell() and not _ends_whole(path):
            journal.write(b"\n")  # a worker was killed while writing a line
    except OSError as refused:
        sys.stderr.write(f"there is no journal: {refused.strerror}\n")
        return None
    return journal


def _ends_whole(path: str) -> bool:
    with open(path, "rb") as journal:  # noqa: PTH123 - as above
        journal.seek(-1, os.SEEK_END)
        return journal.read(1) == b"\n"
