"""Tensors of a checkpoint: names, shapes and bytes, without their values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import msgspec


class StoredTensor(msgspec.Struct, frozen=True):
    """One tensor as stored in a file."""

    name: str
    dtype: str
    """Name in the format: 'BF16', 'F8_E4M3', 'Q4_K'."""
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Number of elements; packed formats hold several in one."""
        return math.prod(self.shape)


class Stored(msgspec.Struct, frozen=True):
    """All tensors of one dtype."""

    dtype: str
    tensors: int
    elements: int
    bytes: int


def by_dtype(tensors: Iterable[StoredTensor]) -> tuple[Stored, ...]:
    """Sums for each dtype, the most bytes first."""
    count, elements, size = Counter[str](), Counter[str](), Counter[str]()
    for one in tensors:
        count[one.dtype] += 1
        elements[one.dtype] += one.elements
        size[one.dtype] += one.bytes
    return tuple(Stored(dtype, count[dtype], elements[dtype], size[dtype]) for dtype, _ in size.most_common())
