"""Catalogue files: TOML lists of tables, with a `[defaults]` table whose keys every entry starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from planner.errors import Problem, Problems, UserError, nearest_names
from planner.reading import read_toml, toml_files
from planner.schema import faults

S = TypeVar("S", bound=msgspec.Struct)


def read_catalogue(
    files: Iterable[Path], table: str, kind: type[S], faults_of: Callable[[Sequence[S], Path], Iterable[Problem]]
) -> list[S]:
    """The `[[table]]` entries of all `files` as `kind`; raises `UserError` with one problem per fault, over all files.

    `faults_of`: further checks of the entries of one file.
    """
    problems: list[Problem] = []
    entries: list[S] = []
    for path in files:
        try:
            read = read_entries(path, table, kind)
        except UserError as error:
            problems += error.problems
            continue
        problems += faults_of(read, path)
        entries += read
    if problems:
        raise UserError(problems)
    return entries


def catalogue_files(folder: Path) -> list[Path]:
    """TOML files below `folder`, by name; raises `UserError` without any."""
    files = toml_files(folder)
    if not files:
        raise UserError(Problem(str(folder), "", "contains no catalogue (.toml files)."))
    return files


def read_entries(path: Path, table: str, kind: type[S]) -> list[S]:
    """The `[[table]]` entries of one file as `kind`; raises `UserError` with one problem per fault."""
    document = read_toml(path)
    problems = Problems(str(path))
    for name in document:
        if name not in {table, "defaults"}:
            problems.add(name, f"unknown key. Known keys: defaults, {table}.", nearest_names(name, ("defaults", table)))
    defaults, given = document.get("defaults", {}), document.get(table, [])
    if not isinstance(defaults, dict):
        problems.add("defaults", "has to be a table, written [defaults].")
        defaults = {}
    if not isinstance(given, list):
        problems.add(table, f"has to be a list of tables, written [[{table}]].")
        given = []
    entries = [_with_defaults(entry, defaults) if isinstance(entry, dict) else entry for entry in given]
    try:
        read = msgspec.convert(entries, list[kind])  # type: ignore[valid-type]  # the element type is an argument
    except msgspec.ValidationError:
        _add_faults(problems, entries, table, kind)
        read = []
    problems.raise_if_any()
    return read


def _with_defaults(entry: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """`defaults` overlaid by `entry`; a table that both have is overlaid key by key."""
    tables = {
        name: {**own, **entry[name]}
        for name, own in defaults.items()
        if isinstance(own, dict) and isinstance(entry.get(name), dict)
    }
    return {**defaults, **entry, **tables}


def _add_faults(problems: Problems, entries: list[Mapping[str, Any]], table: str, kind: type[msgspec.Struct]) -> None:
    for index, entry in enumerate(entries):
        label = next((entry[name] for name in ("name", "instance") if name in entry), index) if isinstance(entry, dict) else index
        problems.found += faults(kind, entry, problems.where, f"{table}[{label}]")
