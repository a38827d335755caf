"""A change of a workload that makes it fit, or makes it cheaper, and what that costs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

LeverCost = Literal["time", "precision", "margin", "hardware", "target", "interruptions", "commitment", "job"]
"""Price of a lever: time with the same result; a rounding; what is kept in reserve; more or other GPUs; a looser target; work that is lost
when a node is taken away; years that are paid for whatever is used; another job."""


class LeverState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """First row before a change, or after it."""

    gpu: str
    gpus: int
    usd_per_h: float
    usd_per_month: float | None = None
    job_usd: float | None = None
    job_h: float | None = None
    usd_per_million_tokens: float | None = None
    offer: str | None = None


class Lever(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes a workload fit, or cheaper, and what it costs."""

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
    before: LeverState | None = None
    """First row without the change, where something fits already; the change makes it cheaper."""
    after: LeverState | None = None
    """First row with it: what its own command ranks first."""
