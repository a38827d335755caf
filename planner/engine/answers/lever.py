"""A change of a workload for which nothing fits, and what it costs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

LeverCost = Literal["time", "precision", "margin", "hardware", "job"]
"""Price of a lever: time with the same result; a rounding; memory that is kept free; more or other GPUs; another job."""


class Lever(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes a workload fit, and what it costs."""

    change: dict[str, Any]
    """Keys of the workload and their new values."""
    text: str
    gpu: str | None = None
    """The GPU on which the changed workload has a solution; None: on none."""
    gpus: int | None = None
    """Number of GPUs of that solution."""
    costs: LeverCost | None = None
    """The dearest price among its changes."""
    saves_bytes: float | None = None
    """Bytes on the fullest GPU: the same layout without the change, less with it."""
    slowdown: float | None = None
    """Time for the same work (a trained token, an answered request) with the change ÷ without it, on the same GPUs in the same
    layout as if it had the memory, minus one; of a change of hardware, against the closest GPU had it the memory."""
