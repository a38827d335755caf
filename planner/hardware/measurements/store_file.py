"""The SQLite file below the store: made at the first write, brought to this version, moved aside when it is broken.

Nothing is raised for a file that is broken or cannot be written: both are said in `warnings`, and the work goes on, in a new
file that holds what could still be read of the old one, or in memory on a copy of what the file held.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

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
    """
    ALTER TABLE measurements ADD COLUMN origin TEXT NOT NULL DEFAULT 'own';
    ALTER TABLE measurements ADD COLUMN quarantine TEXT NOT NULL DEFAULT '';
    ALTER TABLE measurements ADD COLUMN rounds INTEGER NOT NULL DEFAULT 1;
    CREATE TABLE predictions (
        run TEXT NOT NULL, point TEXT NOT NULL, device TEXT NOT NULL, kind TEXT NOT NULL, predicted REAL NOT NULL,
        low REAL NOT NULL, high REAL NOT NULL, basis TEXT NOT NULL, measured REAL NOT NULL, measured_at TEXT NOT NULL,
        version TEXT NOT NULL, PRIMARY KEY (run, point)
    );
    """,
)
"""Statements that take a file from version N to N+1; `user_version` holds how many were applied."""
TABLES = ("runs", "measurements", "predictions")


class StoreFile:
    """One SQLite file that several threads and processes may use."""

    def __init__(self, path: Path | None) -> None:
        """Nothing is opened or made yet; `path` None keeps everything in memory."""
        self.path = path
        self.warnings: list[str] = []
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    @property
    def nothing_there(self) -> bool:
        """Whether nothing was ever written."""
        return self._connection is None and (self.path is None or not self.path.exists())

    def read(self, statement: str, values: dict[str, Any]) -> list[sqlite3.Row]:
        """The rows of one query; none, and no file, when nothing was ever written."""
        if self.nothing_there:
            return []
        rows: list[sqlite3.Row] = self._attempt(lambda connection: connection.execute(statement, values).fetchall())
        return rows

    def write(self, statement: str, values: Iterable[Any]) -> int:
        """Execute one change in a transaction of its own; how many rows it concerned."""
        row = tuple(values)

        def change(connection: sqlite3.Connection) -> int:
            with connection:
                return connection.execute(statement, row).rowcount

        changed: int = self._attempt(change)
        return changed

    def write_all(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> int:
        """Execute several changes, all or none; how many rows they concerned together."""
        batch = list(statements)

        def change(connection: sqlite3.Connection) -> int:
            with connection:
                return sum(max(0, connection.execute(statement, values).rowcount) for statement, values in batch)

        changed: int = self._attempt(change)
        return changed

    def close(self) -> None:
        """Let go of the file; the next use opens it again. What was kept in memory only is lost."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

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
            there = self.path is not None and self.path.exists()
            if self.path is not None:
                with contextlib.suppress(OSError):
                    self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path or ":memory:", timeout=BUSY_MS / 1000, check_same_thread=False)
            connection.row_factory = sqlite3.Row
            try:
                self._prepare(connection)
                if there:
                    _check(connection)
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
        """Go on in memory, with what the file holds where it can still be read."""
        path = self.path
        self.warnings.append(f"{path} {reason}: measurements of this session are kept in memory only.")
        self.close()
        self.path = None
        if path is not None and path.is_file() and "later version" not in reason:
            self._take_over(path)

    def _move_aside(self, reason: str) -> None:
        """Rename the broken file and its companions, and start a new one with what can still be read."""
        self.close()
        path = self.path
        if path is None:
            return
        aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        try:
            path.replace(aside)
            for companion in ("-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    path.with_name(path.name + companion).replace(aside.with_name(aside.name + companion))
        except OSError as refused:
            self._use_memory(f"is broken ({reason}) and cannot be moved aside ({refused})")
            return
        saved = self._take_over(aside)
        rest = f" with the {saved:,} rows that could still be read" if saved else ""
        self.warnings.append(f"{path} is broken ({reason}); it was moved to {aside.name} and a new one begun{rest}.")

    def _take_over(self, old: Path) -> int:
        """Copy the rows of `old` that can be read; how many."""
        import sqlite3

        found: list[tuple[str, tuple[Any, ...]]] = []
        for way in ("mode=ro", "immutable=1"):  # the second needs no file beside it, which a full disk has no room for
            with (
                contextlib.suppress(sqlite3.Error),
                contextlib.closing(sqlite3.connect(f"{old.as_uri()}?{way}", uri=True)) as source,
            ):
                for table in TABLES:
                    with contextlib.suppress(sqlite3.Error):
                        found += _rows_of(source, table)
            if found:
                break
        if not found:
            return 0
        connection = self._connected()
        saved = 0
        for statement, values in found:
            with contextlib.suppress(sqlite3.Error), connection:
                saved += max(0, connection.execute(statement, values).rowcount)
        return saved


def _rows_of(source: sqlite3.Connection, table: str) -> list[tuple[str, tuple[Any, ...]]]:
    """An insertion for every row of `table` up to the first that cannot be read."""
    import sqlite3

    found: list[tuple[str, tuple[Any, ...]]] = []
    cursor = source.execute(f"SELECT * FROM {table}")  # noqa: S608  # one of TABLES
    names = [column[0] for column in cursor.description]
    kept = [place for place, name in enumerate(names) if not (table == "measurements" and name == "id")]
    columns, marks = ", ".join(names[place] for place in kept), ", ".join("?" for _ in kept)
    statement = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608  # names of our own columns
    with contextlib.suppress(sqlite3.Error):
        found.extend((statement, tuple(row[place] for place in kept)) for row in cursor)
    return found


def _check(connection: sqlite3.Connection) -> None:
    """Raise `DatabaseError` when the pages of the file do not fit together."""
    import sqlite3

    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(str(found).replace("\n", " ").removeprefix("*** in database main *** "))


def _is_busy(refused: sqlite3.OperationalError) -> bool:
    return "locked" in str(refused) or "busy" in str(refused)
