"""Type of an attribute that is a number in a record and an array in a column."""

from __future__ import annotations

from typing import Any, TypeVar

N = TypeVar("N")
"""`float` in the record of one thing, `Floats` in the columns of many."""


def default(value: float) -> Any:
    """Default of an attribute of type `N`, for records; columns are always given in full."""
    return value
