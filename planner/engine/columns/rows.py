"""Records whose fields are arrays with a row each for the same things (candidates, replicas, simulated runs), and records of single rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from planner.engine.columns.arrays import Flags, Floats, Rows

R = TypeVar("R", bound="RowRecord")
Record = TypeVar("Record")


class RowRecord(msgspec.Struct, frozen=True):
    """Base of records whose fields are arrays of the same first dimension, other such records, or None."""

    def map(self, change: Callable[[Any], Any]) -> Self:
        """The record after `change` of every array in it."""

        def changed(part: Any) -> Any:
            return part.map(change) if isinstance(part, RowRecord) else part if part is None else change(part)

        return type(self)(**{name: changed(getattr(self, name)) for name in self.__struct_fields__})

    def take(self, index: Flags | Rows) -> Self:
        """The rows `index`: a mask, or row numbers in any order, which may repeat."""
        return self.map(lambda array: array[index])

    def spread(self, index: Rows, rows: int, otherwise: float) -> Self:
        """These rows at the places `index` of `rows`, and `otherwise` in all others."""

        def placed(array: Any) -> Any:
            column = np.full(rows, otherwise, dtype=array.dtype)
            column[index] = array
            return column

        return self.map(placed)


def joined(parts: Sequence[R]) -> R:
    """The rows of all `parts` (at least one), one part after the other."""

    def together(values: list[Any]) -> Any:
        return joined(values) if isinstance(values[0], RowRecord) else np.concatenate(values)

    return type(parts[0])(**{name: together([getattr(part, name) for part in parts]) for name in parts[0].__struct_fields__})


def positive(columns: dict[str, Floats]) -> list[dict[str, float]]:
    """For each row the numbers above 0 of `columns`, by name."""
    numbers, names = np.stack([*columns.values()], axis=1), [*columns]
    found: list[dict[str, float]] = [{} for _ in numbers]
    row, column = (numbers > 0).nonzero()
    for place, of, number in zip(row.tolist(), column.tolist(), numbers[row, column].tolist(), strict=True):
        found[place][names[of]] = number
    return found


def records(kind: Callable[..., Record], fields: Mapping[str, Sequence[Any]]) -> list[Record]:
    """A record of `kind` for each row of its `fields`."""
    return [kind(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)]
