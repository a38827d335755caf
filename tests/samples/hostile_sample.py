"""A session whose every text holds a marker that terminals, spreadsheets and documents would obey, found field by field."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal, TypeVar

import msgspec

from planner import paths
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue, load_gpus
from planner.hardware.measurements.measurement import Measurement
from planner.hardware.prices.offers import Offer, load_offers
from planner.observe.driver.messages import GpuFacts
from planner.observe.machine import LocalGpu, Machine
from planner.session import Session
from planner.workload.models import Head, Model, ModelShelf

Record = TypeVar("Record")
MARKER = "\x1b]0;X\x07\x1b[31m\x9b\u202e<b>#|[red]\n# =cmd"
"""A title and a colour for the terminal, C1, an override of direction, HTML, Markdown, rich's markup, a line of its own, a formula."""
TRACE = "<b>#|[red]"
"""What is left of it where nothing is escaped."""
GPU = f"L40S{MARKER}"
VOCABULARY = frozenset(
    {"vendor", "architecture", "form_factor", "compute_capability", "kind", "dtype", "tier", "link", "model", "engine", "sharding"}
    | {"checkpointing", "point", "component", "phase", "bottleneck", "task", "recipe", "optimizer", "state", "quarantine", "as_of"}
    | {"weight_dtype", "kv_dtype", "objective", "market", "offload", "reason", "aliases", "nvml_names", "taken_at"}
)
"""Fields typed as text whose values the planner compares with its own words, so that plans need them as they are."""


def marked(value: Record, keep: frozenset[str] = frozenset()) -> Record:
    """`value` with the marker behind each text of its fields, but for the fields `keep`; what holds it already stays."""
    return typing.cast("Record", _marked(value, Any, keep))


def _marked(value: Any, kind: Any, keep: frozenset[str]) -> Any:
    if isinstance(value, str):
        return value if MARKER in value or not _takes_text(kind) else value + MARKER
    if isinstance(value, msgspec.Struct | Mapping) or dataclasses.is_dataclass(value):
        return _record(value, keep)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        inner = next(iter(typing.get_args(kind)), Any)
        return type(value)(_marked(one, inner, keep) for one in value)
    return value


def _record(value: Any, keep: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: one if key in keep else _marked(one, Any, keep) for key, one in value.items()}
    changed = {}
    for name, kind in _fields(value.__class__).items():
        before = getattr(value, name)
        after = before if name in keep else _marked(before, kind, keep)
        if after is not before:
            changed[name] = after
    replace: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    return replace(value, **changed) if changed else value


@cache
def _fields(kind: type) -> dict[str, Any]:
    """Name -> type; where annotations are for the type checker alone, by how they are written."""
    try:
        return {name: hint for name, hint in typing.get_type_hints(kind).items() if typing.get_origin(hint) is not typing.ClassVar}
    except NameError:
        written = {name: str(text) for one in reversed(kind.__mro__) for name, text in inspect.get_annotations(one).items()}
    return {name: Any if re.search(r"\bstr\b|[A-Z]", text) and "State" not in text else None for name, text in written.items()}


def _takes_text(kind: Any) -> bool:
    """True if any text may stand in a field of this type: not where it is one of a few words."""
    if kind in {Any, str}:
        return True
    return typing.get_origin(kind) is not Literal and any(_takes_text(one) for one in typing.get_args(kind))


class HostileSession(Session):
    """Everything it has and answers was written by a stranger; its plans are of a catalogue in which the marker is part of each name."""

    KEPT: frozenset[str] = VOCABULARY
    """Fields left as they are; none for what only lists them."""
    ANSWERS = ("plan", "study", "rightsize", "memory_detail", "time_detail", "levers", "ceilings", "measurements")
    """Methods whose results are shown."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in HostileSession.ANSWERS:
            return found
        return lambda *given, **named: marked(found(*given, **named), VOCABULARY)

    @cached_property
    def gpus(self) -> GpuCatalogue:
        return GpuCatalogue(hostile_gpus(self.KEPT))

    @cached_property
    def shipped_offers(self) -> tuple[Offer, ...]:
        return hostile_offers(self.KEPT)

    @cached_property
    def shipped(self) -> tuple[Measurement, ...]:
        return marked(super().shipped, self.KEPT)

    @cached_property
    def models(self) -> ModelShelf:
        return HostileModels(paths.presets_folder() / "models")

    @cached_property
    def machine(self) -> Machine:
        real = super().machine
        told = GpuFacts(uuid="GPU-1", index=0, nvml_name="NVIDIA L40S", memory_total_bytes=48e9, mig_profiles=("1g.10gb",))
        gpus = (LocalGpu(told, self.gpus.find(GPU)),)
        return marked(
            msgspec.structs.replace(real, gpus=gpus, nvml_state="ready", driver_version="570", cuda_version="13"), VOCABULARY
        )


@cache
def hostile_gpus(keep: frozenset[str]) -> tuple[Gpu, ...]:
    """The catalogue by a stranger, who wrote it once."""
    return marked(load_gpus(paths.presets_folder() / "gpus").all, keep)


@cache
def hostile_offers(keep: frozenset[str]) -> tuple[Offer, ...]:
    """The offers by a stranger."""
    folder = paths.presets_folder()
    return marked(load_offers(folder / "offers", load_gpus(folder / "gpus")), keep)


class HostileModels(ModelShelf):
    """Models whose titles, sources and notes hold the marker."""

    def find(self, name: str) -> Model:
        return marked(super().find(name), frozenset({"name", "config", "aliases"}))

    def heads(self) -> dict[str, tuple[Head, str]]:
        return {name: (marked(head, frozenset({"name", "aliases"})), kind) for name, (head, kind) in super().heads().items()}
