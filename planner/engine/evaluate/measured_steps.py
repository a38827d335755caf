"""Training steps measured on a device, compared with the formulas for the same step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.job import Job
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.training import step_of
from planner.errors import UserError
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.workload.architecture import Architecture, Models
from planner.workload.studies import model_of_point
from planner.workload.tasks import Recipe, Workload

TRANSFER_SPREAD = 0.25
"""90 % half width of applying the ratio of one step to another model and batch size."""
DECIDES = 0.5
"""Smallest share of a step that has to depend on an attribute for the step to determine it."""
SLOPE_STEP, SOLVING_STEPS = 0.01, 12
_RECIPES: dict[str, Recipe] = {"amp": "amp", "fp32": "fp32", "bf16": "bf16", "mixed": "mixed"}


def with_measured_steps(
    chip: Chip, points: tuple[TrainPoint, ...], architecture: Callable[[str | dict[str, Any]], Architecture]
) -> Chip:
    """`chip` corrected by measured steps.

    A step that waits for its host determines the time of a launch. A step that keeps the device busy determines `train_factor`, measured ÷
    predicted device time, as the geometric mean over the points of the same dtype. A step in which neither dominates determines nothing.
    """
    steps = [step for point in points if (step := described(chip, point, architecture)) is not None]
    launches = [ratio for step in steps if (ratio := _solved(step, chip, "launch_s")) is not None]
    if launches and chip.is_cpu == 0:
        chip = replace(chip, launch_s=chip.launch_s * _mean(launches), launch_spread=TRANSFER_SPREAD)
    factors = [ratio for step in steps if (ratio := _solved(step, replace(chip, train_factor=1.0), "train_factor")) is not None]
    return replace(chip, train_factor=_mean(factors)) if factors else chip


class MeasuredStep(msgspec.Struct, frozen=True):
    """A measured step: its seconds, and the job that it ran."""

    seconds: float
    job: Job
    micro_batch: int

    def predicted_s(self, chip: Chip) -> float:
        """Seconds by the formulas."""
        layout = LayoutAnswer(gpus=1, micro_batch=self.micro_batch)
        return float(step_of(candidate_of(self.job, chip, layout).table()).step_s[0])


def _solved(step: MeasuredStep, chip: Chip, name: str) -> float | None:
    """Factor on attribute `name` of `chip` with which the formulas give the measured time; None if the step does not determine it.

    Newton's method on the logarithms: the slope is the share of the step that depends on the attribute.
    """

    def log_s(log_factor: float) -> float:
        return math.log(step.predicted_s(replace(chip, **{name: getattr(chip, name) * math.exp(log_factor)})))

    at, wanted = 0.0, math.log(step.seconds)
    for _ in range(SOLVING_STEPS):
        now = log_s(at)
        share = (log_s(at + SLOPE_STEP) - now) / SLOPE_STEP
        if share < DECIDES:
            return None
        at += max(-1.0, min(1.0, (wanted - now) / share))
    return math.exp(at) if abs(log_s(at) - wanted) < SLOPE_STEP else None


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def described(chip: Chip, point: TrainPoint, architecture: Callable[[str | dict[str, Any]], Architecture]) -> MeasuredStep | None:
    """Step of a point; None if the point has another dtype or no description."""
    given = point.parameters
    batch, sequence, recipe = given.get("batch"), given.get("sequence"), _RECIPES.get(str(given.get("recipe")))
    if (
        point.dtype != chip.dtype
        or recipe is None
        or not point.step_s
        or not isinstance(batch, int)
        or not isinstance(sequence, int)
    ):
        return None
    try:
        model = architecture(model_of_point(given))
    except (UserError, KeyError):
        return None
    workload = Workload(
        model=str(given["model"]), task="train", engine="torch", recipe=recipe, dtype=None, micro_batch=batch, sequence=sequence
    )
    return MeasuredStep(point.step_s, replace(resolve(workload, Models(model)), dtype=chip.dtype), batch)
