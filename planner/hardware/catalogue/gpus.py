"""GPUs as their vendors describe them, read from `presets/gpus/`.

All compute rates are dense (no structured sparsity) and with FP32 accumulation where the vendor gives both.
"""

from __future__ import annotations

import datetime as dt  # msgspec resolves the annotations of a struct at run time
from typing import TYPE_CHECKING, Literal

import msgspec

from planner.errors import Problem, UserError, nearest_names
from planner.numbers import Gpus, Positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Keys of `Gpu.compute_flop_per_s`."""

Confidence = Literal["high", "medium", "low"]


class MigProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One slice size of a multi-instance GPU."""

    name: str
    """'1g.10gb'."""
    count: Gpus
    """How many such slices fit on one GPU."""


class Purchase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one part costs to buy."""

    price_usd: Positive
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
    memory_bytes: Positive
    """The label on the box, in bytes."""
    usable_memory_bytes: Positive | None = None
    """What the driver reports as total; None: not published, the engine assumes a share of the label."""
    memory_type: str | None = None
    memory_bandwidth_bytes_per_s: Positive
    compute_flop_per_s: dict[str, Positive]
    """Dtype ('fp32', 'tf32', 'fp16', 'bf16', 'fp8', 'int8', 'fp4') -> dense peak; a missing dtype is unsupported or unknown."""
    sm_count: Gpus | None = None
    boost_clock_hz: Positive | None = None
    l2_bytes: Positive | None = None
    tdp_w: Positive | None = None
    nvlink_bytes_per_s: Positive | None = None
    """Total of both directions and all links of one GPU: NVLink, or what the vendor has instead (Infinity Fabric, Gaudi's RoCE);
    None: no such link."""
    pcie_generation: int | None = None
    pcie_bytes_per_s: Positive | None = None
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
    retrieved: dt.date
    confidence: Confidence = "medium"
    note: str = ""
    figure_sources: dict[str, str] = {}
    """Field name -> its own source."""
    purchase: Purchase | None = None


class GpuCatalogue:
    """All known parts, found by canonical name, alias or NVML name; letter case does not matter."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self.all: tuple[Gpu, ...] = tuple(gpus)
        """Every part, in the order of the files."""
        self._by_spelling: dict[str, Gpu] = {}
        for gpu in self.all:
            for spelling in spellings(gpu):
                self._by_spelling.setdefault(spelling.casefold(), gpu)

    def find(self, name: str) -> Gpu:
        """The part called exactly `name`; raises `UserError` with the nearest names when there is none."""
        found = self._by_spelling.get(name.strip().casefold())
        if found is None:
            raise UserError(Problem("", "gpu", f"{name!r} is not a known GPU.", self.nearest(name)))
        return found

    def nearest(self, name: str, most: int = 4) -> tuple[str, ...]:
        """Parts whose name holds `name` ('A100' is four parts), or else the spellings closest to it."""
        folded = name.strip().casefold()
        holding = [gpu.name for gpu in self.all if len(folded) > 1 and folded in gpu.name.casefold()]
        return tuple(holding[:most]) or nearest_names(name, self.names(), most)

    def find_nvml(self, nvml_name: str) -> Gpu | None:
        """The part whose driver name is exactly `nvml_name`; None when no part states it."""
        found = self._by_spelling.get(nvml_name.casefold())
        return found if found is not None and nvml_name in found.nvml_names else None

    def names(self) -> tuple[str, ...]:
        """Every accepted spelling."""
        return tuple(spelling for gpu in self.all for spelling in spellings(gpu))


def spellings(gpu: Gpu) -> tuple[str, ...]:
    """The canonical name first, then aliases, then driver names."""
    return (gpu.name, *gpu.aliases, *gpu.nvml_names)


def load_gpus(folder: Path) -> GpuCatalogue:
    """Every part of `folder/*.toml`; raises `UserError` with one problem per fault, over all files."""
    from planner.hardware.catalogue.entries import catalogue_files, read_catalogue

    owners: dict[str, tuple[Path, Gpu]] = {}

    def faults(gpus: Sequence[Gpu], path: Path) -> Iterator[Problem]:
        for gpu in gpus:
            yield from _faults_of_figures(gpu, path)
            yield from _claim_spellings(gpu, path, owners)

    return GpuCatalogue(read_catalogue(catalogue_files(folder), "gpu", Gpu, faults))


def _faults_of_figures(gpu: Gpu, path: Path) -> Iterator[Problem]:
    for name in gpu.compute_flop_per_s:
        if name not in DTYPES:
            near = nearest_names(name, DTYPES)
            yield Problem(
                str(path), f"gpu[{gpu.name}].compute_flop_per_s.{name}", f"unknown dtype; known: {', '.join(DTYPES)}.", near
            )
    for name in gpu.figure_sources:
        if name not in Gpu.__struct_fields__:
            near = nearest_names(name, Gpu.__struct_fields__)
            yield Problem(str(path), f"gpu[{gpu.name}].figure_sources.{name}", "is not a figure of a GPU.", near)


def _claim_spellings(gpu: Gpu, path: Path, owners: dict[str, tuple[Path, Gpu]]) -> Iterator[Problem]:
    """Problems for spellings that another part has already; the rest become this part's."""
    for spelling in {name.casefold(): name for name in spellings(gpu)}.values():
        owner_path, owner = owners.setdefault(spelling.casefold(), (path, gpu))
        if owner is not gpu:
            yield Problem(str(path), f"gpu[{gpu.name}]", f"{spelling!r} already names {owner.name!r} in {owner_path}.")
