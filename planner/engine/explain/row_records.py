"""Records of the rows of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from planner.engine.columns import Floats

R = TypeVar("R")


def positive(columns: dict[str, Floats]) -> list[dict[str, float]]:
    """For each row the numbers above 0 of `columns`, by name."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{name: number for name, number in zip(columns, row, strict=True) if number > 0} for row in rows]


def records(kind: Callable[..., R], fields: Mapping[str, Sequence[Any]]) -> list[R]:
    """A record of `kind` for each row of its `fields`."""
    return [kind(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)]
