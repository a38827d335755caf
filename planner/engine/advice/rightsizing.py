"""Right-sizing: from what GPUs were seen to do to what to change, in order, and what each change saves a month.

Savings are (what it costs now - what it would cost) · 730 h, at the cheapest current offers or at the price given. "At most" marks
those that rest on something counters do not tell; `how` is the sum with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

import planner
from planner.engine.advice.cheaper_gpu import Candidate, Estimate, cheaper_by_engine, cheaper_by_needs, needs
from planner.engine.advice.diagnosis import Judgement, judge
from planner.engine.advice.observation import Observed
from planner.engine.advice.ownership import BreakEven, Owning, break_even
from planner.engine.advice.prices import Quote, quotes
from planner.engine.answers.answer import Answer
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.units import HOURS_PER_MONTH, UNKNOWN, usd_text
from planner.workload.tasks import Market, Workload

ActionKind = Literal[
    "release", "consolidate", "batch", "mig", "quantise", "checkpoint", "cheaper", "larger", "spot", "reserve", "power", "cool", "link",
    "benchmark", "stay",
]  # fmt: skip


class Saving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dollars a month; below 0 it costs more."""

    usd_per_month: float
    how: str
    """The sum, with its numbers."""
    at_most: bool = False


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do."""

    kind: ActionKind
    text: str
    saves: Saving | None = None
    """None: it cannot be told from what was seen; `note` says why."""
    note: str = ""
    gpu: str | None = None
    profile: str | None = None
    checks: list[str] = []

    @property
    def saving_text(self) -> str:
        """'saves ≤ 606 $/month'."""
        if self.kind == "stay":
            return ""
        if self.saves is None:
            return f"saves {UNKNOWN}"
        word = "costs" if self.saves.usd_per_month < 0 else "saves"
        return f"{word} {'≤ ' if self.saves.at_most else ''}{usd_text(abs(self.saves.usd_per_month))} $/month"


class RightSizing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU: what it does, and what to do about it."""

    observed: Observed
    judgement: Judgement
    price: Quote | None
    """What it is taken to cost; None: nobody in the catalogue rents it out, and no price was given."""
    actions: list[Action]
    rent_or_buy: BreakEven | None = None


class Advice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every GPU of the window, and what concerns several of them."""

    gpus: list[RightSizing]
    together: list[Action] = []
    usd_per_month: float | None = None
    """What they cost now, those with a price."""
    prices_as_of: str | None = None
    notes: list[str] = []
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class Means:
    """What judging is done with."""

    find_gpu: Mapping[str, Gpu]
    """Every part of the catalogue by its name."""
    offers: Sequence[Offer]
    chip: FindChip
    estimate: Estimate
    workload: Workload | None = None
    """What runs on each GPU, where it is known."""
    tokens_per_s: float | None = None
    """Of one GPU, where it was measured."""
    usd_per_h: float | None = None
    """What one GPU costs now, where it was said."""
    providers: Sequence[str] = ()
    owning: Owning = field(default_factory=Owning)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One GPU with everything its remedies are chosen by."""

    seen: Observed
    judgement: Judgement
    gpu: Gpu | None
    price: Quote | None
    prices: Mapping[Market, Mapping[str, Quote]]
    means: Means
    cheaper: Sequence[Candidate] = ()
    here: Answer | None = None
    """The engine's answer for the workload on this GPU."""

    def saving(self, usd_per_h: float, how: str, *, at_most: bool = False) -> Saving | None:
        """`usd_per_h` less, over a month; None without a price."""
        if self.price is None:
            return None
        return Saving(usd_per_month=usd_per_h * HOURS_PER_MONTH, how=f"{how} × {HOURS_PER_MONTH:.0f} h", at_most=at_most)

    @property
    def rent(self) -> float:
        """Dollars an hour; 0 where no price is known, which `saving` turns into None."""
        return self.price.usd_per_h if self.price is not None else 0.0


def right_size(observed: Iterable[Observed], means: Means) -> Advice:
    """The advice for every GPU observed. Raises `UserError` for a provider without offers."""
    from planner.engine.advice.actions import remedies
    from planner.engine.advice.consolidation import together

    markets: tuple[Market, ...] = ("on-demand", "spot", "reserved-1y", "reserved-3y")
    prices = {market: quotes(means.offers, market, means.providers) for market in markets}
    notes: dict[str, None] = {}
    cases = [_case(seen, prices, means, notes) for seen in observed]
    rows = [
        RightSizing(
            observed=case.seen,
            judgement=case.judgement,
            price=case.price,
            actions=remedies(case),
            rent_or_buy=_rent_or_buy(case),
        )
        for case in cases
    ]
    paid = [case.price for case in cases if case.price is not None]
    named = [*paid, *(one.quote for case in cases for one in case.cheaper[:1])]
    return Advice(
        gpus=rows,
        together=together(cases),
        usd_per_month=sum(quote.usd_per_h for quote in paid) * HOURS_PER_MONTH if paid else None,
        prices_as_of=min((quote.as_of for quote in named if quote.as_of.count("-") == 2), default=None),
        notes=list(notes),
        version=planner.__version__,
    )


def _case(seen: Observed, prices: Mapping[Market, Mapping[str, Quote]], means: Means, notes: dict[str, None]) -> Case:
    gpu, judgement = means.find_gpu.get(seen.gpu), judge(seen)
    on_demand = prices["on-demand"]
    given = Quote(usd_per_h=means.usd_per_h, market="given", provider="you") if means.usd_per_h is not None else None
    price = given or on_demand.get(seen.gpu)
    if gpu is None:
        notes[f"{seen.gpu} is not in the catalogue: it cannot be compared with others."] = None
    elif price is None:
        notes[f"Nobody in the catalogue rents out a {gpu.name}: give what it costs with --price."] = None
    case = Case(seen=seen, judgement=judgement, gpu=gpu, price=price, prices=prices, means=means)
    if gpu is None or price is None:
        return case
    candidates, here = _cheaper(case, gpu, price, notes)
    fields: dict[str, Any] = {name: getattr(case, name) for name in ("seen", "judgement", "gpu", "price", "prices", "means")}
    return Case(**fields, cheaper=candidates, here=here)


def _cheaper(case: Case, gpu: Gpu, price: Quote, notes: dict[str, None]) -> tuple[list[Candidate], Answer | None]:
    """Cheaper GPUs that would do, checked by the engine where the workload is known and can be what was seen."""
    means, limiter = case.means, case.judgement.limiter
    parts, on_demand = means.find_gpu.values(), case.prices["on-demand"]
    if means.workload is not None and limiter != "idle":
        found, here = cheaper_by_engine(means.workload, gpu, price, parts, on_demand, means.estimate, means.tokens_per_s)
        if isinstance(here, Answer):
            return found, here
        notes[f"The preset is not what was observed: {here}. Checked by what was seen to be needed instead."] = None
    if limiter != "idle" and not case.seen.counted:
        return [], None
    need = needs(case.seen, gpu, by_cycles=limiter not in {"idle", "bandwidth", "compute"})
    if need.memory_bytes is None:
        return [], None
    return cheaper_by_needs(need, gpu, price, parts, on_demand, means.chip), None


def _rent_or_buy(case: Case) -> BreakEven | None:
    gpu, seen = case.gpu, case.seen
    if gpu is None or gpu.purchase is None or case.price is None or seen.busy is None:
        return None
    power = seen.power_w if seen.power_w is not None else gpu.tdp_w
    if power is None or case.price.usd_per_h <= 0:
        return None
    return break_even(
        rent_usd_per_h=case.price.usd_per_h,
        purchase_usd=gpu.purchase.price_usd,
        utilisation=seen.busy,
        power_w=power,
        owning=case.means.owning,
        source=f"{gpu.purchase.kind}, {gpu.purchase.as_of}: {gpu.purchase.source}",
    )
