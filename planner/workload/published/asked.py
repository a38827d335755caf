"""Facts that sources of a folder state about their runs and no column can hold: the rules of its `asked.json`, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.reading import kind_of, parse_json, read_file, read_json
from planner.workload.published.rules import NotPredicted, Row, whole


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of rows in the files that `file` matches, if each column of `where` matches its pattern in any letter case."""

    file: str
    why: str
    where: dict[str, str] = {}
    set: dict[str, Any] = {}
    """Request fields; "=column" copies a whole number, null leaves the field out."""
    row: dict[str, str] = {}
    """Corrected values of columns."""
    skip: str | None = None
    """Reason why such rows are left out; with `skip_metrics`, only those of the metrics it matches."""
    skip_metrics: str | None = None

    def applies(self, stem: str, row: Row) -> bool:
        """True if it applies to `row` of the file named `stem`."""
        return bool(re.fullmatch(self.file, stem)) and all(
            re.search(pattern, row.get(column) or "", re.IGNORECASE) for column, pattern in self.where.items()
        )


def read_rules(folder: Path) -> list[Rule]:
    """Rules of `folder`, empty if it has no such file; raises `UserError`."""
    path = folder / "asked.json"
    if not kind_of(path):
        return []
    try:
        return msgspec.convert(parse_json(read_file(path), str(path)), list[Rule])
    except msgspec.ValidationError as error:
        raise UserError(Problem(str(path), "", f"is not a list of rules: {error}.")) from None


def ruled(rules: Sequence[Rule], stem: str, row: Row) -> tuple[Row, dict[str, Any]]:
    """(the corrected row, request fields); raises `NotPredicted` if the row is left out."""
    fields: dict[str, Any] = {}
    for rule in rules:
        if not rule.applies(stem, row):
            continue
        if rule.skip is not None and re.fullmatch(rule.skip_metrics or ".*", row["metric"]):
            raise NotPredicted(rule.skip)
        row = {**row, **rule.row}
        for key, value in rule.set.items():
            copied = isinstance(value, str) and value.startswith("=")
            fields[key] = (whole(row, value[1:]) or None) if copied else value
    return row, fields


def read_names(path: Path) -> dict[str, Any]:
    """An object of configs or of names by label; empty if there is no such file. Raises `UserError`."""
    return read_json(path) if kind_of(path) else {}
