"""A fleet's advice in sums: cost and waste by verdict, host and job, and the GPUs that are slow or faulty compared with their peers.

Waste is the monthly saving of the best action of each GPU; actions of one GPU exclude each other, so they are not added. Peers are working
GPUs of one model. A GPU is slow when its clock, or its arithmetic among the GPUs of its job, is further below their median than five
robust standard deviations and `LEAST_SLOW`.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from planner.engine.advice.advice import Advice, FleetSummary, Group, RightSizing, Suspect
from planner.engine.advice.diagnosis import IDLE
from planner.engine.advice.observation import Observed
from planner.units import HOURS_PER_MONTH, percent_text

LEAST_PEERS = 4
"""Minimum number of GPUs that are compared with each other."""
LEAST_SLOW = 0.07
"""Deviation of clocks among equal boards at equal work, due to the binning of chips and the temperature of a rack."""
LEAST_USE = 0.5
"""Use relative to the busiest peer below which averages over the time in use are too short to be compared."""
DEVIATIONS, NORMAL_MAD = 5.0, 1.4826
HEAT = ("software thermal", "hardware thermal", "hardware slowdown", "power brake")
LEAST_HELD_BACK = 0.05
"""Share of the time in use below which throttling by heat is not reported."""
NAMELESS = "not named"


def summary_of(advice: Advice, warnings: Mapping[tuple[str, int], Sequence[str]]) -> FleetSummary:
    """Groups and the suspects. `warnings`: faults of memory by host and index of the GPU."""
    seen = [one.observed for one in advice.gpus]
    return FleetSummary(
        by_verdict=_groups(advice.gpus, lambda one: one.judgement.limiter),
        by_host=_groups(advice.gpus, lambda one: one.observed.host or NAMELESS),
        by_job=_groups(advice.gpus, lambda one: one.observed.job or NAMELESS),
        suspects=list(suspects(seen, warnings)),
    )


def waste_of(one: RightSizing) -> tuple[float, bool]:
    """(monthly dollars that the best action saves, whether that is an upper limit)."""
    savings = [action.saves for action in one.actions if action.saves is not None and action.saves.usd_per_month > 0]
    best = max(savings, key=lambda saves: saves.usd_per_month, default=None)
    return (best.usd_per_month, best.at_most) if best is not None else (0.0, False)


def _groups(gpus: Iterable[RightSizing], name: Callable[[RightSizing], str]) -> list[Group]:
    found: dict[str, list[RightSizing]] = defaultdict(list)
    for one in gpus:
        found[name(one)].append(one)
    return sorted(
        (_group(key, ones) for key, ones in found.items()), key=lambda one: (-one.waste_usd_per_month, -one.gpus, one.name)
    )


def _group(name: str, ones: Sequence[RightSizing]) -> Group:
    priced = [one.price.usd_per_h * HOURS_PER_MONTH for one in ones if one.price is not None]
    shares = [one.observed.busy for one in ones if one.observed.busy is not None]
    wastes = [waste_of(one) for one in ones]
    return Group(
        name=name,
        gpus=len(ones),
        busy=statistics.fmean(shares) if shares else None,
        usd_per_month=sum(priced) if priced else None,
        waste_usd_per_month=sum(waste for waste, _ in wastes),
        at_most=any(at_most for waste, at_most in wastes if waste),
    )


def suspects(seen: Sequence[Observed], warnings: Mapping[tuple[str, int], Sequence[str]]) -> Iterator[Suspect]:
    """GPUs with failing memory, held back by heat, slower than GPUs of the same model, or stragglers of their job; one entry for each reason."""
    reasons: dict[int, list[str]] = defaultdict(list)
    for number, one in enumerate(seen):
        reasons[number] += warnings.get((one.host, one.index), ())
        held = {reason: share for reason, share in one.held_back.items() if reason in HEAT and share >= LEAST_HELD_BACK}
        if held and (one.busy or 0.0) >= IDLE:
            reasons[number].append(
                "held back by " + ", ".join(f"{name} {percent_text(share)} of the time" for name, share in held.items())
            )
    for number, ratio in _behind(seen, lambda one: one.gpu, lambda one: one.sm_clock_hz):
        reasons[number].append(f"clock at {ratio:.2f} of its peers")
    for number, ratio in _behind(seen, lambda one: one.job and f"{one.job}\0{one.gpu}", _work):
        reasons[number].append(f"arithmetic at {ratio:.2f} of its job's")
    for number, found in sorted(reasons.items()):
        one = seen[number]
        if found:
            yield Suspect(host=one.host, index=one.index, gpu=one.gpu, job=one.job, why="; ".join(found))


def _work(one: Observed) -> float | None:
    """Use of the tensor pipes where they are counted and at work, else of the memory."""
    return one.tensor_active if one.tensor_active and one.tensor_active >= IDLE else one.dram_bandwidth


def _behind(
    seen: Sequence[Observed], group: Callable[[Observed], str], value: Callable[[Observed], float | None]
) -> Iterator[tuple[int, float]]:
    """(number, value ÷ median of its group) of the GPUs in use that are far below the median."""
    groups: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, one in enumerate(seen):
        figure, name = value(one), group(one)
        if name and figure and (one.busy or 0.0) >= IDLE:
            groups[name].append((number, figure))
    for every in groups.values():
        most = max(seen[number].busy or 0.0 for number, _ in every)
        found = [(number, figure) for number, figure in every if (seen[number].busy or 0.0) >= LEAST_USE * most]
        if len(found) < LEAST_PEERS:
            continue
        middle = statistics.median(figure for _, figure in found)
        spread = NORMAL_MAD * statistics.median(abs(figure / middle - 1) for _, figure in found)
        least = 1 - max(LEAST_SLOW, DEVIATIONS * spread)
        yield from ((number, figure / middle) for number, figure in found if figure / middle < least)
