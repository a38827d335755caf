"""Memory of one candidate: bytes by component, and item by item."""

from typing import Generic

import msgspec

from planner.engine.answers.figure import Figure
from planner.engine.records.fields import N


class MemoryParts(msgspec.Struct, Generic[N], frozen=True):
    """Bytes on the fullest GPU at the moment of its peak, by component."""

    weights: N
    gradients: N
    optimizer: N
    activations: N
    logits: N
    kv_cache: N
    buffers: N
    overhead: N
    """Memory that PyTorch's own peak does not count: CUDA context, libraries, communicators, allocator slack."""


MEMORY_COMPONENTS = MemoryParts.__struct_fields__


class MemoryBytes(MemoryParts[float], frozen=True, kw_only=True):
    """Memory of one candidate; the components add up to `total.value`."""

    total: Figure
    capacity: float
    """Bytes of the GPU that programs can use (less than the advertised size)."""
    usable_share: float = 1.0
    """Share of the capacity that the job may use: the engine's share, less what is to stay free."""

    @property
    def usable(self) -> float:
        """Bytes that the job may use."""
        return self.capacity * self.usable_share

    @property
    def left(self) -> float:
        """Usable bytes that are left; negative where it does not fit."""
        return self.usable - self.total.value


class MemoryItem(msgspec.Struct, frozen=True):
    """One thing that takes memory."""

    component: str
    """One of `MEMORY_COMPONENTS`; the items of a component add up to it."""
    name: str
    """Name on screen."""
    bytes: float
    formula: str
    """Formula for the bytes, with the candidate's own numbers filled in."""
    source: str
    """Source of the formula."""


class MemoryDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Fullest GPU of one candidate at its peak, item by item; items of 0 bytes are left out."""

    items: list[MemoryItem]
    total_bytes: float
    """Sum over all items."""
    label_bytes: float
    """Memory on the data sheet."""
    capacity_bytes: float
    """Part of it that programs can take."""
    capacity_source: str
    memory_fraction: float
    """Share of the capacity that the engine may use; where the engine's own fraction is of free memory, converted to one of the capacity."""
    headroom: float
    """Share of that which is kept free."""
    usable_bytes: float
    """capacity_bytes · memory_fraction · (1 - headroom)."""
    host_bytes: float = 0.0
    """Host memory per GPU for what is offloaded."""

    @property
    def left_bytes(self) -> float:
        """Usable bytes that are left; negative where the candidate does not fit."""
        return self.usable_bytes - self.total_bytes
