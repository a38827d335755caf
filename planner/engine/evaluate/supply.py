"""GPUs that a plan can choose from, what each reaches, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.engine.answers.plan import PlanRow
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer


@dataclass(frozen=True)
class Supply:
    """The catalogue, its offers, and this machine."""

    gpus: Sequence[Gpu]
    """Every part of the catalogue."""
    find_gpu: Callable[[str], Gpu]
    """A part of the catalogue by a name or an alias; raises `UserError`."""
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    local_counts: Mapping[str, int]
    """Number of each of them, by name."""
    chip: FindChip
    spec_chip: FindChip
    """Look-up without this machine's measurements."""

    def gpu_of(self, row: PlanRow) -> Gpu:
        """The part that `row` is about: this machine's own where the row is of this machine."""
        here = next((device for device in self.machine if row.here and device.name == row.gpu), None)
        return here or self.find_gpu(row.gpu)

    def nvlink_of(self, row: PlanRow) -> bool | None:
        """Whether the offer of `row` says that its GPUs are joined by NVLink; None where it does not say, or there is none."""
        offer = row.offer
        return self._nvlink.get((offer.provider, offer.instance, offer.region, row.gpu)) if offer else None

    @cached_property
    def _nvlink(self) -> dict[tuple[str, str, str, str], bool | None]:
        """NVLink of an offer by provider, instance, region and GPU; the first of several such offers counts."""
        return {(one.provider, one.instance, one.region, one.gpu): one.nvlink for one in reversed(self.offers)}
