"""Lock of a running benchmark, and journal of its worker: every message with all samples, so that results survive a killed planner.

`runs/RUN.part.jsonl` is the journal of a run whose results may not all be in the store, `runs/RUN.jsonl` if all of them are.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

import msgspec

from bench.protocol import Message, decode
from planner.durable import WriteResult, make_folder, sync_folder
from planner.errors import UserError
from planner.hardware.measurements.line_file import DAMAGE, unreadable_text
from planner.observe.benchmark.progress import RunProgress, lost_result
from planner.observe.benchmark.recorder import Recorder
from planner.paths import OPEN_SUFFIX
from planner.reading import read_file
from planner.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planner.hardware.measurements.measurement import Measurement
    from planner.hardware.measurements.store import Store


class RunLock:
    """Lock that allows one benchmark at a time per state folder, because two would distort each other's figures.

    The worker inherits the descriptor, so the lock holds as long as the worker lives, even when the planner is gone.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / "bench.lock"
        self.descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock; returns True on success. Raises `OSError` if the folder cannot be written."""
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
        """Process id of the worker that holds it; empty if unknown."""
        with contextlib.suppress(OSError):
            return self._path.read_text(encoding="ascii", errors="replace").strip()
        return ""

    def note(self, pid: int) -> None:
        """Store the process id of the worker that holds it."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):  # full disk: the lock is held without the id
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)

    def drop(self) -> None:
        """Close this process's descriptor; a worker that inherited the lock keeps it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None


KEPT_JOURNALS = 50
"""Number of newest closed journals that are kept."""
RUN = re.compile(rf"\d{{8}}T\d{{6}}Z-[0-9a-f]{{6}}{re.escape(OPEN_SUFFIX)}")
"""Names of journals; other files are ignored."""
MOST_BYTES = 256 * MIB
"""Largest size of a journal that is read: a hundred times the largest of a standard suite."""
CUT_OFF = "the worker ended during this point, with no planner left to start it again"


def journal_path(state: Path, run: str) -> Path:
    """Path of the journal, whose folder is created. Raises `OSError`."""
    folder = state / "runs"
    make_folder(folder)
    return folder / f"{run}{OPEN_SUFFIX}"


def close_journal(path: Path, result: WriteResult, ending: str = "") -> Path:
    """Rename a journal whose results are all in the store, drop the oldest, and return its path. `ending`: added to its name."""
    closed = path.with_name(f"{path.name.removesuffix(OPEN_SUFFIX)}{ending}.jsonl")
    try:
        if result.kept:
            path.replace(closed)
            sync_folder(path.parent)
            for entry in sorted(entry for entry in path.parent.glob("*.jsonl") if not entry.name.endswith(OPEN_SUFFIX))[
                :-KEPT_JOURNALS
            ]:
                entry.unlink()
    except OSError:
        return path
    return closed if result.kept else path


def recover_journals(state: Path, store: Store, canonical: Callable[[str], str | None] | None = None) -> int:
    """Store measurements taken by workers whose planner was killed; returns their number. Does nothing while a benchmark runs."""
    if not any(_open_journals(state)):
        return 0
    lock = RunLock(state)
    try:
        return recover_locked(state, store, canonical) if lock.take() else 0
    except OSError as error:
        store.warn(f"{state / 'runs'} was not changed: {error.strerror or error}; its measurements are not used.")
        return 0
    finally:
        lock.drop()


def recover_locked(state: Path, store: Store, canonical: Callable[[str], str | None] | None) -> int:
    """`recover_journals` for a caller that holds the lock. Damage of a journal is added to the store's warnings."""
    before = len(store)
    for path in sorted(_open_journals(state)):
        try:
            text = read_file(path, most_bytes=MOST_BYTES)
        except UserError as wrong:
            store.warn(f"{wrong} The measurements of that run are not used.")
        else:
            _recover(path, text, store, canonical)
    return len(store) - before


def _recover(path: Path, text: bytes, store: Store, canonical: Callable[[str], str | None] | None) -> None:
    """Store the intact results of one journal, and rename it; the new name indicates damage."""
    recorder = Recorder(store, path.name.removesuffix(OPEN_SUFFIX), canonical)
    progress = RunProgress()
    found: list[Measurement | None] = []
    problems: list[str] = []
    for line in text[: text.rfind(b"\n") + 1].splitlines():
        try:
            message = _message(line)
            if message is not None:
                progress.follow(message)
                found.append(recorder.read(message))
        except DAMAGE as fault:
            problems.append(str(fault))
    if progress.open_point is not None:
        with contextlib.suppress(msgspec.ValidationError):  # of a run without usable other lines
            found.append(recorder.read(lost_result(progress.open_point, CUT_OFF, for_memory=False)))
    run = recorder.run_in("failed")
    if run is None and text.strip():
        problems.append("it does not say what was measured")
    _, result = store.add_all([one for one in found if one is not None] if run else (), [run] if run else ())
    now = close_journal(path, result, ".damaged" if problems else "")
    if problems:
        store.warn(f"{path} is damaged: {unreadable_text(problems)}. The rest of it was stored, and it is now {now}.")


def _open_journals(state: Path) -> Iterator[Path]:
    return (path for path in (state / "runs").glob(f"*{OPEN_SUFFIX}") if RUN.fullmatch(path.name) and path.is_file())


def _message(line: bytes) -> Message | None:
    """Message in `line`; None for an unknown type, from a newer worker. Raises one of `DAMAGE` for other content."""
    message = decode(line)
    if message is None:
        msgspec.json.decode(line, type=dict[str, Any])
        return None
    return msgspec.json.decode(msgspec.json.encode(message), type=type(message))
