"""Measurements as one JSON file for exchange: with the fingerprint of the machine, without host, user or path names.

Shipped (`presets/measurements/*.json`), exported and imported files have the same form. Reading checks
every row: its fields, its unit, and whether the GPU can reach its figures (`plausibility`). An implausible row is stored in
quarantine with the reason; a malformed row is rejected, and then nothing of the file is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from planner.errors import Problem, UserError
from planner.hardware.measurements.measurement import UNITS, Measurement, Origin, Run, faults_of
from planner.hardware.measurements.plausibility import collective_faults, implausibility
from planner.reading import parse_json, read_file
from planner.schema import faults
from planner.text import json_document

if TYPE_CHECKING:
    from pathlib import Path

    from planner.hardware.catalogue.gpus import Gpu

SCHEMA = 1
"""Version of the file; raised when a field changes its meaning."""
PATHS = re.compile(r"(?<![\w.])~?/(?:[\w.+@-]+/)*[\w.+@-]+|\b[A-Za-z]:\\[^\s'\"]+")
"""Absolute paths in free text; 'FLOP/s' does not match."""
HIDDEN = "…"


class Row(Measurement, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A measurement that states its unit."""

    unit: str


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    schema: int
    exported_at: str
    """UTC, ISO 8601."""
    tool_version: str
    note: str = ""
    """Source of the figures, and terms of use."""
    runs: tuple[Run, ...] = ()
    measurements: tuple[Row, ...]


def export_document(
    measurements: Iterable[Measurement], runs: Iterable[Run], *, version: str, exported_at: str, private: Iterable[str] = ()
) -> bytes:
    """File as text, with the environments of the runs; `private`: words that are hidden in its free text."""
    kept = list(measurements)
    named = {one.run for one in kept}
    words = sorted({word for word in private if len(word) > 2}, key=len, reverse=True)
    rows = [{**msgspec.to_builtins(one), "unit": UNITS[one.kind]} for one in kept]
    for row in rows:
        del row["origin"]
    document = {
        "schema": SCHEMA,
        "exported_at": exported_at,
        "tool_version": version,
        "runs": [msgspec.to_builtins(run) for run in runs if run.id in named],
        "measurements": rows,
    }
    fields = (json_document(name) + b": " + _lines(value) for name, value in _without(document, words).items())
    return b"{\n" + b",\n".join(fields) + b"\n}\n"


def _lines(value: Any) -> bytes:
    """`value` as JSON with one line for each entry of a list, so that differences between files are differences of measurements."""
    if not isinstance(value, list):
        return json_document(value)
    return b"[\n" + b",\n".join(map(json_document, value)) + b"\n]"


def _without(value: Any, words: Sequence[str]) -> Any:
    """`value` with every path and every private word in its texts hidden."""
    if isinstance(value, dict):
        return {name: _without(entry, words) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without(entry, words) for entry in value]
    if not isinstance(value, str):
        return value
    text = PATHS.sub(HIDDEN, value)
    for word in words:
        text = re.sub(re.escape(word), HIDDEN, text, flags=re.IGNORECASE)
    return text


def read_document(
    text: bytes, where: str, origin: Origin, known: Callable[[str], Gpu | None], cpu_key: str = ""
) -> tuple[tuple[Run, ...], tuple[Measurement, ...]]:
    """Runs and measurements of a file; implausible ones have `quarantine` set. Raises `UserError` with every fault of every row.

    `known`: finds the GPU for a name. `cpu_key`: beginning of this processor's fingerprints, because processors of one name are sold
    with different numbers of cores.
    """
    given = parse_json(text, where)
    schema = given.get("schema") if isinstance(given, dict) else None
    if schema != SCHEMA:
        what = "has no 'schema'" if schema is None else f"is of schema {schema!r}"
        raise UserError(Problem(where, "schema", f"{what}; this version reads measurement files of schema {SCHEMA}."))
    if problems := faults(Document, given, where):
        raise UserError(problems)
    document = msgspec.convert(given, Document)
    if problems := [problem for place, row in enumerate(document.measurements) for problem in _faults(row, where, place)]:
        raise UserError(problems)
    return document.runs, tuple(_checked(row, origin, known, cpu_key) for row in document.measurements)


def load_shipped(folder: Path, known: Callable[[str], Gpu | None]) -> tuple[Measurement, ...]:
    """Measurements shipped in `folder/*.json`; raises `UserError` with every fault of every file."""
    found: list[Measurement] = []
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found += read_document(read_file(path), str(path), "shipped", known)[1]
        except UserError as wrong:
            problems += wrong.problems
    if problems:
        raise UserError(problems)
    return tuple(found)


def with_shipped(own: Sequence[Measurement], shipped: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """`own`, and the shipped measurements of points for which `own` has none of the device."""
    measured = {(one.device, one.point) for one in own if one.reliable}
    return (*own, *(one for one in shipped if one.reliable and (one.device, one.point) not in measured))


def _checked(row: Row, origin: Origin, known: Callable[[str], Gpu | None], cpu_key: str) -> Measurement:
    fields = {name: getattr(row, name) for name in Measurement.__struct_fields__}
    gpu = known(row.device)
    plain = Measurement(**{**fields, "origin": origin, "device": gpu.name if gpu else row.device})
    reason = implausibility(plain, gpu) if gpu else ""
    if gpu and gpu.kind == "cpu" and row.fingerprint.partition("-")[0] != cpu_key:
        reason = "measured on another machine: a processor's figures hold for its number of cores and its memory alone"
    return msgspec.structs.replace(plain, quarantine=row.quarantine or reason)


def _faults(row: Row, where: str, place: int) -> Iterator[Problem]:
    """Faults of one row whose fields have the right types."""
    key = f"measurements[{place}]"
    wanted = UNITS[row.kind]
    if row.unit != wanted:
        yield Problem(where, f"{key}.unit", f"{row.unit!r} is not the unit of {row.kind}: {wanted}.")
    yield from (Problem(where, f"{key}.{name}", text) for name, text in faults_of(row))
    if row.kind == "collective" and row.value is not None:
        yield from (Problem(where, f"{key}.parameters.{name}", text) for name, text in collective_faults(row.parameters))
