"""What was measured on this machine (and imported from others), kept in SQLite."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MeasurementKind = Literal["gemm", "copy", "gemv", "launch", "train"]
Status = Literal["ok", "noisy", "unstable", "throttled", "shared", "oom", "unsupported", "error"]


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One point. `value` is in SI: FLOP/s for gemm and train, bytes/s for copy and gemv, seconds for launch."""

    point: str
    """Stable id within the suite: 'gemm/bf16/4096x4096x4096'."""
    kind: MeasurementKind
    device: str
    """Canonical GPU name, or the CPU's model name."""
    fingerprint: str
    """Of the machine, the device and the software that was measured."""
    dtype: str | None = None
    parameters: dict[str, Any] = {}
    """Shape of the point: m, n, k; bytes; width, depth, parameters, tokens."""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    """Order-statistic 95 % interval of the median."""
    status: Status
    detail: str = ""
    taken_at: str
    """UTC, ISO 8601."""
    suite: str
    run: str
    """Id of the benchmark run."""
