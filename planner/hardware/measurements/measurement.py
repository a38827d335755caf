"""Records of measurements taken here or imported: points, their runs, and their predictions."""

import datetime as dt
import hashlib
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec

ComputeKind = Literal["gemm", "gemm-sparse", "grouped", "attention", "train", "train-compiled", "train-lora", "network", "prefill"]
BandwidthKind = Literal["copy", "triad", "read", "gemv", "attention-decode", "attention-paged", "transfer", "collective"]
MeasurementKind = Literal[ComputeKind, BandwidthKind, "launch", "decode", "memory", "fault"]
UNITS: dict[str, str] = {
    **dict.fromkeys(get_args(ComputeKind), "FLOP/s"),
    **dict.fromkeys(get_args(BandwidthKind), "B/s"),
    **dict.fromkeys(("launch", "fault"), "s"),
    "decode": "token/s",
    "memory": "B",
}
"""Kind of a measurement -> unit of its value."""
Status = Literal["ok", "noisy", "unstable", "throttled", "shared", "oom", "unsupported", "error"]
RunState = Literal["running", "finished", "cancelled", "failed"]
Origin = Literal["own", "imported", "shipped"]

SELF_TEST = "smoke"
"""Suite of tiny points, which are stored like any others but not used for plans."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One point. `value` is in the unit `UNITS` gives its kind."""

    point: str
    """Stable id within the suite: 'gemm/bf16/4096x4096x4096'."""
    kind: MeasurementKind
    device: str
    """Canonical GPU name, or the CPU's model name."""
    fingerprint: str
    """Hash of the machine and device, a dash, and one of the software; runs are comparable when it is equal."""
    dtype: str | None = None
    parameters: dict[str, Any] = {}
    """Shape of the point: m, n, k; bytes; width, depth, parameters, tokens."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Order-statistic 95 % interval of the value."""
    status: Status
    """State of the measurement: plans may use 'ok' and 'noisy' ones; the rest is stored for inspection."""
    detail: str = ""
    taken_at: str
    """UTC, ISO 8601."""
    suite: str
    run: str
    """Id of the benchmark run."""
    flop: float | None = None
    """Arithmetic of one call; seconds of a call are `flop / value`."""
    bytes: float | None = None
    """Memory traffic of one call."""
    samples: int = 0
    """Number of samples behind the value."""
    spread: float | None = None
    """Interquartile range of the samples ÷ their median."""
    rounds: int = 1
    """Number of times it was measured, with other points in between."""
    telemetry: dict[str, Any] = {}
    """Clocks, power, energy, temperature and time throttled of the device, from `readings` of the worker before and after the samples;
    `poll_hz`: how often the planner read the device during them."""
    peak_memory_bytes: float | None = None
    method: int = 1
    """Version of the way of measuring."""
    origin: Origin = "own"
    """'own': taken by this user; 'imported' and 'shipped': on a machine that is not this one."""
    quarantine: str = ""
    """Reason why the figure is implausible; such a measurement is shown but not used for plans."""

    @property
    def reliable(self) -> bool:
        """True if plans may use the value as it is."""
        return self.value is not None and self.status in {"ok", "noisy"} and not self.quarantine

    @property
    def unit(self) -> str:
        """Unit of `value`."""
        return UNITS[self.kind]

    @property
    def id(self) -> str:
        """Eight hexadecimal digits, the same after an export and an import."""
        return hashlib.sha256(f"{self.run}\0{self.point}".encode()).hexdigest()[:8]


def faults_of(one: Measurement) -> Iterator[tuple[str, str]]:
    """(field, fault) of a measurement whose fields have the right types: figures that no benchmark returns."""
    for name in ("value", "low", "high", "flop", "bytes", "peak_memory_bytes"):
        figure = getattr(one, name)
        if figure is not None and not 0 < figure < math.inf:
            yield name, f"{figure:g} is not a positive number."
    if one.value is None and one.status in {"ok", "noisy"}:
        yield "value", f"is missing, though the status is {one.status!r}."
    if one.value is not None and not (one.low or 0) <= one.value <= (one.high or math.inf):
        bounds = " and ".join(f"{name} {bound:g}" for name, bound in (("low", one.low), ("high", one.high)) if bound is not None)
        yield "value", f"{one.value:g} does not lie between {bounds}." if bounds else f"{one.value:g} is no figure."
    for name in ("point", "device", "fingerprint", "run", "suite"):
        if not getattr(one, name).strip():
            yield name, "is empty."
    try:
        dt.datetime.fromisoformat(one.taken_at)
    except ValueError:
        yield "taken_at", f"{one.taken_at!r} is not a time like 2026-01-31T12:00:00Z."


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One benchmark run."""

    id: str
    suite: str
    device: str
    fingerprint: str
    started_at: str
    """UTC, ISO 8601."""
    state: RunState = "running"
    environment: dict[str, Any] = {}
    """Versions, cores, flags, load: conditions of the figures."""
    measurements: int = 0
    """Number of its points that are stored."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prediction for a point before it was measured, and the measured value. Both are in the unit of `kind`."""

    run: str
    point: str
    device: str
    kind: MeasurementKind
    predicted: float
    low: float
    high: float
    """90 % range."""
    basis: str
    """Basis of the prediction: 'spec', 'public', 'transferred' or 'measured'."""
    measured: float
    measured_at: str
    """UTC, ISO 8601."""
    version: str
    """Version of the planner that predicted."""

    @property
    def error(self) -> float:
        """Predicted ÷ measured − 1."""
        return self.predicted / self.measured - 1
