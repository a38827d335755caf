"""File of measurements, to which several processes append JSON lines: every line is completely on disk, or not there."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from planner.durable import check_regular, make_folder, sync_folder, write_all, write_whole
from planner.hardware.measurements.measurement import Measurement, Prediction, Run, faults_of

LAYOUT = 1
"""Version of the lines; raised when a field is added or changes its meaning, so that earlier versions do not touch the file."""
encoded = msgspec.json.Encoder().encode_lines
"""Writes lines of the file."""
DAMAGE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
"""Errors raised by decoding a line that is not from this program."""
LOCK_WAIT_S = 5.0
"""Seconds that one process waits while another writes."""
RETRY_S = 0.005


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the file, with exactly one of these fields."""

    layout: int | None = None
    """First line: `LAYOUT` of the version that began the file."""
    run: Run | None = None
    """A run, or its present state."""
    measurement: Measurement | None = None
    prediction: Prediction | None = None
    removed: tuple[tuple[str, str], ...] = ()
    """(run, point) of measurements that were removed; runs without others are removed as well."""


_DECODER = msgspec.json.Decoder(Line)


def decoded(text: bytes) -> tuple[list[Line], list[str]]:
    """Readable and plausible lines of `text`, and the faults of the others."""
    problems: list[str] = []
    try:
        found = _DECODER.decode_lines(text)
    except DAMAGE:
        found = []
        for line in filter(None, text.split(b"\n")):
            try:
                found.append(_DECODER.decode(line))
            except DAMAGE as error:
                problems.append(str(error))
    wrong = {place: fault for place, one in enumerate(found) if (fault := next(faults_in(one), None))}
    return [one for place, one in enumerate(found) if place not in wrong], [*problems, *wrong.values()]


def faults_in(line: Line) -> Iterator[str]:
    """Faults of a line that cannot be true."""
    if line.measurement is not None:
        yield from (f"{name}: {text}" for name, text in faults_of(line.measurement))
    if line.prediction is not None and not all(0 < one < math.inf for one in (line.prediction.predicted, line.prediction.measured)):
        yield "a prediction without figures."


def unreadable_text(problems: Sequence[str]) -> str:
    """'2 lines cannot be read, the first: …'."""
    count = "one line" if len(problems) == 1 else f"{len(problems):,} lines"
    return f"{count} cannot be read, the first: {problems[0]}"


class LineFile:
    """One file and how far it has been read. Lines are never changed once written, so reading needs no lock."""

    def __init__(self, path: Path, header: bytes) -> None:
        """File at `path`, not opened or created yet; `header`: the first line of a new file, including the newline."""
        self.path = path
        self._header = header
        self._inode: int | None = None
        self._offset = 0
        self.unfinished = False
        """True if its last line lacked its end when it was read."""

    def read_new(self) -> tuple[bool, bytes]:
        """(whether the file was replaced, the whole lines added since the last call). Raises `OSError`.

        A line without its newline is still being written, or was cut short, and waits.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            replaced, self._inode, self._offset = self._inode is not None, None, 0
            return replaced, b""
        with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor has no path
            status = os.fstat(descriptor)
            check_regular(status)
            replaced = status.st_ino != self._inode or status.st_size < self._offset
            if replaced:
                self._inode, self._offset = status.st_ino, 0
            file.seek(self._offset)
            text = file.read() if status.st_size > self._offset else b""
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.unfinished = len(whole) < len(text)
        return replaced, whole

    def append(self, lines: Callable[[], bytes], wait_s: float = LOCK_WAIT_S) -> None:
        """Write complete lines at the end; they are on disk on return. Raises `OSError` and leaves the file unchanged.

        `lines` returns them once no other process can write, and may refuse with `OSError`.
        """
        make_folder(self.path.parent)
        with self._locked(wait_s) as descriptor:
            text, size = lines(), os.fstat(descriptor).st_size
            cut_short = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            try:
                write_all(descriptor, (b"" if size else self._header) + (b"\n" if cut_short else b"") + text)
                os.fsync(descriptor)
                if not size:
                    sync_folder(self.path.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise

    def set_aside(self, sound: Callable[[bytes], bool], wait_s: float = LOCK_WAIT_S) -> tuple[int, Path]:
        """Move lines that are not `sound` to a separate file: (number, its path). Raises `OSError`."""
        aside = LineFile(self.path.with_name(f"{self.path.stem}.damaged{self.path.suffix}"), b"")
        with self._locked(wait_s):
            lines = self.path.read_bytes().split(b"\n")
            damaged = [line + b"\n" for line in lines if line and not sound(line)]
            if damaged:
                aside.append(lambda: b"".join(damaged))
                kept = b"".join(line + b"\n" for line in lines if line and sound(line))
                result = write_whole(self.path, kept if kept.startswith(self._header) else self._header + kept)
                if not result.kept:
                    raise OSError(result.reason)
        return len(damaged), aside.path

    @contextlib.contextmanager
    def _locked(self, wait_s: float) -> Iterator[int]:
        """A descriptor of the file, created when needed, while no other process may write.

        A link to a file with another beginning leads to another program's file, which is not changed.
        """
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            try:
                check_regular(os.fstat(descriptor))
                _lock(descriptor, wait_s)
                if self._names(descriptor):
                    if self.path.is_symlink() and os.pread(descriptor, len(self._header), 0) not in {b"", self._header}:
                        raise OSError("it is a link to a file of another kind, which is not changed")
                    yield descriptor
                    return
            finally:
                os.close(descriptor)  # releases the lock

    def _names(self, descriptor: int) -> bool:
        """True if the path still leads to the open file, which another process may have replaced meanwhile."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False


def _lock(descriptor: int, wait_s: float) -> None:
    """Wait for the lock that every writer takes. Raises `OSError` when another process keeps it."""
    import fcntl

    until_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise OSError("another process keeps it locked") from None
            time.sleep(RETRY_S)
        else:
            return
