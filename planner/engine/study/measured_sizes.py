"""Training steps measured in the conditions of the study, by the place on its axis that they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planner.engine.study.sizes import Size, Study
from planner.errors import UserError
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.workload.architecture import Architecture
from planner.workload.study_models import is_study_model, stated_shape

FindArchitecture = Callable[[str | dict[str, Any]], Architecture]


def measured_sizes(
    points: Sequence[TrainPoint], study: Study, architecture: FindArchitecture
) -> dict[tuple[Size, int], TrainPoint]:
    """Measured steps in the conditions of the study, by size and vocabulary."""
    found: dict[tuple[Size, int], TrainPoint] = {}
    for point in points:
        given = point.parameters
        same = (given.get("recipe"), given.get("optimizer"), given.get("sequence")) == ("amp", "adamw", study.sequence)
        shape = shape_of(point, architecture)
        batch = given.get("batch")
        if same and point.dtype == "bf16" and point.step_s and shape is not None and isinstance(batch, int):
            width, depth, vocabulary = shape
            found[Size(width, depth, batch), vocabulary] = point
    return found


def shape_of(point: TrainPoint, architecture: FindArchitecture) -> tuple[int, int, int] | None:
    """(width, depth, vocabulary) of the study's model that a step was measured on; None: it was another model."""
    given = point.parameters
    if not is_study_model(given):
        return None
    if (shape := stated_shape(given)) is not None:
        return shape
    try:
        model = architecture(str(given["model"]))
    except UserError:
        return None
    return model.width, model.layers, model.vocabulary
