"""An append-only file of lines that several processes write to: every line is whole and on disk, or not there."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOCK_WAIT_S = 5.0
"""How long one process waits while another writes."""
RETRY_S = 0.005


class LineFile:
    """One file and how far it has been read. Lines are never changed once written, so reading needs no lock."""

    def __init__(self, path: Path, header: bytes) -> None:
        """`header`: the first line of a new file, newline included. Nothing is opened or made yet."""
        self.path = path
        self._header = header
        self._inode: int | None = None
        self._offset = 0

    def read_new(self) -> tuple[bool, bytes]:
        """(Whether the file is another one than before, the whole lines added since the last call).

        A line that lacks its newline is being written, or was cut short, and waits. Raises `OSError`.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            replaced, self._inode, self._offset = self._inode is not None, None, 0
            return replaced, b""
        _check_regular(status)
        replaced = status.st_ino != self._inode or status.st_size < self._offset
        if replaced:
            self._inode, self._offset = status.st_ino, 0
        if status.st_size == self._offset:
            return replaced, b""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return replaced, whole

    def append(self, lines: bytes) -> None:
        """Write whole lines at the end; they are on disk when this returns. Raises `OSError` with the file as it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            _check_regular(os.fstat(descriptor))
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            cut_short = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            try:
                _write_all(descriptor, (b"" if size else self._header) + (b"\n" if cut_short else b"") + lines)
                os.fsync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)  # gives the lock back
        if not size:
            _sync_folder(self.path.parent)


def _check_regular(status: os.stat_result) -> None:
    """Raise `OSError` for a folder, a pipe or a device."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is no regular file")


def _lock(descriptor: int) -> None:
    """Wait for the lock that every writer takes. Raises `OSError` when another process keeps it."""
    import fcntl

    until_s = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise OSError(f"another process has kept it locked for {LOCK_WAIT_S:g} s") from None
            time.sleep(RETRY_S)
        else:
            return


def _write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    """Have the name of a new file outlive a power cut, where the file system can promise it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
