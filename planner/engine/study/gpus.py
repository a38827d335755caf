"""Which GPUs a study compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from planner.engine.study.price_sets import PriceSet
from planner.engine.study.run import FindArchitecture, measured_sizes
from planner.engine.study.sizes import DEFAULT_GPUS, Study
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
from planner.hardware.ceilings.ceilings import TrainPoint


def named_parts(names: Sequence[str], catalogue: GpuCatalogue, local: Iterable[Gpu]) -> list[Gpu]:
    """The parts that were asked for by name, this machine's first; 'all' among them: every GPU. Raises `UserError`."""
    if "all" in names:
        return [gpu for gpu in catalogue.all if gpu.kind == "gpu"]
    here = {device.name: device for device in local}
    return [here.get(name) or catalogue.find(name) for name in names]


def usual_parts(
    study: Study,
    prices: PriceSet,
    measured: Mapping[str, Sequence[TrainPoint]],
    *,
    catalogue: GpuCatalogue,
    local: Iterable[Gpu],
    architecture: FindArchitecture,
) -> list[Gpu]:
    """The usual GPUs, each in the form that has a price, then this machine's.

    Its CPU is one of them where training steps `measured` on it are of the study's vocabulary.
    """

    def took_part(device: Gpu) -> bool:
        sizes = measured_sizes(measured.get(device.name, ()), study, architecture)
        return any(vocabulary == study.vocabulary for _, vocabulary in sizes)

    forms = [[catalogue.find(name) for name in family] for family in DEFAULT_GPUS]
    usual = [next((gpu for gpu in family if prices.of(gpu).usd_per_gpu_h is not None), family[0]) for family in forms]
    own = [device for device in local if device.kind == "gpu" or took_part(device)]
    return [*usual, *(device for device in own if device.name not in {gpu.name for gpu in usual})]
