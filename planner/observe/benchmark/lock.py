"""A lock that a benchmark holds while it measures."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class RunLock:
    """One benchmark at a time per state folder: two would spoil each other's figures.

    The worker inherits the descriptor, so the lock holds as long as it lives, even when the planner is gone.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / "bench.lock"
        self.descriptor: int | None = None

    def take(self) -> bool:
        """Whether the lock is ours now. Raises `OSError` when the folder cannot be written."""
        import fcntl

        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self.descriptor = descriptor
        return True

    def holder(self) -> str:
        """Process id of the worker that holds it, as it was noted; empty when unknown."""
        with contextlib.suppress(OSError):
            return self._path.read_text(encoding="ascii", errors="replace").strip()
        return ""

    def note(self, pid: int) -> None:
        """Write down which worker holds it."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):  # a full disk: the lock holds, nameless
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)

    def drop(self) -> None:
        """Close our descriptor; the lock stays with a worker that inherited it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None
