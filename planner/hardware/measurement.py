"""What was measured on this machine (and imported from others): the points and the runs they belong to."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MeasurementKind = Literal["gemm", "copy", "gemv", "launch", "train"]
Status = Literal["ok", "noisy", "unstable", "throttled", "shared", "oom", "unsupported", "error"]
RunState = Literal["running", "finished", "cancelled", "failed"]

SELF_TEST = "smoke"
"""Suite of tiny points: stored like any other, never planned with."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One point. `value` is in SI: FLOP/s for gemm and train, bytes/s for copy and gemv, seconds for launch."""

    point: str
    """Stable id within the suite: 'gemm/bf16/4096x4096x4096'."""
    kind: MeasurementKind
    device: str
    """Canonical GPU name, or the CPU's model name."""
    fingerprint: str
    """Of the machine and device, a dash, and of the software; runs are comparable when it is equal."""
    dtype: str | None = None
    parameters: dict[str, Any] = {}
    """Shape of the point: m, n, k; bytes; width, depth, parameters, tokens."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Order-statistic 95 % interval of the median."""
    status: Status
    """'ok' and 'noisy' may be planned with as they are; the rest is kept to be looked at."""
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
    """How many the median is of."""
    peak_memory_bytes: float | None = None
    method: int = 1
    """Version of the way of measuring."""

    @property
    def solid(self) -> bool:
        """Whether the value may be planned with as it is."""
        return self.value is not None and self.status in {"ok", "noisy"}


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
    """Versions, cores, flags, load: what the figures depend on."""
    measurements: int = 0
    """How many points of it are stored."""
