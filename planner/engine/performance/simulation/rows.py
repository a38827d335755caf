"""Records whose fields are arrays with a row for each replica, or for each simulated run of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self, TypeVar

import numpy as np

from planner.engine.columns import Flags, Rows

R = TypeVar("R", bound="RowRecord")


class RowRecord:
    """Base of dataclasses whose fields are arrays of the same first dimension, other such records, or None."""

    def take(self, index: Flags | Rows) -> Self:
        """The rows `index`: a mask, or row numbers in any order, which may repeat."""

        def taken(part: Any) -> Any:
            return part.take(index) if isinstance(part, RowRecord) else part if part is None else part[index]

        return type(self)(**{name: taken(getattr(self, name)) for name in _names(self)})


def joined(parts: Sequence[R]) -> R:
    """The rows of all `parts` (at least one), one part after the other."""

    def together(values: list[Any]) -> Any:
        return joined(values) if isinstance(values[0], RowRecord) else np.concatenate(values)

    return type(parts[0])(**{name: together([getattr(part, name) for part in parts]) for name in _names(parts[0])})


def _names(record: Any) -> list[str]:
    return [item.name for item in fields(record)]
