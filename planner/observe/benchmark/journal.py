"""What the worker leaves on disk: a lock while it runs, and a journal that outlives a planner that was cut off."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from bench.protocol import Hello, Lines, Message, Plan, Point, Result, Skip, Start, fingerprint
from planner.hardware.measurements.measurement import Measurement, Run, RunState
from planner.hardware.measurements.store import Store
from planner.observe.benchmark.restart import lost_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPEN_SUFFIX = ".part.jsonl"
"""Of a journal whose results are not all known to be in the store."""
KEPT_JOURNALS = 50
"""Journals hold every sample; the newest are kept to be looked at."""
CUT_OFF = "the worker ended during this point, with no planner left to start it again"


def journal_path(state: Path, run: str) -> Path:
    """Where the worker writes; its folder exists afterwards. Raises `OSError`."""
    folder = state / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run}{OPEN_SUFFIX}"


def close_journal(path: Path) -> None:
    """All of it is in the store: take the mark off, and drop the oldest beyond `KEPT_JOURNALS`."""
    with contextlib.suppress(OSError):
        path.replace(path.with_name(path.name.removesuffix(OPEN_SUFFIX) + ".jsonl"))
        closed = sorted(entry for entry in path.parent.glob("*.jsonl") if not entry.name.endswith(OPEN_SUFFIX))
        for entry in closed[:-KEPT_JOURNALS]:
            entry.unlink()


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

        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self.descriptor = descriptor
        return True

    def holder(self) -> str:
        """Process id of the worker that has it, as it was noted; empty when unknown."""
        with contextlib.suppress(OSError):
            return self._path.read_text(encoding="ascii", errors="replace").strip()
        return ""

    def note(self, pid: int) -> None:
        """Write down who has it; on a full disk nobody learns that."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, 0)
                os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)

    def drop(self) -> None:
        """Close our descriptor; the lock stays with a worker that inherited it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None


def adopt_journals(state: Path, store: Store, canonical: Callable[[str], str | None] | None = None) -> int:
    """Store what workers measured after their planner was cut off; how many measurements that were.

    Cheap when there is nothing; does nothing while a benchmark runs.
    """
    if not any((state / "runs").glob(f"*{OPEN_SUFFIX}")):
        return 0
    lock = RunLock(state)
    try:
        return adopt_locked(state, store, canonical) if lock.take() else 0
    except OSError:
        return 0
    finally:
        lock.drop()


def adopt_locked(state: Path, store: Store, canonical: Callable[[str], str | None] | None) -> int:
    """`adopt_journals` for a caller that holds the lock."""
    before = len(store)
    for path in sorted((state / "runs").glob(f"*{OPEN_SUFFIX}")):
        record = Record(store, path.name.removesuffix(OPEN_SUFFIX), canonical)
        for message in Lines().feed(path.read_bytes()):
            record.take(message)
        record.lose(CUT_OFF)
        record.close("failed")
        close_journal(path)
    return len(store) - before


class Record:
    """Turns a worker's messages into runs and measurements of the store."""

    def __init__(self, store: Store, run: str, canonical: Callable[[str], str | None] | None) -> None:
        self.store = store
        self.run = run
        self.device = ""
        self.fingerprint = ""
        self._points: set[str] = set()
        self._planned: dict[str, Point] = {}
        self._open = ""
        self._canonical = canonical
        self._hello: Hello | None = None
        self._suite = ""

    @property
    def kept(self) -> int:
        """Points stored so far."""
        return len(self._points)

    def take(self, message: Message) -> Measurement | None:
        """Keep what `message` says; the measurement when it was one."""
        if isinstance(message, Start):
            self._open = message.point
        elif isinstance(message, (Result, Skip)):
            self._open = ""
        if isinstance(message, Hello):
            self._hello = message
            self.device = self._name(message)
            self.fingerprint = fingerprint(message.machine, message.software)
        elif isinstance(message, Plan) and self._hello is not None:
            self._suite = message.suite
            self._planned |= {point.id: point for point in message.points}
            self.store.add_run(self._run_record(self._hello))
        elif isinstance(message, Result) and self._hello is not None:
            measurement = self._measurement(message, self._hello)
            if measurement is not None:
                self.store.add(measurement)
                self._points.add(measurement.point)
            return measurement
        return None

    def lose(self, detail: str, *, for_memory: bool = False) -> Measurement | None:
        """Keep the point that had begun as one without a value; the measurement when there was one."""
        point = self._planned.get(self._open)
        return self.take(lost_result(point, detail, for_memory=for_memory)) if point is not None else None

    def close(self, state: RunState) -> None:
        """Note how the run ended."""
        if self._suite:
            self.store.end_run(self.run, state)

    def _name(self, hello: Hello) -> str:
        """The catalogue's name of a GPU; of the CPU the name the planner itself reads."""
        if hello.device == "cpu":
            from planner.observe.host import cpu_name

            return cpu_name()
        return (self._canonical(hello.device_name) if self._canonical else None) or hello.device_name

    def _run_record(self, hello: Hello) -> Run:
        started = f"{self.run[0:4]}-{self.run[4:6]}-{self.run[6:8]}T{self.run[9:11]}:{self.run[11:13]}:{self.run[13:15]}Z"
        return Run(
            id=self.run,
            suite=self._suite,
            device=self.device,
            fingerprint=self.fingerprint,
            started_at=started,
            environment={**hello.environment, "device_name": hello.device_name},
        )

    def _measurement(self, result: Result, hello: Hello) -> Measurement | None:
        """None for a kind of result this planner does not know (a newer worker)."""
        body = {
            "point": result.point,
            "kind": result.kind,
            "device": self.device,
            "fingerprint": self.fingerprint,
            "dtype": result.dtype,
            "parameters": result.parameters,
            "value": result.value,
            "low": result.low,
            "high": result.high,
            "status": result.status,
            "detail": result.detail,
            "taken_at": result.taken_at,
            "suite": self._suite,
            "run": self.run,
            "flop": result.flop,
            "bytes": result.bytes,
            "samples": len(result.samples_s),
            "spread": result.spread,
            "rounds": result.round,
            "telemetry": result.telemetry,
            "peak_memory_bytes": result.peak_memory_bytes,
            "method": hello.method,
        }
        try:
            return msgspec.convert(body, type=Measurement, strict=False)
        except msgspec.ValidationError:
            return None
