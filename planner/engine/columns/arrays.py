"""Arrays of the table of candidates, and how records are stacked into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
"""Row numbers of a table."""


def added(parts: Iterable[Floats]) -> Floats:
    """The sum of arrays that broadcast, added in order, so that a row's sum does not depend on the other rows."""
    return reduce(np.add, parts)


class Columns:
    """Base of the parts of a table: dataclasses whose every field is an array of float64."""

    @classmethod
    def gather(cls, records: Sequence[Any], index: Rows) -> Self:
        """Stack the attributes of `records` that are fields of this class.

        `index` (shape [rows]) says which record each row takes; None becomes 0. Arrays have shape [rows], or [1] where
        there is one record, which all rows share.
        """
        different = {id(record): record for record in records}
        names = [item.name for item in fields(cls)]  # type: ignore[arg-type]  # every subclass is a dataclass
        values = np.array([[getattr(record, name) or 0.0 for record in different.values()] for name in names], dtype=np.float64)
        if len(records) > 1:
            place = dict(zip(different, range(len(different)), strict=True))
            values = values.take(np.array([place[id(record)] for record in records])[index], axis=1)
        return cls(**dict(zip(names, values, strict=True)))

    def take(self, keep: Flags | Rows) -> Self:
        """The rows `keep`; shared attributes stay shared."""
        arrays = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # as above
        return type(self)(**{name: array if array.size == 1 else array[keep] for name, array in arrays.items()})
