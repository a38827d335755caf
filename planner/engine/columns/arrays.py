"""Arrays of the table of candidates, and records of arrays with one row for each candidate, replica or run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
"""Row numbers of a table."""


def added(parts: Iterable[Floats]) -> Floats:
    """Sum of arrays that broadcast, added in order, so that a row's sum does not depend on the other rows."""
    return reduce(np.add, parts)


def soft_maximum(a: Floats, b: Floats, knee: Floats | float) -> Floats:
    """Combination of two limits of one piece of work, (a^p + b^p)^(1/p), computed on their ratio to avoid overflow."""
    large, small = np.maximum(a, b), np.minimum(a, b)
    ratio = small / np.where(large > 0, large, 1.0)
    return large * (1 + ratio**knee) ** (1 / knee)


def full(column: Floats, rows: int) -> Floats:
    """`column`, which broadcasts to [rows], in that shape."""
    return column if column.shape == (rows,) else np.broadcast_to(column, (rows,))


def distinct(numbers: Rows) -> tuple[Rows, Rows]:
    """(a row of each different number, which of these rows each row equals); for numbers from 0 with few gaps."""
    row = np.empty(numbers.max(initial=-1) + 1, dtype=np.int64)
    row[numbers] = np.arange(numbers.size)
    there = np.zeros(row.size, dtype=bool)
    there[numbers] = True
    return row[there], (np.cumsum(there) - 1)[numbers]


def numbered(place: Rows) -> Rows:
    """Number, from 0, of each row among those with the same `place`."""
    found, count = np.empty(place.size, dtype=np.int64), np.bincount(place)
    found[np.argsort(place, kind="stable")] = np.arange(place.size) - (np.cumsum(count) - count).repeat(count)
    return found


class Columns(msgspec.Struct, frozen=True):
    """Base of the parts of a table: records whose every field is an array of float64."""

    @classmethod
    def gather(cls, records: Sequence[Any], index: Rows) -> Self:
        """Stack the attributes of `records` that are fields of this class.

        `index` (shape [rows]): the record of each row; None becomes 0. Arrays have shape [rows], or [1] where
        all records have the same number, which all rows share.
        """
        different = {id(record): record for record in records}
        names = cls.__struct_fields__
        read = attrgetter(*names)
        numbers = [[value or 0.0 for value in read(record)] for record in different.values()]
        values = np.array(numbers, dtype=np.float64).T
        columns = dict(zip(names, values[:, :1], strict=True))
        differ = (values != values[:, :1]).any(axis=1).nonzero()[0]
        if differ.size:
            place = dict(zip(different, range(len(different)), strict=True))
            taken = values[differ].take(np.array([place[id(record)] for record in records])[index], axis=1)
            columns |= zip([names[number] for number in differ.tolist()], taken, strict=True)
        return cls(**columns)

    def take(self, keep: Flags | Rows) -> Self:
        """Rows `keep`; shared attributes stay shared."""
        arrays = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(**{name: array if array.size == 1 else array[keep] for name, array in arrays.items()})

    def upright(self) -> Self:
        """Every attribute as a column of shape [rows, 1], for use with numbers along a second axis; shared ones stay shared."""
        arrays = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(**{name: array if array.size == 1 else array[:, None] for name, array in arrays.items()})


R = TypeVar("R", bound="RowRecord")
Record = TypeVar("Record")


class RowRecord(msgspec.Struct, frozen=True):
    """Base of records whose fields are arrays of the same first dimension, other such records, or None."""

    def map(self, change: Callable[[Any], Any]) -> Self:
        """Record after `change` of every array in it."""

        def changed(part: Any) -> Any:
            return part.map(change) if isinstance(part, RowRecord) else part if part is None else change(part)

        return type(self)(**{name: changed(getattr(self, name)) for name in self.__struct_fields__})

    def take(self, index: Flags | Rows) -> Self:
        """Rows `index`: a mask, or row numbers in any order, which may repeat."""
        return self.map(lambda array: array[index])

    def spread(self, index: Rows, rows: int, otherwise: float) -> Self:
        """These rows at the positions `index` of `rows`, and `otherwise` in all others."""

        def placed(array: Any) -> Any:
            column = np.full(rows, otherwise, dtype=array.dtype)
            column[index] = array
            return column

        return self.map(placed)


def joined(parts: Sequence[R]) -> R:
    """Rows of all `parts` (at least one), one part after the other."""

    def together(values: list[Any]) -> Any:
        return joined(values) if isinstance(values[0], RowRecord) else np.concatenate(values)

    return type(parts[0])(**{name: together([getattr(part, name) for part in parts]) for name in parts[0].__struct_fields__})


def positive(columns: dict[str, Floats]) -> list[dict[str, float]]:
    """Numbers above 0 in each row of `columns`, by name."""
    numbers, names = np.stack([*columns.values()], axis=1), [*columns]
    found: list[dict[str, float]] = [{} for _ in numbers]
    row, column = (numbers > 0).nonzero()
    for place, index, number in zip(row.tolist(), column.tolist(), numbers[row, column].tolist(), strict=True):
        found[place][names[index]] = number
    return found


def records(kind: Callable[..., Record], fields: Mapping[str, Sequence[Any]]) -> list[Record]:
    """A record of `kind` for each row of its `fields`."""
    return [kind(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)]
