"""Whether measured ceilings predict better than published ones the points they were not fitted to: whole steps, prompts and decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from planner.engine.estimate.benchmark_point import predicted_figure

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.measurements.measurement import Measurement
    from planner.workload.architecture import Architecture

KINDS = ("train", "train-lora", "prefill", "decode")
LEAST_TOKENS = 512
"""A training step of fewer tokens waits for its host, and is itself what the time of a launch is fitted to."""
TOLERANCE = 0.05
"""Two runs on one board differ by this much: a calibration that is worse by less is not refused."""


class CheckedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point beside what was predicted of it, all in the unit of its kind."""

    point: str
    unit: str
    measured: float
    before: float
    """Prediction by published figures alone."""
    after: float
    """Prediction by the measured ceilings; no measured step is among them."""

    @property
    def errors(self) -> tuple[float, float]:
        """|ln(predicted ÷ measured)| before and after."""
        return abs(math.log(self.before / self.measured)), abs(math.log(self.after / self.measured))


class CalibrationCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The points that judge a calibration."""

    gpu: str
    points: list[CheckedPoint]

    @property
    def before(self) -> float:
        """Mean error of the published figures."""
        return sum(one.errors[0] for one in self.points) / len(self.points)

    @property
    def after(self) -> float:
        """Mean error of the measured ones."""
        return sum(one.errors[1] for one in self.points) / len(self.points)

    @property
    def accepted(self) -> bool:
        """Whether plans may rest on the measured ceilings; also where nothing judges them."""
        return not self.points or self.after <= self.before + TOLERANCE


def check_calibration(
    gpu: Gpu,
    published: Ceilings,
    measured: Ceilings,
    points: Iterable[Measurement],
    architecture: Callable[[str | dict[str, Any]], Architecture],
) -> CalibrationCheck:
    """Predict the independent points among `points` of `gpu` by both."""
    fitted = replace(measured, train_points=())
    found = []
    for one in points:
        if (
            one.device != gpu.name
            or not one.reliable
            or one.kind not in KINDS
            or one.parameters.get("tokens", LEAST_TOKENS) < LEAST_TOKENS
        ):
            continue
        figures = [predicted_figure(one, gpu, ceilings, architecture) for ceilings in (published, fitted)]
        before, after = (figure.value if figure else None for figure in figures)
        if before and after and one.value:
            found.append(CheckedPoint(point=one.point, unit=one.unit, measured=one.value, before=before, after=after))
    return CalibrationCheck(gpu=gpu.name, points=found)
