"""Recordings of telemetry: files of JSON lines, one snapshot each, limited in size, written and read.

A line that begins with # is a comment. When FILE is full it becomes FILE.1, FILE.1 becomes FILE.2, and the oldest part is deleted.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from planner import paths
from planner.durable import NotKeptError, check_regular
from planner.errors import Problem, UserError
from planner.observe.snapshot import Snapshot
from planner.reading import open_file, read_file
from planner.units import MIB

DEFAULT_LIMIT_BYTES = 256 * MIB
"""Limit of all parts together: about a day of one GPU at one reading a second, a quarter of a day with eight."""
PARTS = 4
"""Number of parts: FILE and the parts before it."""
LOOKED_AT = 1024
"""Bytes at the beginning that distinguish a recording of this program from another tool's log."""
MOST_BYTES = 1 << 31
"""Largest size of a part that is read."""


def part_path(path: Path, number: int) -> Path:
    """Path of part `number` of the recording at `path`; 0 is the newest, `path` itself."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


class Recorder:
    """Context manager that appends snapshots to a file. All parts together stay below the limit, apart from one line."""

    def __init__(self, path: Path, limit_bytes: float = DEFAULT_LIMIT_BYTES) -> None:
        """Recorder that opens `path` for appending, or creates it; raises `NotKeptError` when it cannot be written."""
        self._path = path
        self._part_bytes = limit_bytes / PARTS
        self._encoder = msgspec.json.Encoder()
        try:
            self._file = self._appended()
            if self._file.tell() and not self._ends_whole():
                self._file.write(b"\n")  # the previous run ended in the middle of a line
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> NotKeptError:
        return NotKeptError(Problem("--record", "", f"{self._path} cannot be written: {error.strerror or error}."))

    def _appended(self) -> BinaryIO:
        """File, open for appending; a pipe without a reader would block the program."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            check_regular(os.fstat(descriptor))
        except OSError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "ab")

    def _ends_whole(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"

    def keep(self, snapshot: Snapshot) -> None:
        """Write one snapshot; raises `NotKeptError` when there is no room left."""
        line = self._encoder.encode(snapshot) + b"\n"
        try:
            if self._file.tell() and self._file.tell() + len(line) > self._part_bytes:
                self._rotate()
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._refused(error) from error

    def _rotate(self) -> None:
        self._file.close()
        for number in reversed(range(PARTS - 1)):
            with contextlib.suppress(FileNotFoundError):
                part_path(self._path, number).replace(part_path(self._path, number + 1))
        self._file = self._appended()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # every line was flushed before
            self._file.close()


@dataclass(frozen=True, slots=True)
class Recording:
    """A complete recording in memory."""

    name: str
    """Its name on a badge: 'demo', or 'replay' and the file's name."""
    snapshots: tuple[Snapshot, ...]
    """Snapshots in order of time; at least one."""
    unreadable: tuple[int, ...] = ()
    """Numbers of the lines, over all parts, that are not snapshots; a process that is killed may leave one."""

    @property
    def seconds(self) -> float:
        """Time from the first reading to the last."""
        return max(0.0, self.snapshots[-1].taken_at_s - self.snapshots[0].taken_at_s)


def read_recording(path: Path, name: str | None = None) -> Recording:
    """Recording at `path` after its older parts; raises `UserError` if it is missing or has no snapshot."""
    decoder = msgspec.json.Decoder(Snapshot)
    label = name or f"replay {path.name}"
    snapshots: list[Snapshot] = []
    unreadable: list[int] = []
    reason = "it is empty"
    number = 0
    if (logged := _logged(path, label)) is not None:
        return Recording(label, tuple(logged))
    for part in reversed(range(PARTS)):
        older = part_path(path, part)
        if part and not older.exists():
            continue
        for line in read_file(older, most_bytes=MOST_BYTES).splitlines():
            number += 1
            if not line.strip() or line.startswith(b"#"):
                continue
            try:
                snapshots.append(msgspec.structs.replace(decoder.decode(line), source=label))
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                reason = f"line {number}: {error}"
                unreadable.append(number)
    if not snapshots:
        raise UserError(Problem(str(path), "", f"is not a recording of telemetry: {reason}."))
    return Recording(label, tuple(snapshots), tuple(unreadable))


def _logged(path: Path, label: str) -> list[Snapshot] | None:
    """Readings of a log that another tool wrote; None for a recording of this program, or no text."""
    with open_file(path) as file:
        head = file.read(LOOKED_AT).lstrip(b"\xef\xbb\xbf \r\n\t")
    if not head or head.startswith(b"{"):
        return None
    from planner.observe.telemetry.smi_log import logged_snapshots

    return logged_snapshots(read_file(path, most_bytes=MOST_BYTES).decode(errors="replace"), str(path), label)


def read_demo() -> Recording:
    """Shipped recording, which is composed by hand, not measured."""
    return read_recording(paths.presets_folder() / "recordings" / "demo.jsonl", "demo")
