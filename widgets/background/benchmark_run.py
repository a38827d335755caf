"""One run of the benchmark as the screen follows it: its points and how far each is."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

RunState = Literal["idle", "running", "finished", "stopped", "failed"]
PointState = Literal["waiting", "running", "between", "done", "skipped", "failed"]
"""A point is between two rounds when it was measured and comes again."""
OVER = ("done", "skipped", "failed")
ROUNDING = 1e-9
"""Rounding error of three thirds."""


class PointLine(msgspec.Struct):
    """One measured thing."""

    id: str
    label: str
    state: PointState = "waiting"
    fraction: float = 0.0
    measured: float = 0.0
    """Share of its rounds that are over."""
    value: str = ""
    """Value with its unit."""
    share: str = ""
    """'79 % of spec'."""
    was: str = ""
    """'was 752 TFLOP/s'."""
    detail: str = ""
    """Reason why it was skipped, oddities of it, or the rounds it has behind it."""


class Run(msgspec.Struct):
    """One run of the benchmark."""

    state: RunState = "idle"
    subject: str = ""
    """'quick, AMD EPYC'."""
    points: list[PointLine] = msgspec.field(default_factory=list)
    eta_s: float | None = None
    message: str = ""
    """Failure and next step, or the end of the run."""
    effects: list[str] = msgspec.field(default_factory=list)
    """Plan's answer afterwards."""

    def point(self, name: str) -> PointLine | None:
        """Point of this id."""
        return next((point for point in self.points if point.id == name), None)

    @property
    def done(self) -> int:
        """Points that are over, each round of one as its share of a point."""
        return math.floor(ROUNDING + sum(1.0 if point.state in OVER else point.measured for point in self.points))

    @property
    def progress_text(self) -> str:
        """'14/22' while running."""
        return f"{self.done}/{len(self.points)}" if self.state == "running" and self.points else ""
