"""Published and usual ceilings (`presets/ceilings/`): for any GPU, for kinds of GPUs, and for single GPUs measured elsewhere."""

import datetime as dt  # msgspec resolves the annotations of a struct at run time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from planner.errors import Problem, UserError, nearest_names
from planner.hardware.catalogue.gpus import DTYPES, Gpu
from planner.hardware.catalogue.interconnects import CollectiveOp, Link
from planner.hardware.ceilings.ceilings import Basis, Ceiling, Collective
from planner.numbers import Positive

STORED = (*DTYPES, "int4")
"""Keys of `CeilingRecord.weight_bandwidth_efficiency`."""


class Share(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A share of the vendor's figure, or seconds."""

    value: Positive
    spread: Positive
    """Half width of the 90 % range of the logarithm."""


class FitError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Error of a fit: |ln(formula ÷ measured)|."""

    median: float
    p90: float


class CollectiveShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One collective operation; `efficiency` is of one direction of the link."""

    link: Link
    op: CollectiveOp
    gpus: Annotated[int, msgspec.Meta(ge=2)]
    latency_s: Share
    efficiency: Share


class CeilingRecord(msgspec.Struct, frozen=True, dict=True, kw_only=True, forbid_unknown_fields=True):
    """Ceilings of one GPU (`gpu`) or one kind (`name`); missing figures come from a wider kind."""

    gpu: str | None = None
    """Canonical name of the part measured; its figures are 'public'."""
    name: str = ""
    """Name of a kind of parts."""
    kind: Literal["gpu", "cpu"] = "gpu"
    architectures: tuple[str, ...] = ()
    """Architectures exactly as in the catalogue; empty: any."""
    memory: str | None = None
    """Beginning of the memory type: 'HBM', 'GDDR'."""
    form_factor: str | None = None
    name_begins: str | None = None
    """Beginning of the name: 'RTX' for NVIDIA's desktop cards, because its data-centre cards have other names."""
    most_tdp_w: Positive | None = None
    source: str
    method: str
    retrieved: dt.date
    compute_efficiency: dict[str, Share] = {}
    bandwidth_efficiency: Share | None = None
    weight_bandwidth_efficiency: dict[str, Share] = {}
    knee: Positive | None = None
    kernel_latency_s: Share | None = None
    launch_s: Share | None = None
    quantise_efficiency: Share | None = None
    attention_efficiency: Share | None = None
    """Share of the dense 16-bit peak."""
    attention_bandwidth_efficiency: Share | None = None
    attention_knee: Positive | None = None
    attention_latency_s: Share | None = None
    decode_attention_efficiency: Share | None = None
    decode_attention_latency_s: Share | None = None
    decode_head_s: Share | None = None
    train_factor: Share | None = None
    collective: tuple[CollectiveShare, ...] = ()
    collective_library: str = ""
    gemm_error: FitError | None = None
    attention_error: FitError | None = None
    decode_error: FitError | None = None
    collective_error: FitError | None = None

    @property
    def basis(self) -> Basis:
        """Basis: measured on the GPU itself, or not."""
        return "public" if self.gpu else "spec"

    @cached_property
    def label(self) -> str:
        """Measurement and who measured it, for the source of a figure."""
        return f"{self.gpu or self.name}: {self.source}"

    @cached_property
    def collectives(self) -> dict[tuple[Link, CollectiveOp, int], Collective]:
        """First of each link, operation and count."""
        found: dict[tuple[Link, CollectiveOp, int], Collective] = {}
        for one in self.collective:
            key = one.link, one.op, one.gpus
            found.setdefault(key, Collective(*key, self.ceiling(one.latency_s), self.ceiling(one.efficiency)))
        return found

    def ceiling(self, share: Share, unit: float = 1.0) -> Ceiling:
        """`share`, one of this record's, as a ceiling in `unit`."""
        return Ceiling(share.value * unit, share.spread, self.basis, self.label)

    @property
    def conditions(self) -> int:
        """Number of conditions of the kind; more make it narrower."""
        given = (self.architectures, self.memory, self.form_factor, self.name_begins, self.most_tdp_w)
        return sum(one not in {(), None} for one in given)

    def fits(self, gpu: Gpu) -> bool:
        """True if `gpu` is the record's GPU, or belongs to its kind."""
        if self.gpu is not None:
            return self.gpu == gpu.name
        return (
            gpu.kind == self.kind
            and (not self.architectures or gpu.architecture in self.architectures)
            and (self.memory is None or (gpu.memory_type or "").startswith(self.memory))
            and (self.form_factor is None or gpu.form_factor == self.form_factor)
            and (self.name_begins is None or gpu.name.startswith(self.name_begins))
            and (self.most_tdp_w is None or (gpu.tdp_w is not None and gpu.tdp_w <= self.most_tdp_w))
        )


REQUIRED = (
    *(field.name for field in msgspec.structs.fields(CeilingRecord) if field.type == Share | None),
    "knee",
    "attention_knee",
)
"""Figures that the widest kinds have to give in total."""


class CeilingRecords:
    """All records, found by GPU."""

    def __init__(self, records: tuple[CeilingRecord, ...]) -> None:
        self.records = records

    def of(self, gpu: Gpu) -> tuple[CeilingRecord, ...]:
        """Records for `gpu`, the most specific first: the GPU itself, narrow kinds, wide kinds."""
        found = [record for record in self.records if record.fits(gpu)]
        return tuple(sorted(found, key=lambda record: (record.gpu is None, -record.conditions)))

    def kind_of(self, gpu: Gpu) -> str:
        """Name of the narrowest kind of `gpu`, '' for only the widest; measuring one GPU of a kind adjusts the others."""
        return next((record.name for record in self.of(gpu) if record.gpu is None and record.conditions), "")


def load_ceiling_records(folder: Path) -> CeilingRecords:
    """Every record of `folder/*.toml`; raises `UserError` with one problem per fault, over all files."""
    from planner.hardware.catalogue.entries import catalogue_files, read_catalogue

    records = read_catalogue(catalogue_files(folder), "ceilings", CeilingRecord, _faults)
    problems = []
    for kind in ("gpu", "cpu"):
        widest = [record for record in records if record.gpu is None and record.kind == kind and not record.conditions]
        missing = [name for name in REQUIRED if all(getattr(record, name) is None for record in widest)]
        missing += [] if any(record.compute_efficiency for record in widest) else ["compute_efficiency"]
        if missing:
            problems.append(Problem(str(folder), "ceilings", f"no record for any {kind} gives {', '.join(missing)}."))
    if problems:
        raise UserError(problems)
    return CeilingRecords(tuple(records))


def _faults(records: Sequence[CeilingRecord], path: Path) -> Iterator[Problem]:
    for record in records:
        where = f"ceilings[{record.gpu or record.name}]"
        if bool(record.gpu) == bool(record.name):
            yield Problem(str(path), where, "has to have either gpu (a part) or name (a kind of parts).")
        for field, known in (("compute_efficiency", DTYPES), ("weight_bandwidth_efficiency", STORED)):
            for name in getattr(record, field):
                if name not in known:
                    text = f"unknown dtype; known: {', '.join(known)}."
                    yield Problem(str(path), f"{where}.{field}.{name}", text, nearest_names(name, known))
