"""GPUs as their vendors describe them, read from `presets/gpus/`.

All compute rates are dense (no structured sparsity) and with FP32 accumulation where the vendor gives both.
"""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

Confidence = Literal["high", "medium", "low"]


class MigProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One slice size of a multi-instance GPU."""

    name: str
    """'1g.10gb'."""
    count: int
    """How many of it fit on one GPU."""


class Purchase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one part costs to buy."""

    price_usd: float
    kind: Literal["list price estimate", "launch MSRP"]
    as_of: str
    source: str
    note: str = ""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part. Unknown figures are None, with the reason in `note`."""

    name: str
    """Canonical, unique."""
    vendor: str
    architecture: str
    kind: Literal["gpu", "cpu"] = "gpu"
    compute_capability: str | None = None
    memory_bytes: float
    """The label on the box, in bytes."""
    usable_memory_bytes: float | None = None
    """What the driver reports as total; None: not published, the engine assumes a share of the label."""
    memory_type: str | None = None
    memory_bandwidth_bytes_per_s: float
    compute_flop_per_s: dict[str, float]
    """Dtype ('fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'int8', 'fp4') -> dense peak; a missing dtype is unsupported or unknown."""
    sm_count: int | None = None
    boost_clock_hz: float | None = None
    l2_bytes: float | None = None
    tdp_w: float | None = None
    nvlink_bytes_per_s: float | None = None
    """Total of both directions and all links of one GPU; None: no such link."""
    pcie_generation: int | None = None
    pcie_bytes_per_s: float | None = None
    """Total of both directions (x16)."""
    form_factor: str | None = None
    release_year: int | None = None
    mig: tuple[MigProfile, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other spellings people and price lists use."""
    nvml_names: tuple[str, ...] = ()
    """Exact strings `nvmlDeviceGetName` returns for it."""
    source: str
    """Where the figures come from, unless `figure_sources` says otherwise."""
    retrieved: datetime.date
    confidence: Confidence = "medium"
    note: str = ""
    figure_sources: dict[str, str] = {}
    """Field name -> its own source."""
    purchase: Purchase | None = None
