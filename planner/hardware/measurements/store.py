"""Measurements on disk: an append-only file of JSON lines that several processes may use, created at the first write.

A line that cannot be read is left out without affecting others. Where the file cannot be written at the moment, new lines stay
in memory and are written next time; a file of a later version is neither read nor written. Each such fault is in `warnings`, every write
returns whether it was stored, and nothing is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from planner.durable import WriteResult, refused
from planner.hardware.measurements.line_file import LAYOUT, LOCK_WAIT_S, Line, LineFile, decoded, encoded, unreadable_text
from planner.hardware.measurements.measurement import SELF_TEST, Measurement, Prediction, Run, RunState
from planner.hardware.measurements.newest import Outlier, believed_until, newest, newest_of_boards, outliers

FILE_NAME = "measurements.jsonl"
NEXT_WAIT_S = 0.2
"""Seconds that a write waits for the file's lock after a refused one."""


class Store:
    """Measurements, runs and predictions of this user. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Store at `path`, without opening or creating it yet; None keeps everything in memory."""
        self.warnings: list[str] = []
        """Faults of the file, one sentence each."""
        self._file = LineFile(path, encoded([Line(layout=LAYOUT)])) if path is not None else None
        self._lock = threading.RLock()
        self._waiting: list[Line] = []
        """Lines that are in memory only."""
        self._damage: list[str] = []
        """Faults of lines of the file."""
        self._unread = ""
        """Reason why the file cannot be read."""
        self._result = WriteResult(path, "" if path is not None else "has no file")
        self._clear()

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Store in `folder`, which need not exist."""
        return cls(folder / FILE_NAME)

    @property
    def path(self) -> Path | None:
        """File; None when everything is kept in memory."""
        return self._result.path if self._file is not None else None

    @property
    def result(self) -> WriteResult:
        """Whether everything so far is on disk."""
        return self._result

    def waiting(self, run: str | None = None) -> int:
        """Number of measurements (of the run) that are in memory only."""
        with self._lock:
            found = {(one.run, one.point) for line in self._waiting if (one := line.measurement) and run in {None, one.run}}
        return len(found)

    def warn(self, text: str) -> None:
        """Note a fault, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def add(self, measurement: Measurement) -> WriteResult:
        """Store one point. The same point of the same run is stored once: the one with the most rounds."""
        return self.add_all([measurement])[1]

    def add_all(self, measurements: Iterable[Measurement], runs: Iterable[Run] = ()) -> tuple[int, WriteResult]:
        """Store new points, and runs that are new or have ended since; also returns the number of new points."""
        with self._lock:
            self._read()
            before = len(self._measurements)
            lines = [Line(run=run) for run in runs if self._runs.get(run.id, _UNKNOWN).state == "running"]
            lines += [Line(measurement=one) for one in measurements if self._is_news(one)]
            result = self._write(lines)
            return len(self._measurements) - before, result

    def add_run(self, run: Run) -> WriteResult:
        """Record the start of a run, or replace its record."""
        return self._write([Line(run=run)])

    def end_run(self, run: str, state: RunState) -> WriteResult:
        """Note how a run ended."""
        with self._lock:
            self._read()
            return self._write([Line(run=msgspec.structs.replace(self._runs[run], state=state))] if run in self._runs else [])

    def add_prediction(self, prediction: Prediction) -> WriteResult:
        """Store the prediction for a point that is now measured; once per run and point."""
        with self._lock:
            self._read()
            known = (prediction.run, prediction.point) in self._predictions
            return self._write([] if known else [Line(prediction=prediction)])

    def remove(self, measurements: Iterable[Measurement]) -> tuple[int, WriteResult]:
        """Delete these points, their predictions, and runs that have no point left; also returns the number of deleted points."""
        with self._lock:
            self._read()
            before = len(self._measurements)
            keys = tuple(key for one in measurements if (key := (one.run, one.point)) in self._measurements)
            result = self._write([Line(removed=keys)] if keys else [])
            return before - len(self._measurements), result

    def latest(
        self, device: str | None = None, fingerprint: str | None = None, *, suite: str | None = None, without_run: str | None = None
    ) -> tuple[Measurement, ...]:
        """One measurement per device and point: the latest method, reliable before disturbed, the user's own before others, the newest.

        Own measurements are in the order they were taken, whatever the clock was; a future time of others counts as the oldest. Boards of
        others are merged (`planner.hardware.measurements.newest`).
        `device` None: all devices. `fingerprint`: a complete one, or its part before the dash (this machine with any torch). `suite`
        None: all but the self-test. `without_run`: as if that run did not exist. Quarantined ones are left out.
        """
        wanted = (
            one
            for one in self.all()
            if (one.suite == suite if suite else one.suite != SELF_TEST)
            and one.run != without_run
            and device in {None, one.device}
            and f"{one.fingerprint}-".startswith(f"{fingerprint or one.fingerprint}-")
        )
        return newest(wanted)

    def fleet_outliers(self) -> list[Outlier]:
        """Imported boards that are far from their peers, and that `latest` leaves out."""
        return outliers(newest_of_boards(one for one in self.all() if one.origin != "own" and one.suite != SELF_TEST))

    def all(self) -> tuple[Measurement, ...]:
        """Every measurement, in order of arrival, including quarantined ones."""
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
        now = believed_until()
        return tuple(sorted(found, key=lambda run: run.started_at if run.started_at <= now else "", reverse=True))

    def predictions(self) -> tuple[Prediction, ...]:
        """Every prediction that was later measured, oldest first."""
        with self._lock:
            self._read()
            return tuple(sorted(self._predictions.values(), key=lambda one: one.measured_at))

    def __len__(self) -> int:
        return len(self.all())

    def __bool__(self) -> bool:
        """True: an empty store is not false."""
        return True

    def _clear(self) -> None:
        self._runs: dict[str, Run] = {}
        self._measurements: dict[tuple[str, str], Measurement] = {}
        self._predictions: dict[tuple[str, str], Prediction] = {}
        self._layout = LAYOUT

    def _is_news(self, one: Measurement) -> bool:
        """True if the point is new, or was stored with fewer rounds."""
        known = self._measurements.get((one.run, one.point))
        return known is None or one.rounds > known.rounds

    def _read(self) -> None:
        """Apply lines written to the file since it was last read, by this process or another."""
        if self._file is None:
            return
        try:
            self._catch_up(self._file)
        except OSError as error:
            self._unread = str(error.strerror or error)
            self._result = WriteResult(self.path, f"cannot be read: {self._unread}")
            self.warn(f"{self.path} {self._result.reason}; its contents are not used, and new measurements stay in memory.")
        else:
            self._unread = ""
            self._result = self._result if self._waiting else WriteResult(self.path)
            if self._damage:
                self.warn(self._damage_text)

    @property
    def _damage_text(self) -> str:
        return f"{self.path}: {unreadable_text(self._damage)}"

    def _catch_up(self, file: LineFile) -> None:
        """Raise `OSError` for a file that cannot be read now, or is of a later version."""
        replaced, text = file.read_new()
        if replaced:
            self._clear()
        lines, problems = decoded(text)
        self._layout = max((line.layout for line in lines if line.layout is not None), default=self._layout)
        if self._layout > LAYOUT:
            versions = f"(layout {self._layout}, this one knows {LAYOUT})"
            raise OSError(
                f"it was written by a later version {versions} and was not changed: update gpu-planner, or move the file away"
            )
        self._damage += problems
        for line in [*lines, *(self._waiting if replaced else ())]:
            self._apply(line)

    def _apply(self, line: Line) -> None:
        if line.run is not None:
            self._runs[line.run.id] = line.run
        if line.measurement is not None and self._is_news(line.measurement):
            self._measurements[line.measurement.run, line.measurement.point] = line.measurement
        if line.prediction is not None:
            self._predictions.setdefault((line.prediction.run, line.prediction.point), line.prediction)
        if line.removed:
            for key in line.removed:
                self._measurements.pop(key, None)
                self._predictions.pop(key, None)
            remaining = {run for run, _ in self._measurements}
            for run in {run for run, _ in line.removed} - remaining:
                self._runs.pop(run, None)

    def _write(self, lines: Sequence[Line]) -> WriteResult:
        """Write all lines or none, and apply them; lines that the file refuses are written next time."""
        with self._lock:
            lines = [*self._waiting, *lines]
            if self._file is None:
                self._waiting = lines
            elif lines:
                self._append(self._file, lines)
            for line in self._waiting:
                self._apply(line)
            return self._result

    def _append(self, file: LineFile, lines: list[Line]) -> None:
        def current() -> bytes:
            self._catch_up(file)
            return encoded(lines)

        wait_s = NEXT_WAIT_S if self._waiting else LOCK_WAIT_S
        try:
            if (self._damage or file.unfinished) and not self._unread:
                count, aside = file.set_aside(lambda line: bool(decoded(line)[0]), wait_s)
                if count:
                    self.warnings = [one for one in self.warnings if one != self._damage_text]
                    self._damage = self._damage or ["it was cut off"]
                    self.warn(f"{self._damage_text} Moved to {aside}.")
                self._damage = []
            file.append(current, wait_s)
        except OSError as error:
            self._waiting, self._result = lines, refused(file.path, error)
            if str(error.strerror or error) != self._unread:
                self.warn(f"{file.path} {self._result.reason}; new entries stay in memory only.")
        else:
            self._waiting = []
            self._read()
            self._result = WriteResult(file.path)


_UNKNOWN = Run(id="", suite="", device="", fingerprint="", started_at="")
