"""The SQLite file in which earlier versions kept measurements: read once, never written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from planner.hardware.measurements.lines import DAMAGE, Line, faults_in
from planner.hardware.measurements.measurement import Measurement, Prediction, Run

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

FILE_NAME = "measurements.sqlite3"
LAYOUT = 2
"""The last layout (`user_version`) that was written."""
QUERIES = (
    "SELECT * FROM runs ORDER BY rowid",
    "SELECT body FROM measurements ORDER BY id",
    "SELECT * FROM predictions ORDER BY measured_at, rowid",
)


def read_database(path: Path) -> tuple[list[Line], list[str]]:
    """Everything in the file that can be read, and in words what cannot.

    Raises `OSError` for a file of a later layout, or one that cannot be opened now.
    """
    import sqlite3

    problems: list[str] = []
    for way in ("mode=ro", "immutable=1"):  # the second needs no file beside it, which a full disk has no room for
        problems.clear()
        try:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{way}", uri=True)) as connection:
                layout = connection.execute("PRAGMA user_version").fetchone()[0]
                if layout > LAYOUT:
                    raise OSError(f"it was written by a later version: layout {layout}, this one knows {LAYOUT}")
                return list(_lines(connection, problems)), problems
        except sqlite3.DatabaseError as refused:
            if _is_broken(refused):
                return [], [str(refused)]
            problems.append(str(refused))
            if _in_use(path, refused):
                break
    raise OSError(problems[0])


def _is_broken(fault: sqlite3.Error) -> bool:
    """Whether the file itself is at fault, and not what stands in the way of reading it now."""
    import sqlite3

    code = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}


def _in_use(path: Path, fault: sqlite3.Error) -> bool:
    """Whether another process writes to it, or its latest rows are in a file beside it, without which it must not be read."""
    import sqlite3

    beside = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    return fault.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED} or any(
        one.exists() and one.stat().st_size for one in beside
    )


def _lines(connection: sqlite3.Connection, problems: list[str]) -> Iterator[Line]:
    """Every row up to the first of its table that cannot be read; what is wrong goes to `problems`."""
    import sqlite3

    connection.row_factory = sqlite3.Row
    for query in QUERIES:
        try:
            for row in connection.execute(query):
                try:
                    line = _line(dict(row))
                except DAMAGE as fault:
                    problems.append(f"one row cannot be read: {fault}")
                    continue
                problems += (found := list(faults_in(line)))
                if not found:
                    yield line
        except UnicodeDecodeError:  # of Python's, where what SQLite says of a fault quotes bytes that are no text
            problems.append("what it says of its tables cannot be read")
        except sqlite3.Error as broken:
            if not _is_broken(broken):
                raise
            if "no such table: predictions" not in str(broken):  # the first layout had none
                problems.append(str(broken))


def _line(row: dict[str, Any]) -> Line:
    if "body" in row:
        return Line(measurement=msgspec.json.decode(row["body"], type=Measurement))
    if "environment" in row:
        return Line(run=msgspec.convert({**row, "environment": msgspec.json.decode(row["environment"])}, type=Run))
    return Line(prediction=msgspec.convert(row, type=Prediction))
