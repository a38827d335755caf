"""Writing files: whole or not at all, on disk when the call returns; the result states whether the file was kept."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from planner.errors import Problem, UserError

LOST = {errno.EIO, errno.ENOSPC, errno.EDQUOT}
"""Errors of flushing a folder that mean data may be lost; other errors say that the file system has no such flush."""

READER_WAIT_S = 3.0
"""Time that a pipe has to find its reader."""


class NotStoredError(UserError):
    """A result that a command had to write is not on disk."""


class WriteResult(NamedTuple):
    """Result of a write: stored (flushed to the disk under its name) or not. Every write of the program returns one."""

    path: Path | None
    reason: str = ""
    """Reason why it is in memory only; empty: it is on disk."""

    @property
    def kept(self) -> bool:
        """True if it is on disk."""
        return not self.reason

    def __str__(self) -> str:
        return f"kept in {self.path}" if self.kept else f"in memory only: {self.path} {self.reason}"

    def require(self) -> None:
        """Raise `NotStoredError` unless it was kept."""
        if not self.kept:
            raise NotStoredError(Problem(str(self.path or ""), "", f"{self.reason}."))


def refused(path: Path, error: OSError) -> WriteResult:
    """The result of a write that the system refused."""
    return WriteResult(path, f"cannot be written: {error.strerror or error}")


def write_whole(path: Path, text: str | bytes, check: Callable[[Path], object] | None = None) -> WriteResult:
    """Replace the file completely or leave it as it was; `check` reads the new content before it takes effect, and may raise.

    The folder is made when needed. A symbolic link of this user is followed, one of another user is replaced.
    """
    try:
        own_link = path.is_symlink() and path.lstat().st_uid == os.geteuid()
        _replace(Path(os.path.realpath(path)) if own_link else path, _encoded(text), check)
    except OSError as error:
        return refused(path, error)
    return WriteResult(path)


def write_out(path: Path, text: str | bytes) -> None:
    """Write a file that the user named, in a folder there is; it may be a device or a pipe that is read. Raises `NotStoredError`."""
    try:
        path.parent.stat()  # a folder that is mistyped is not made
        if not path.exists() or stat.S_ISREG(path.stat().st_mode):
            write_whole(path, text).require()
            return
        descriptor = _opened_special(path)
        try:
            write_all(descriptor, _encoded(text))
        finally:
            os.close(descriptor)
    except OSError as error:
        refused(path, error).require()


def _opened_special(path: Path) -> int:
    """A descriptor of a device or pipe to write to. Raises `OSError`, also when nobody reads the pipe for some seconds."""
    until_s = time.monotonic() + READER_WAIT_S
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(path.stat().st_mode):
                raise
            if time.monotonic() >= until_s:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from None
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def check_regular(status: os.stat_result) -> None:
    """Raise `OSError` for a folder, a pipe or a device."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a regular file")


def make_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, to stay. Raises `OSError`."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in the folder, where its file system can. Raises `OSError`."""
    descriptor = -1
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in LOST:
            raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def write_all(descriptor: int, text: bytes) -> None:
    """Write every byte. Raises `OSError`."""
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _replace(path: Path, text: bytes, check: Callable[[Path], object] | None) -> None:
    """Write beside the file under a name nobody can guess, flush, and rename. Raises `OSError`, and what `check` raises."""
    make_folder(path.parent)
    before = None
    with contextlib.suppress(FileNotFoundError):
        before = path.lstat()
    if before is not None and not stat.S_ISLNK(before.st_mode):
        check_regular(before)
    temporary = path.with_name(f".gpu-planner-{os.urandom(8).hex()}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            if before is not None and stat.S_ISREG(before.st_mode):
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            write_all(descriptor, text)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if check is not None:
            check(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)
