"""Right-sizing: from observed GPUs to changes, in order, each with its monthly saving.

Savings are (present cost - new cost) · 730 h, at the cheapest current offers or at the price given. "At most" marks
savings that depend on something counters do not show; `how` is the calculation with its numbers.
Jobs of several GPUs fit on fewer: as MIG slices where the GPU can be divided, else side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

import planner
from planner.engine.advice.actions import gpu_actions, job_actions
from planner.engine.advice.advice import Action, Advice, RightSizing, Saving
from planner.engine.advice.case import Case, Inputs
from planner.engine.advice.cheaper_gpu import Candidate, cheaper_by_engine, cheaper_by_needs, needs
from planner.engine.advice.diagnosis import SM_HIGH, Limiter, judge
from planner.engine.advice.mig_slices import SliceNeed, pack, slice_need, smallest_for
from planner.engine.advice.observation import Observed
from planner.engine.advice.ownership import BreakEven, Quote, break_even, quotes
from planner.engine.answers.answer import Answer
from planner.engine.evaluate.offer_prices import PRICE_FIELDS
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.mig import Profile, profiles_of
from planner.units import HOURS_PER_MONTH
from planner.workload.tasks import Term

MakeActions = Callable[[Case], Iterator[Action]]
LEAST_SAVING_USD = 1.0
"""Smallest monthly saving that is shown."""
BY_LIMITER: Mapping[Limiter, tuple[MakeActions, ...]] = {
    "idle": (gpu_actions.release, gpu_actions.mig, gpu_actions.cheaper),
    "launch/host": (job_actions.batch, gpu_actions.mig, gpu_actions.cheaper),
    "bandwidth": (job_actions.batch, job_actions.quantise, gpu_actions.cheaper, gpu_actions.commit),
    "compute": (gpu_actions.cheaper, job_actions.quantise, gpu_actions.commit),
    "memory capacity": (job_actions.checkpoint, job_actions.quantise, gpu_actions.cheaper, gpu_actions.larger),
    "thermal": (gpu_actions.clock, gpu_actions.commit),
    "power": (gpu_actions.clock, gpu_actions.cheaper, gpu_actions.commit),
    "link": (gpu_actions.link, gpu_actions.commit),
    "unknown": (gpu_actions.benchmark, gpu_actions.commit),
}
"""Kinds of action for each limiter, in order; pauses come before all of them."""


def right_size(observed: Iterable[Observed], inputs: Inputs) -> Advice:
    """Advice for every observed GPU. Raises `UserError` for a provider without offers."""
    prices = {market: quotes(inputs.offers, market, inputs.providers) for market in PRICE_FIELDS}
    notes: dict[str, None] = {}
    cases = [_case(seen, prices, inputs, notes) for seen in observed]
    rows = [
        RightSizing(
            observed=case.seen,
            judgement=case.judgement,
            price=case.price,
            actions=_actions_for(case),
            rent_or_buy=_rent_or_buy(case),
        )
        for case in cases
    ]
    paid = [case.price for case in cases if case.price is not None]
    named = [*paid, *(one.quote for case in cases for one in case.cheaper[:1])]
    return Advice(
        gpus=rows,
        together=consolidations(cases),
        usd_per_month=sum(quote.usd_per_h for quote in paid) * HOURS_PER_MONTH if paid else None,
        prices_as_of=min((quote.as_of for quote in named if quote.as_of.count("-") == 2), default=None),
        notes=list(notes),
        version=planner.__version__,
    )


def _case(seen: Observed, prices: Mapping[Term, Mapping[str, Quote]], inputs: Inputs, notes: dict[str, None]) -> Case:
    gpu, judgement = inputs.find_gpu.get(seen.gpu), judge(seen)
    on_demand = prices["on-demand"]
    given = Quote(usd_per_h=inputs.usd_per_h, market="given", provider="you") if inputs.usd_per_h is not None else None
    price = given or on_demand.get(seen.gpu)
    if gpu is None:
        notes[f"{seen.gpu} is not in the catalogue: so it cannot be compared with others."] = None
    elif price is None:
        notes[f"Nobody in the catalogue rents out a {gpu.name}: give its price with --price."] = None
    case = Case(seen=seen, judgement=judgement, gpu=gpu, price=price, prices=prices, inputs=inputs)
    if gpu is None or price is None:
        return case
    candidates, here = _cheaper(case, gpu, price, notes)
    return replace(case, cheaper=candidates, here=here)


def _cheaper(case: Case, gpu: Gpu, price: Quote, notes: dict[str, None]) -> tuple[list[Candidate], Answer | None]:
    """Cheaper GPUs that are enough, checked by the engine where the workload is known and agrees with the observation."""
    inputs, limiter = case.inputs, case.judgement.limiter
    parts, on_demand = inputs.find_gpu.values(), case.prices["on-demand"]
    if inputs.workload is not None and limiter != "idle":
        found, here = cheaper_by_engine(inputs.workload, gpu, price, parts, on_demand, inputs.estimate, inputs.tokens_per_s)
        if isinstance(here, Answer):
            return found, here
        notes[f"The preset does not match what was observed: {here}. Checked against the observed needs instead."] = None
    if limiter != "idle" and not case.seen.counted:
        return [], None
    need = needs(case.seen, gpu, by_cycles=limiter not in {"idle", "bandwidth", "compute"})
    if need.memory_bytes is None:
        return [], None
    return cheaper_by_needs(need, gpu, price, parts, on_demand, inputs.chip), None


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
        owning=case.inputs.owning,
        source=f"{gpu.purchase.kind}, {gpu.purchase.as_of}: {gpu.purchase.source}",
    )


def _actions_for(case: Case) -> list[Action]:
    """Actions for this case, in order; 'stay' where nothing saves anything."""
    possible = [action for make in (gpu_actions.pauses, *BY_LIMITER[case.judgement.limiter]) for action in make(case)]
    actions = [action for action in possible if action.saves is None or abs(action.saves.usd_per_month) >= LEAST_SAVING_USD]
    worth = any(action.saves is None or action.saves.usd_per_month > 0 for action in actions if action.kind != "larger")
    if not worth:
        actions.append(Action(kind="stay", text="Stay: no cheaper GPU on offer does the same, and this one is well used."))
    return actions


SHARED_LIMIT = 0.85
"""Highest sum of shares of bandwidth, and of memory, for jobs side by side."""


class _Job(msgspec.Struct, frozen=True):
    """One job, on a whole GPU or on a slice; its need is a share of the whole GPU."""

    name: str
    need: SliceNeed


def consolidations(cases: Sequence[Case]) -> list[Action]:
    """Consolidation for each kind of GPU with more than one busy GPU."""
    kinds: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.gpu is not None and case.seen.counted and case.judgement.limiter not in {"idle", "memory capacity"}:
            kinds[case.gpu.name].append(case)
    return [action for found in kinds.values() if (action := _consolidated(found)) is not None]


def _consolidated(cases: Sequence[Case]) -> Action | None:
    gpu = cases[0].gpu
    if gpu is None:
        return None
    profiles = profiles_of(gpu)
    jobs = [job for case in cases for job in _jobs(case.seen, gpu, profiles)]
    sliced = {job.name: profile for job in jobs if (profile := smallest_for(job.need, profiles)) is not None}
    whole = next((one for one in profiles if one.sm_share == 1.0), None)
    if whole is not None:
        sliced |= {job.name: whole for job in jobs if job.name not in sliced}
    groups = pack(sliced) if profiles else _side_by_side(jobs, gpu)
    kept = len(groups)
    if kept >= len(cases):
        return None
    words = [", ".join(f"{name} as {sliced[name].name}" if profiles else name for name in group) for group in groups]
    rents = sorted((case.price.usd_per_h for case in cases if case.price is not None), reverse=True)
    freed = len(cases) - kept
    saves = None
    if len(rents) == len(cases):
        usd_per_h = sum(rents[:freed])
        saves = Saving(
            usd_per_month=usd_per_h * HOURS_PER_MONTH,
            how=f"{freed} of {len(cases)} GPUs given back: {usd_per_h:.2f} $/h × {HOURS_PER_MONTH:.0f} h",
        )
    way = "MIG slices" if profiles else "one process or MPS, without isolation"
    text = f"{len(jobs)} jobs on {kept} × {gpu.name} instead of {len(cases)} ({way})."
    return Action(kind="consolidate", text=text, saves=saves, gpu=gpu.name, checks=words)


def _jobs(seen: Observed, gpu: Gpu, profiles: Sequence[Profile]) -> list[_Job]:
    place = f"{seen.host}:{seen.index}" if seen.host else f"GPU {seen.index}"
    if not seen.slices:
        return [_Job(place, slice_need(seen.sm_active, seen.dram_bandwidth, seen.memory_used_bytes or gpu.memory_bytes))]
    by_name = {profile.name: profile for profile in profiles}
    jobs = []
    for number, part in enumerate(seen.slices):
        profile = by_name.get(part.profile)
        if profile is None or part.memory_used_bytes is None:
            jobs.append(_Job(f"{place} {part.profile} {number}", SliceNeed(1.0, 1.0, gpu.memory_bytes)))
            continue
        sm = (part.sm_active if part.sm_active is not None else 1.0) * profile.sm_share
        bandwidth = (part.dram_bandwidth if part.dram_bandwidth is not None else 1.0) * profile.bandwidth_share
        need = slice_need(sm, bandwidth, part.memory_used_bytes)
        held = SliceNeed(
            min(need.sm_share, profile.sm_share), min(need.bandwidth_share, profile.bandwidth_share), need.memory_bytes
        )
        jobs.append(_Job(f"{place} {part.profile} {number}", held))
    return jobs


def _side_by_side(jobs: Sequence[_Job], gpu: Gpu) -> list[list[str]]:
    """First fit, the largest first, by the sums of what they use."""
    groups: list[list[_Job]] = []
    for job in sorted(jobs, key=lambda one: -one.need.sm_share):
        for held in groups:
            mates = [*held, job]
            if (
                sum(one.need.sm_share for one in mates) <= SM_HIGH
                and sum(one.need.bandwidth_share for one in mates) <= SHARED_LIMIT
                and sum(one.need.memory_bytes for one in mates) <= gpu.memory_bytes * SHARED_LIMIT
            ):
                held.append(job)
                break
        else:
            groups.append([job])
    return [[job.name for job in group] for group in groups]
