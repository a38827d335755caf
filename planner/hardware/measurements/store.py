"""Measurements on disk: an append-only file of JSON lines that several processes may use, made at the first write.

A line that cannot be read is left out and costs nothing but itself. A file that cannot be written, or was written by a later
version, leaves the session with what it measured in memory. Both are said in `warnings`, and nothing is raised for them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from planner.hardware.measurements.line_file import LineFile
from planner.hardware.measurements.lines import LAYOUT, Line, decoded, encoded, unreadable_text
from planner.hardware.measurements.measurement import SELF_TEST, Measurement, Prediction, Run, RunState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FILE_NAME = "measurements.jsonl"


class Store:
    """Measurements, runs and predictions of this user. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Nothing is opened or made yet; `path` None keeps everything in memory."""
        self.warnings: list[str] = []
        """What went wrong with the file, one sentence each."""
        self._file = LineFile(path, encoded([Line(layout=LAYOUT)])) if path is not None else None
        self._lock = threading.RLock()
        self._clear()

    @classmethod
    def open(cls, folder: Path) -> Store:
        """The store in `folder`, which need not exist."""
        return cls(folder / FILE_NAME)

    @property
    def path(self) -> Path | None:
        """The file; None when everything is kept in memory."""
        return self._file.path if self._file is not None else None

    def add(self, measurement: Measurement) -> None:
        """Keep one point, on disk when this returns. The same point of the same run is kept once: the one of most rounds."""
        self.add_all([measurement])

    def add_all(self, measurements: Iterable[Measurement], runs: Iterable[Run] = ()) -> int:
        """Keep the points and runs that are not there yet; how many points were new."""
        with self._lock:
            self._read()
            before = len(self._measurements)
            lines = [Line(run=run) for run in runs if run.id not in self._runs]
            lines += [Line(measurement=one) for one in measurements if self._is_news(one)]
            self._write(lines)
            return len(self._measurements) - before

    def add_run(self, run: Run) -> None:
        """Note that a run began (or replace what was noted of it)."""
        self._write([Line(run=run)])

    def end_run(self, run: str, state: RunState) -> None:
        """Note how a run ended."""
        with self._lock:
            self._read()
            if run in self._runs:
                self._write([Line(run=msgspec.structs.replace(self._runs[run], state=state))])

    def add_prediction(self, prediction: Prediction) -> None:
        """Keep what was predicted of a point that is now measured; once per run and point."""
        with self._lock:
            self._read()
            if (prediction.run, prediction.point) not in self._predictions:
                self._write([Line(prediction=prediction)])

    def remove(self, measurements: Iterable[Measurement]) -> int:
        """Forget these points, their predictions, and runs that have no point left; how many points went."""
        with self._lock:
            self._read()
            before = len(self._measurements)
            keys = tuple(key for one in measurements if (key := (one.run, one.point)) in self._measurements)
            self._write([Line(removed=keys)] if keys else [])
            return before - len(self._measurements)

    def latest(
        self,
        device: str | None = None,
        fingerprint: str | None = None,
        *,
        suite: str | None = None,
        without_run: str | None = None,
    ) -> tuple[Measurement, ...]:
        """One measurement per device and point: of the latest method, reliable before disturbed, one's own before others, the newest.

        `device` None: all devices. `fingerprint`: a whole one, or its part before the dash (this machine with any torch).
        `suite` None: all but the self-test. `without_run`: as if that run had not been. Quarantined ones are left out.
        """
        best: dict[tuple[str, str], tuple[tuple[int, bool, bool, str, int], Measurement]] = {}
        for place, one in enumerate(self.all()):
            if one.quarantine or one.run == without_run or (one.suite != suite if suite else one.suite == SELF_TEST):
                continue
            if device not in {None, one.device} or not f"{one.fingerprint}-".startswith(f"{fingerprint or one.fingerprint}-"):
                continue
            rank = (one.method, one.status in {"ok", "noisy"}, one.origin == "own", one.taken_at, place)
            key = (one.device, one.point)
            if key not in best or rank > best[key][0]:
                best[key] = (rank, one)
        return tuple(one for _, one in sorted(best.values(), key=lambda entry: entry[0][-1]))

    def all(self) -> tuple[Measurement, ...]:
        """Every measurement, in the order they came, quarantined ones too."""
        with self._lock:
            self._read()
            return tuple(self._measurements.values())

    def runs(self) -> tuple[Run, ...]:
        """All runs, newest first."""
        with self._lock:
            self._read()
            counts = dict.fromkeys(self._runs, 0)
            for run, _ in self._measurements:
                counts[run] = counts.get(run, 0) + 1
            found = [msgspec.structs.replace(run, measurements=counts[run.id]) for run in reversed(self._runs.values())]
        return tuple(sorted(found, key=lambda run: run.started_at, reverse=True))

    def predictions(self) -> tuple[Prediction, ...]:
        """Every prediction that was later measured, oldest first."""
        with self._lock:
            self._read()
            return tuple(sorted(self._predictions.values(), key=lambda one: one.measured_at))

    def __len__(self) -> int:
        return len(self.all())

    def __bool__(self) -> bool:
        """A store is a store, also when empty."""
        return True

    def _clear(self) -> None:
        self._runs: dict[str, Run] = {}
        self._measurements: dict[tuple[str, str], Measurement] = {}
        self._predictions: dict[tuple[str, str], Prediction] = {}
        self._imported: set[str] = set()

    def _is_news(self, one: Measurement) -> bool:
        """Whether the point is not there yet, or with fewer rounds."""
        known = self._measurements.get((one.run, one.point))
        return known is None or one.rounds > known.rounds

    def _read(self) -> None:
        """Apply what was written to the file since it was last read, by this process or another."""
        if self._file is None:
            return
        try:
            replaced, text = self._file.read_new()
        except OSError as refused:
            self._keep_in_memory(f"cannot be read ({refused.strerror or refused})")
            return
        if replaced:
            self._clear()
        lines, problems = decoded(text)
        layout = max((line.layout for line in lines if line.layout is not None), default=LAYOUT)
        if layout > LAYOUT:
            self._keep_in_memory(f"was written by a later version: layout {layout}, this one knows {LAYOUT}")
            return
        if problems:
            self.warnings.append(f"{self.path}: {unreadable_text(problems)}")
        for line in lines:
            self._apply(line)
        self._import_database()

    def _apply(self, line: Line) -> None:
        if line.run is not None:
            self._runs[line.run.id] = line.run
        if line.measurement is not None and self._is_news(line.measurement):
            self._measurements[line.measurement.run, line.measurement.point] = line.measurement
        if line.prediction is not None:
            self._predictions.setdefault((line.prediction.run, line.prediction.point), line.prediction)
        if line.imported is not None:
            self._imported.add(line.imported)
        if line.removed:
            for key in line.removed:
                self._measurements.pop(key, None)
                self._predictions.pop(key, None)
            remaining = {run for run, _ in self._measurements}
            for run in {run for run, _ in line.removed} - remaining:
                self._runs.pop(run, None)

    def _write(self, lines: Sequence[Line]) -> None:
        """Write the lines all or none, and apply them; where the file refuses, go on in memory."""
        with self._lock:
            self._read()
            if self._file is not None and lines:
                try:
                    self._file.append(encoded(lines))
                except OSError as refused:
                    self._keep_in_memory(f"cannot be written ({refused.strerror or refused})")
            if self._file is not None:
                self._read()
            else:
                for line in lines:
                    self._apply(line)

    def _keep_in_memory(self, reason: str) -> None:
        self.warnings.append(f"{self.path} {reason}: measurements of this session are kept in memory only.")
        self._file = None

    def _import_database(self) -> None:
        """Take in, once, what earlier versions kept in an SQLite file beside this one; that file stays as it is."""
        from planner.hardware.measurements import database

        path = self._file.path.with_name(database.FILE_NAME) if self._file is not None else None
        if path is None or database.FILE_NAME in self._imported or not path.exists():
            return
        self._imported.add(database.FILE_NAME)
        try:
            lines, problems = database.read_database(path)
        except OSError as refused:
            self.warnings.append(f"{path} is left alone: {refused}")
            return
        if problems:
            self.warnings.append(f"{path} is damaged: {unreadable_text(problems)}")
        self._write([*lines, Line(imported=database.FILE_NAME)])
