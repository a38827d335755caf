"""Training steps that were measured on a device, against what the formulas say of the very same step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planner.engine.answers.layout import LayoutAnswer
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.training import step_of
from planner.errors import UserError
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.workload.architecture import Architecture, Models
from planner.workload.study_models import model_of_point
from planner.workload.tasks import Recipe, Workload

TRANSFER_SPREAD = 0.25
"""90 % half width of carrying the ratio of one step over to another size of model and batch."""
_RECIPES: dict[str, Recipe] = {"amp": "amp", "fp32": "fp32", "bf16": "bf16", "mixed": "mixed"}


def with_measured_steps(
    chip: Chip, points: tuple[TrainPoint, ...], architecture: Callable[[str | dict[str, Any]], Architecture]
) -> Chip:
    """`chip` with the ratio of measured to predicted step time, the geometric mean over its points of the same dtype."""
    ratios = [ratio for point in points if (ratio := _ratio(chip, point, architecture)) is not None]
    if not ratios:
        return chip
    factor = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    return replace(chip, train_factor=factor, train_spread=TRANSFER_SPREAD)


def _ratio(chip: Chip, point: TrainPoint, architecture: Callable[[str | dict[str, Any]], Architecture]) -> float | None:
    """Measured ÷ predicted seconds of one step; None when the point is of another dtype or not described."""
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
    job = replace(resolve(workload, Models(model)), dtype=chip.dtype)
    candidate = candidate_of(job, replace(chip, train_factor=1.0), LayoutAnswer(gpus=1, micro_batch=batch))
    return point.step_s / float(step_of(candidate.table()).step_s[0])
