"""Measurements on disk: one SQLite file that several processes may use, made at the first write.

A file that cannot be read is moved aside, never overwritten; one that cannot be written leaves the session with what it
measured in memory. Both are said in `warnings`, and nothing is raised for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from planner.hardware.measurements.measurement import SELF_TEST, Measurement, Prediction, Run, RunState
from planner.hardware.measurements.store_file import StoreFile

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from pathlib import Path

FILE_NAME = "measurements.sqlite3"
ADD = """
    INSERT INTO measurements
        (run, point, suite, device, fingerprint, status, method, taken_at, body, origin, quarantine, rounds)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, point) DO UPDATE SET
        status = excluded.status, taken_at = excluded.taken_at, body = excluded.body, rounds = excluded.rounds
    WHERE excluded.rounds > measurements.rounds
"""
LATEST = """
    SELECT body FROM (
        SELECT body, point, device, id, ROW_NUMBER() OVER (
            PARTITION BY device, point
            ORDER BY method DESC, status IN ('ok', 'noisy') DESC, origin = 'own' DESC, taken_at DESC, id DESC
        ) AS place
        FROM measurements
        WHERE (:device IS NULL OR device = :device)
          AND (:fingerprint IS NULL OR fingerprint = :fingerprint OR substr(fingerprint, 1, length(:fingerprint) + 1) = :fingerprint || '-')
          AND (suite = :suite OR (:suite IS NULL AND suite <> :self_test))
          AND (:without IS NULL OR run <> :without)
          AND quarantine = ''
    ) WHERE place = 1 ORDER BY id
"""
RUNS = """
    SELECT runs.*, (SELECT count(*) FROM measurements WHERE run = runs.id) AS measurements
    FROM runs ORDER BY started_at DESC, rowid DESC
"""


class Store:
    """Measurements, runs and predictions of this user. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Nothing is opened or made yet; `path` None keeps everything in memory."""
        self._file = StoreFile(path)

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store in the file `path`, or in `measurements.sqlite3` of the folder `path`."""
        return cls(path / FILE_NAME if path.is_dir() or not path.suffix else path)

    @property
    def path(self) -> Path | None:
        """The file; None when everything is kept in memory."""
        return self._file.path

    @property
    def warnings(self) -> list[str]:
        """What went wrong with the file, one sentence each."""
        return self._file.warnings

    def add(self, measurement: Measurement) -> None:
        """Keep one point, on disk when this returns. The same point of the same run is kept once: the one of most rounds."""
        self._file.write(ADD, _row(measurement))

    def add_all(self, measurements: Iterable[Measurement], runs: Iterable[Run] = ()) -> int:
        """Keep the points and runs that are not there yet, all or none; how many points were new."""
        given = list(measurements)
        before = len(self)
        statements: list[tuple[str, tuple[Any, ...]]] = [
            ("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", _run_row(run)) for run in runs
        ]
        self._file.write_all([*statements, *((ADD, _row(one)) for one in given)])
        return len(self) - before

    def add_run(self, run: Run) -> None:
        """Note that a run began (or replace what was noted of it)."""
        self._file.write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", _run_row(run))

    def end_run(self, run: str, state: RunState) -> None:
        """Note how a run ended."""
        self._file.write("UPDATE runs SET state = ? WHERE id = ?", (state, run))

    def latest(
        self,
        device: str | None = None,
        fingerprint: str | None = None,
        *,
        suite: str | None = None,
        without_run: str | None = None,
    ) -> tuple[Measurement, ...]:
        """One measurement per device and point: the newest that is `solid`, one's own first, else the newest of all.

        `device` None: all devices. `fingerprint`: a whole one, or its part before the dash (this machine with any torch).
        `suite` None: all but the self-test. `without_run`: as if that run had not been. Quarantined ones are left out.
        """
        wanted = {"device": device, "fingerprint": fingerprint, "suite": suite, "self_test": SELF_TEST, "without": without_run}
        return self._decoded(self._file.read(LATEST, wanted))

    def all(self) -> tuple[Measurement, ...]:
        """Every measurement, in the order they came, quarantined ones too."""
        return self._decoded(self._file.read("SELECT body FROM measurements ORDER BY id", {}))

    def runs(self) -> tuple[Run, ...]:
        """All runs, newest first."""
        return tuple(
            Run(
                id=row["id"],
                suite=row["suite"],
                device=row["device"],
                fingerprint=row["fingerprint"],
                started_at=row["started_at"],
                state=row["state"],
                environment=msgspec.json.decode(row["environment"], type=dict[str, Any]),
                measurements=row["measurements"],
            )
            for row in self._file.read(RUNS, {})
        )

    def remove(self, run: str) -> int:
        """Forget a run; how many measurements went with it."""
        if self._file.nothing_there:
            return 0
        gone = self._file.write("DELETE FROM measurements WHERE run = ?", (run,))
        self._file.write("DELETE FROM predictions WHERE run = ?", (run,))
        self._file.write("DELETE FROM runs WHERE id = ?", (run,))
        return gone

    def remove_measurements(self, measurements: Iterable[Measurement]) -> int:
        """Forget these points, their predictions, and runs that have no point left; how many points went."""
        keys = [(one.run, one.point) for one in measurements]
        if self._file.nothing_there or not keys:
            return 0
        before = len(self)
        statements: list[tuple[str, tuple[Any, ...]]] = []
        for table in ("measurements", "predictions"):
            statements += [(f"DELETE FROM {table} WHERE run = ? AND point = ?", key) for key in keys]  # noqa: S608  # two names
        empty = "DELETE FROM runs WHERE id = ? AND NOT EXISTS (SELECT 1 FROM measurements WHERE run = runs.id)"
        statements += [(empty, (run,)) for run in dict.fromkeys(run for run, _ in keys)]
        self._file.write_all(statements)
        return before - len(self)

    def add_prediction(self, prediction: Prediction) -> None:
        """Keep what was predicted of a point that is now measured; once per run and point."""
        names = Prediction.__struct_fields__
        marks = ", ".join("?" for _ in names)
        statement = f"INSERT OR IGNORE INTO predictions ({', '.join(names)}) VALUES ({marks})"  # noqa: S608  # names of our own fields
        self._file.write(statement, [getattr(prediction, name) for name in names])

    def predictions(self) -> tuple[Prediction, ...]:
        """Every prediction that was later measured, oldest first."""
        rows = self._file.read("SELECT * FROM predictions ORDER BY measured_at, rowid", {})
        return tuple(msgspec.convert(dict(row), type=Prediction) for row in rows)

    def __len__(self) -> int:
        rows = self._file.read("SELECT count(*) AS count FROM measurements", {})
        return int(rows[0]["count"]) if rows else 0

    def __bool__(self) -> bool:
        """A store is a store, also when empty."""
        return True

    def close(self) -> None:
        """Let go of the file; the next use opens it again. What was kept in memory only is lost."""
        self._file.close()

    def _decoded(self, rows: list[sqlite3.Row]) -> tuple[Measurement, ...]:
        found = []
        for row in rows:
            try:
                found.append(msgspec.json.decode(row["body"], type=Measurement))
            except msgspec.ValidationError as fault:
                self.warnings.append(f"{self.path}: one measurement cannot be read and is left out: {fault}")
        return tuple(found)


def _row(one: Measurement) -> tuple[Any, ...]:
    body = msgspec.json.encode(one).decode()
    kept = (one.origin, one.quarantine, one.rounds)
    return (one.run, one.point, one.suite, one.device, one.fingerprint, one.status, one.method, one.taken_at, body, *kept)


def _run_row(run: Run) -> tuple[Any, ...]:
    environment = msgspec.json.encode(run.environment).decode()
    return (run.id, run.suite, run.device, run.fingerprint, run.started_at, run.state, environment)
