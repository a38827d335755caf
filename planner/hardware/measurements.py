"""Measurements on disk: one SQLite file that several processes may use, made at the first write.

A file that cannot be read is moved aside, never overwritten; one that cannot be written leaves the session with what it
measured in memory. Both are said in `warnings`, and nothing is raised for them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from planner.hardware.measurement import SELF_TEST, Measurement, MeasurementKind, Run, RunState, Status

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["SELF_TEST", "Measurement", "MeasurementKind", "Run", "RunState", "Status", "Store"]

FILE_NAME = "measurements.sqlite3"
BUSY_MS = 5000
"""How long one process waits for the other's write."""
MIGRATIONS = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, suite TEXT NOT NULL, device TEXT NOT NULL, fingerprint TEXT NOT NULL,
        started_at TEXT NOT NULL, state TEXT NOT NULL, environment TEXT NOT NULL
    );
    CREATE TABLE measurements (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL, point TEXT NOT NULL, suite TEXT NOT NULL, device TEXT NOT NULL,
        fingerprint TEXT NOT NULL, status TEXT NOT NULL, method INTEGER NOT NULL, taken_at TEXT NOT NULL, body TEXT NOT NULL,
        UNIQUE (run, point)
    );
    CREATE INDEX measurements_by_device ON measurements (device, point);
    """,
)
"""Statements that take a file from version N to N+1; `user_version` holds how many were applied."""
LATEST = """
    SELECT body FROM (
        SELECT body, point, device, id, ROW_NUMBER() OVER (
            PARTITION BY device, point
            ORDER BY method DESC, status IN ('ok', 'noisy') DESC, taken_at DESC, id DESC
        ) AS place
        FROM measurements
        WHERE (:device IS NULL OR device = :device)
          AND (:fingerprint IS NULL OR fingerprint = :fingerprint OR substr(fingerprint, 1, length(:fingerprint) + 1) = :fingerprint || '-')
          AND (suite = :suite OR (:suite IS NULL AND suite <> :self_test))
    ) WHERE place = 1 ORDER BY id
"""
RUNS = """
    SELECT runs.*, (SELECT count(*) FROM measurements WHERE run = runs.id) AS measurements
    FROM runs ORDER BY started_at DESC, rowid DESC
"""


class Store:
    """Measurements and runs of this user. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Nothing is opened or made yet; `path` None keeps everything in memory."""
        self.path = path
        self.warnings: list[str] = []
        """What went wrong with the file, one sentence each."""
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store in the file `path`, or in `measurements.sqlite3` of the folder `path`."""
        return cls(path / FILE_NAME if path.is_dir() or not path.suffix else path)

    def add(self, measurement: Measurement) -> None:
        """Keep one point, on disk when this returns. The same point of the same run is kept once."""
        row = (
            measurement.run,
            measurement.point,
            measurement.suite,
            measurement.device,
            measurement.fingerprint,
            measurement.status,
            measurement.method,
            measurement.taken_at,
            msgspec.json.encode(measurement).decode(),
        )
        self._write(
            "INSERT OR IGNORE INTO measurements (run, point, suite, device, fingerprint, status, method, taken_at, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )

    def add_run(self, run: Run) -> None:
        """Note that a run began (or replace what was noted of it)."""
        row = (
            run.id,
            run.suite,
            run.device,
            run.fingerprint,
            run.started_at,
            run.state,
            msgspec.json.encode(run.environment).decode(),
        )
        self._write("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def end_run(self, run: str, state: RunState) -> None:
        """Note how a run ended."""
        self._write("UPDATE runs SET state = ? WHERE id = ?", (state, run))

    def latest(
        self, device: str | None = None, fingerprint: str | None = None, *, suite: str | None = None
    ) -> tuple[Measurement, ...]:
        """One measurement per device and point: the newest that is `solid`, else the newest of all.

        `device` None: all devices. `fingerprint`: a whole one, or its part before the dash (this machine with any torch).
        `suite` None: all but the self-test.
        """
        wanted = {"device": device, "fingerprint": fingerprint, "suite": suite, "self_test": SELF_TEST}
        return self._decoded(self._read(LATEST, wanted))

    def of_run(self, run: str) -> tuple[Measurement, ...]:
        """Everything one run measured, in order."""
        return self._decoded(self._read("SELECT body FROM measurements WHERE run = :run ORDER BY id", {"run": run}))

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
            for row in self._read(RUNS, {})
        )

    def remove(self, run: str) -> int:
        """Forget a run; how many measurements went with it."""
        if self._nothing_there():
            return 0
        gone = self._write("DELETE FROM measurements WHERE run = ?", (run,))
        self._write("DELETE FROM runs WHERE id = ?", (run,))
        return gone

    def __len__(self) -> int:
        rows = self._read("SELECT count(*) AS count FROM measurements", {})
        return int(rows[0]["count"]) if rows else 0

    def __bool__(self) -> bool:
        """A store is a store, also when empty."""
        return True

    def close(self) -> None:
        """Let go of the file; the next use opens it again. What was kept in memory only is lost."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _nothing_there(self) -> bool:
        return self._connection is None and (self.path is None or not self.path.exists())

    def _read(self, statement: str, values: dict[str, Any]) -> list[sqlite3.Row]:
        if self._nothing_there():
            return []
        rows: list[sqlite3.Row] = self._attempt(lambda connection: connection.execute(statement, values).fetchall())
        return rows

    def _write(self, statement: str, values: Iterable[Any]) -> int:
        row = tuple(values)

        def write(connection: sqlite3.Connection) -> int:
            with connection:
                return connection.execute(statement, row).rowcount

        changed: int = self._attempt(write)
        return changed

    def _attempt(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Do `work`; on a broken or unwritable file, do it again on a sound one."""
        import sqlite3

        with self._lock:
            for _ in range(2):
                try:
                    return work(self._connected())
                except sqlite3.OperationalError as refused:
                    if self.path is None or _is_busy(refused):
                        raise
                    self._use_memory(f"cannot be used ({refused})")
                except sqlite3.DatabaseError as broken:
                    if self.path is None:
                        raise
                    self._move_aside(str(broken))
            return work(self._connected())

    def _connected(self) -> sqlite3.Connection:
        import sqlite3

        if self._connection is None:
            if self.path is not None:
                with contextlib.suppress(OSError):
                    self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path or ":memory:", timeout=BUSY_MS / 1000, check_same_thread=False)
            connection.row_factory = sqlite3.Row
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Set the file up and bring it to this version; a file of a later version is left alone."""
        import sqlite3

        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise sqlite3.OperationalError(f"it was written by a later version: layout {version}, this one knows {len(MIGRATIONS)}")
        if self.path is not None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        if version < len(MIGRATIONS):
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for statement in ";".join(MIGRATIONS[version:]).split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            connection.commit()

    def _use_memory(self, reason: str) -> None:
        self.warnings.append(f"{self.path} {reason}: measurements of this session are kept in memory only.")
        self.close()
        self.path = None

    def _move_aside(self, reason: str) -> None:
        """Rename the broken file and its companions, and start a new one."""
        self.close()
        path = self.path
        if path is None:
            return
        aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        try:
            path.replace(aside)
            for companion in ("-wal", "-shm"):
                path.with_name(path.name + companion).unlink(missing_ok=True)
        except OSError as refused:
            self._use_memory(f"is broken ({reason}) and cannot be moved aside ({refused})")
            return
        self.warnings.append(f"{path} is broken ({reason}); it was moved to {aside.name} and a new one begun.")

    def _decoded(self, rows: list[sqlite3.Row]) -> tuple[Measurement, ...]:
        found = []
        for row in rows:
            try:
                found.append(msgspec.json.decode(row["body"], type=Measurement))
            except msgspec.ValidationError as fault:
                self.warnings.append(f"{self.path}: one measurement cannot be read and is left out: {fault}")
        return tuple(found)


def _is_busy(refused: sqlite3.OperationalError) -> bool:
    return "locked" in str(refused) or "busy" in str(refused)
