"""Comparison of measured with published ceilings on points that neither was fitted to: whole steps, prompts and decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.estimate.benchmark_point import predicted_figure
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import Ceilings
from planner.hardware.measurements.measurement import Measurement
from planner.workload.architecture import Architecture

KINDS = ("train", "train-lora", "prefill", "decode")
LEAST_TOKENS = 512
"""Tokens below which a training step waits for its host, so that the time of a launch is fitted to it."""
TOLERANCE = 0.05
"""Difference between two runs on one board: a calibration that is worse by less is not rejected."""


class CheckedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point with its predictions, all in the unit of its kind."""

    point: str
    unit: str
    measured: float
    before: float
    """Prediction from published figures only."""
    after: float
    """Prediction from the measured ceilings, without any measured step."""

    @property
    def errors(self) -> tuple[float, float]:
        """|ln(predicted ÷ measured)| before and after."""
        return abs(math.log(self.before / self.measured)), abs(math.log(self.after / self.measured))


class CalibrationCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Points that judge a calibration."""

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
        """True if plans may use the measured ceilings; also true where no point judges them."""
        return not self.points or self.after <= self.before + TOLERANCE


def check_calibration(
    gpu: Gpu,
    published: Ceilings,
    measured: Ceilings,
    points: Iterable[Measurement],
    architecture: Callable[[str | dict[str, Any]], Architecture],
) -> CalibrationCheck:
    """Predict the independent points among `points` of `gpu` with both sets of ceilings."""
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
