"""One GPU as its vendor describes it.

All compute rates are dense (no structured sparsity) and with FP32 accumulation where the vendor gives both.
"""

import datetime as dt  # msgspec resolves the annotations of a struct at run time
from typing import Literal

import msgspec

from planner.numbers import Gpus, Positive

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Keys of `Gpu.compute_flop_per_s`."""

Confidence = Literal["high", "medium", "low"]


class MigProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One slice size of a multi-instance GPU."""

    name: str
    """'1g.10gb'."""
    count: Gpus
    """Number of such slices that fit on one GPU."""


class Purchase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Purchase price of one part."""

    price_usd: Positive
    kind: Literal["list price estimate", "launch MSRP"]
    as_of: str
    source: str
    note: str = ""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU, slice or share. Unknown figures are None, with the reason in `note`."""

    name: str
    """Canonical name, unique."""
    vendor: str
    architecture: str
    kind: Literal["gpu", "cpu"] = "gpu"
    compute_capability: str | None = None
    memory_bytes: Positive
    """Advertised memory in bytes."""
    usable_memory_bytes: Positive | None = None
    """Total memory as the driver reports it; None: not published, so that the engine assumes a share of the advertised memory."""
    memory_type: str | None = None
    memory_bandwidth_bytes_per_s: Positive
    compute_flop_per_s: dict[str, Positive]
    """Dtype ('fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'int8', 'fp4') -> dense peak; a missing dtype is unsupported or unknown."""
    sm_count: Gpus | None = None
    boost_clock_hz: Positive | None = None
    l2_bytes: Positive | None = None
    tdp_w: Positive | None = None
    nvlink_bytes_per_s: Positive | None = None
    """Total of both directions and all links of one GPU: NVLink, or the vendor's equivalent (Infinity Fabric, Gaudi's RoCE); None: no such link."""
    pcie_generation: int | None = None
    pcie_bytes_per_s: Positive | None = None
    """Total of both directions (x16)."""
    form_factor: str | None = None
    release_year: int | None = None
    mig: tuple[MigProfile, ...] = ()
    of_whole: Gpus = 1
    """Number of such parts that make up one GPU: 1 for a GPU, 2 for a 3g.40gb of an A100, 4 for a share of 1/4."""
    aliases: tuple[str, ...] = ()
    """Other spellings in use, and those of price lists."""
    commonest_of: tuple[str, ...] = ()
    """Names of several GPUs, in any spelling, that mean this one unless stated otherwise."""
    only_named: bool = False
    """True if a plan leaves it out unless it is named, owned or offered: a GPU that nobody in the catalogue rents out."""
    nvml_names: tuple[str, ...] = ()
    """Exact strings `nvmlDeviceGetName` returns for it."""
    source: str
    """Source of the figures, unless `figure_sources` says otherwise."""
    retrieved: dt.date
    confidence: Confidence = "medium"
    note: str = ""
    figure_sources: dict[str, str] = {}
    """Field name -> its own source."""
    purchase: Purchase | None = None
