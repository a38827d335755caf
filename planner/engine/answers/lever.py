"""A change of a workload for which nothing fits, and what it costs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.units import bytes_text, digits, percent_text

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

    @property
    def cost_text(self) -> str:
        """'saves 12.1 GiB, 31 % slower, rounds more'; what is not known or too small to say is left out."""
        slower = self.slowdown or 0.0
        speed = f"{percent_text(slower)} slower" if slower < 1 else f"{digits(1 + slower, 2)} times as slow"
        if slower < 0:
            speed = (
                f"{percent_text(1 / (1 + slower) - 1)} faster" if slower > -0.5 else f"{digits(1 / (1 + slower), 2)} times as fast"
            )
        words = {"precision": "rounds more", "margin": "less margin", "job": "another job"}
        parts = (
            f"saves {bytes_text(self.saves_bytes)}" if self.saves_bytes and self.saves_bytes > 0 else "",
            speed if abs(slower) >= LEAST_SLOWDOWN else "as fast" if self.slowdown is not None else "",
            words.get(self.costs or "", ""),
        )
        return ", ".join(part for part in parts if part)


LEAST_SLOWDOWN = 0.005
"""Below this a lever is as fast."""
