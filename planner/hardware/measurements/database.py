"""The SQLite file in which earlier versions kept measurements: read once, never written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from planner.hardware.measurements.lines import Line
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
        except sqlite3.OperationalError as refused:
            problems.append(str(refused))
        except sqlite3.DatabaseError as broken:
            return [], [str(broken)]
    raise OSError(problems[0])


def _lines(connection: sqlite3.Connection, problems: list[str]) -> Iterator[Line]:
    """Every row up to the first of its table that cannot be read; what is wrong goes to `problems`."""
    import sqlite3

    connection.row_factory = sqlite3.Row
    for query in QUERIES:
        try:
            for row in connection.execute(query):
                try:
                    yield _line(dict(row))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as fault:
                    problems.append(f"one row cannot be read: {fault}")
        except sqlite3.Error as broken:
            if "no such table: predictions" not in str(broken):  # the first layout had none
                problems.append(str(broken))


def _line(row: dict[str, Any]) -> Line:
    if "body" in row:
        return Line(measurement=msgspec.json.decode(row["body"], type=Measurement))
    if "environment" in row:
        return Line(run=msgspec.convert({**row, "environment": msgspec.json.decode(row["environment"])}, type=Run))
    return Line(prediction=msgspec.convert(row, type=Prediction))
