"""Records of the rows of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from planner.engine.columns import Floats

R = TypeVar("R")


def positive(columns: dict[str, Floats]) -> list[dict[str, float]]:
    """For each row the numbers above 0 of `columns`, by name."""
    numbers, names = np.stack([*columns.values()], axis=1), [*columns]
    found: list[dict[str, float]] = [{} for _ in numbers]
    row, column = (numbers > 0).nonzero()
    for place, of, number in zip(row.tolist(), column.tolist(), numbers[row, column].tolist(), strict=True):
        found[place][names[of]] = number
    return found


def records(kind: Callable[..., R], fields: Mapping[str, Sequence[Any]]) -> list[R]:
    """A record of `kind` for each row of its `fields`."""
    return [kind(**dict(zip(fields, values, strict=True))) for values in zip(*fields.values(), strict=True)]
