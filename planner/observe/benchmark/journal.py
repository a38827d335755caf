"""The journal that a worker writes: every message with all samples, so that results outlive a planner that was killed.

`runs/RUN.part.jsonl` is the journal of a run whose results are not all known to be in the store, `runs/RUN.jsonl` of one whose are.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from bench.protocol import Lines, Message
from planner.observe.benchmark.lock import RunLock
from planner.observe.benchmark.progress import RunProgress, lost_result
from planner.observe.benchmark.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from planner.hardware.measurements.store import Store

OPEN_SUFFIX = ".part.jsonl"
KEPT_JOURNALS = 50
"""Closed journals that are kept to be looked at, the newest."""
CUT_OFF = "the worker ended during this point, with no planner left to start it again"


def journal_path(state: Path, run: str) -> Path:
    """Where the worker writes; its folder exists afterwards. Raises `OSError`."""
    folder = state / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run}{OPEN_SUFFIX}"


def close_journal(path: Path, store: Store) -> None:
    """Mark a journal as being in the store, and drop the oldest; while the store keeps nothing on disk it stays open."""
    if store.path is None:
        return
    with contextlib.suppress(OSError):
        path.replace(path.with_name(path.name.removesuffix(OPEN_SUFFIX) + ".jsonl"))
        closed = sorted(entry for entry in path.parent.glob("*.jsonl") if not entry.name.endswith(OPEN_SUFFIX))
        for entry in closed[:-KEPT_JOURNALS]:
            entry.unlink()


def recover_journals(state: Path, store: Store, canonical: Callable[[str], str | None] | None = None) -> int:
    """Store what workers measured after their planner was killed; how many measurements that were.

    Cheap when there is nothing to recover; does nothing while a benchmark runs.
    """
    if not any(_open_journals(state)):
        return 0
    lock = RunLock(state)
    try:
        return recover_locked(state, store, canonical) if lock.take() else 0
    except OSError:
        return 0
    finally:
        lock.drop()


def recover_locked(state: Path, store: Store, canonical: Callable[[str], str | None] | None) -> int:
    """`recover_journals` for a caller that holds the lock. Raises `OSError`."""
    before = len(store)
    for path in sorted(_open_journals(state)):
        recorder = Recorder(store, path.name.removesuffix(OPEN_SUFFIX), canonical)
        progress = RunProgress()
        for message in _messages(path.read_bytes()):
            progress.follow(message)
            recorder.record(message)
        if progress.open_point is not None:
            recorder.record(lost_result(progress.open_point, CUT_OFF, for_memory=False))
        recorder.close("failed")
        close_journal(path, store)
    return len(store) - before


def _open_journals(state: Path) -> Iterator[Path]:
    return (path for path in (state / "runs").glob(f"*{OPEN_SUFFIX}") if path.is_file())


def _messages(text: bytes) -> Iterator[Message]:
    """The messages whose every field has the type it should have: a journal may be damaged, or written by anybody."""
    for message in Lines().feed(text):
        with contextlib.suppress(msgspec.ValidationError, RecursionError, TypeError, ValueError):
            yield msgspec.json.decode(msgspec.json.encode(message), type=type(message))
