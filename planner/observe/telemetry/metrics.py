"""Fields of a snapshot by their names in exporters and logs: `presets/telemetry/metrics.toml`."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import msgspec

from planner.paths import read_shipped_part
from planner.units import MEGA, MIB

UNITS = {"": 1.0, "%": 0.01, "mJ": 1e-3, "MHz": MEGA, "MB/s": MEGA, "MiB": float(MIB)}
"""Unit of a tool -> the factor that converts it to SI; "": the field's own unit."""
Tool = Literal["dcgm", "all_smi", "nvidia_smi", "dmon"]


class Spelling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool's names for a field, and its unit."""

    names: tuple[str, ...]
    unit: Literal["", "%", "mJ", "MHz", "MB/s", "MiB"] = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field; a tool without the field has no spelling."""

    exported: str = ""
    """Name of its metric in this program's exporter, without the prefix; empty: it is not exported."""
    help: str = ""
    dcgm: Spelling | None = None
    all_smi: Spelling | None = None
    nvidia_smi: Spelling | None = None
    dmon: Spelling | None = None


class Meaning(NamedTuple):
    """Snapshot field that a metric fills, and the factor into SI units."""

    field: str
    scale: float = 1.0


@cache
def metrics() -> dict[str, Metric]:
    """Field of a snapshot -> its names, in the order they are exported."""
    return read_shipped_part(dict[str, Metric], "fields", "telemetry", "metrics.toml")


@cache
def meanings(tool: Tool) -> dict[str, Meaning]:
    """A tool's name -> its meaning."""
    spelled = ((field, spelling) for field, metric in metrics().items() if (spelling := getattr(metric, tool)) is not None)
    return {name: Meaning(field, UNITS[spelling.unit]) for field, spelling in spelled for name in spelling.names}
