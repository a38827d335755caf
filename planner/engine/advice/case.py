"""One observed GPU with everything that its actions depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from planner.engine.advice.advice import Saving
from planner.engine.advice.cheaper_gpu import Candidate, Estimate
from planner.engine.advice.diagnosis import Judgement
from planner.engine.advice.observation import Observed
from planner.engine.advice.ownership import Quote
from planner.engine.answers.answer import Answer
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH
from planner.workload.hardware.owned import Owning
from planner.workload.tasks import Term, Workload


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Data behind advice, in addition to the observation."""

    find_gpu: Mapping[str, Gpu]
    """Every GPU of the catalogue by its name."""
    offers: Sequence[Offer]
    chip: FindChip
    estimate: Estimate
    workload: Workload | None = None
    """Workload on each GPU, where it is known."""
    tokens_per_s: float | None = None
    """Throughput of one GPU, where it was measured."""
    usd_per_h: float | None = None
    """Current price of one GPU, where the user gave it."""
    providers: Sequence[str] = ()
    owning: Owning = msgspec.field(default_factory=Owning)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU with everything that its actions depend on."""

    seen: Observed
    judgement: Judgement
    gpu: Gpu | None
    price: Quote | None
    prices: Mapping[Term, Mapping[str, Quote]]
    inputs: Inputs
    cheaper: Sequence[Candidate] = ()
    here: Answer | None = None
    """The engine's answer for the workload on this GPU."""

    def saving(self, share: float = 1.0, how: str = "", *, at_most: bool = False) -> Saving | None:
        """Saving of `share` of the rent per month; None without a price. `how`: the share with its numbers."""
        times = f" × {how}" if how else ""
        return self._monthly(self.rent * share, f"{self.rent:.2f} $/h{times}", at_most=at_most)

    def saving_at(self, usd_per_h: float) -> Saving | None:
        """Saving per month of a GPU at `usd_per_h` in place of this one; None without a price."""
        return self._monthly(self.rent - usd_per_h, f"({self.rent:.2f} - {usd_per_h:.2f}) $/h")

    def _monthly(self, usd_per_h: float, how: str, *, at_most: bool = False) -> Saving | None:
        if self.price is None:
            return None
        return Saving(usd_per_month=usd_per_h * HOURS_PER_MONTH, how=f"{how} × {HOURS_PER_MONTH:.0f} h", at_most=at_most)

    @property
    def rent(self) -> float:
        """Dollars per hour; 0 if no price is known, for which savings are None."""
        return self.price.usd_per_h if self.price is not None else 0.0
