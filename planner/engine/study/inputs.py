"""Inputs of a study: the GPUs that it compares, and training steps measured in its conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from planner.engine.performance.operators.chip import FindChip
from planner.engine.study.price_sets import PriceSet
from planner.engine.study.sizes import DEFAULT_GPUS, Size, Study
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.hardware.prices.offers import Offer
from planner.workload.architecture import Architecture
from planner.workload.studies import PublishedStudy, is_study_model, stated_shape

FindArchitecture = Callable[[str | dict[str, Any]], Architecture]


class StudyInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Catalogue, its prices, this machine with its measured training steps, and the published study."""

    catalogue: GpuCatalogue
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    measured: Mapping[str, Sequence[TrainPoint]]
    """Training steps measured on a device, by its name; a step measured at a point of the study replaces the prediction."""
    architecture: FindArchitecture
    chip: FindChip
    published: PublishedStudy

    def named(self, names: Sequence[str]) -> list[Gpu]:
        """GPUs with these names, this machine's first; 'all' among them: every GPU. Raises `UserError`."""
        if "all" in names:
            return [gpu for gpu in self.catalogue.all if gpu.kind == "gpu"]
        here = {device.name: device for device in self.machine}
        return [here.get(name) or self.catalogue.find(name) for name in names]

    def usual(self, study: Study, prices: PriceSet) -> list[Gpu]:
        """Usual GPUs, each in the form that has a price, then this machine's.

        Its CPU is included where training steps with the study's vocabulary were measured on it.
        """
        forms = [[self.catalogue.find(name) for name in family] for family in DEFAULT_GPUS]
        usual = [next((gpu for gpu in family if prices.of(gpu).usd_per_gpu_h is not None), family[0]) for family in forms]
        names = {gpu.name for gpu in usual}
        own = [device for device in self.machine if device.kind == "gpu" or self._took_part(device, study)]
        return [*usual, *(device for device in own if device.name not in names)]

    def _took_part(self, device: Gpu, study: Study) -> bool:
        sizes = measured_sizes(self.measured.get(device.name, ()), study, self.architecture)
        return any(vocabulary == study.vocabulary for _, vocabulary in sizes)


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
    """(width, depth, vocabulary) of the study's model with which a step was measured; None: it was another model."""
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
