"""Changes of a workload that make its first row cheaper, each planned by the engine like any other workload."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import isfinite

import msgspec

from planner.engine.answers.figure import value_of
from planner.engine.answers.plan import Lever, LeverState, Plan, PlanRow
from planner.engine.levers.changed_plans import ChangedPlans, Keys
from planner.engine.levers.changes import LOOSER, Change, looser_limits
from planner.engine.search.selection import Choice
from planner.units import duration_text, percent_text
from planner.workload.tasks import Workload

LEAST_SAVING = 0.05
"""Share of the price that a change has to save to be shown."""
MOST_PROVED, MOST_NAMED = 4, 3
"""Changes that are planned in full, simulation included, and changes that are shown."""


def savings_for(plans: ChangedPlans, plan: Plan) -> list[Lever]:
    """Changes after which the first row costs less, the largest saving first; one of each group.

    Screened by closed formulas, then planned in full: the figures shown are those of the plan that the lever's own command prints.
    """
    workload = plans.task.workload
    first = next((row for row in plan.rows if row.rank == 1), None)
    paid = cost_of(first, workload) if first else None
    rented = next((row for row in plan.rows if row.rank and row.verdict == "fits" and not row.here), None)
    if workload.request_rate_per_s:
        screened = _first(plans, {})
        usual = screened.cost if screened else None
    else:
        usual = cost_of(rented, workload) if rented else None
    if first is None or paid is None or usual is None:
        return []
    tried = []
    by_price = workload.request_rate_per_s and not workload.requests and workload.objective == "cheapest"
    below = (1 - LEAST_SAVING) * usual if by_price else None
    for change in cheaper(plans):
        solved = _first(plans, change.keys, below_usd_per_h=below)
        if solved is not None and solved.cost is not None and solved.cost < (1 - LEAST_SAVING) * usual:
            tried.append((solved.cost / usual, change, solved))
    found: dict[str, tuple[float, Lever]] = {}
    for _, change, solved in sorted(tried, key=lambda item: item[0])[:MOST_PROVED]:
        if change.group in found:
            continue
        whole = _first(plans, change.keys, simulated=True) if workload.request_rate_per_s else solved
        if whole is not None and whole.cost is not None and whole.cost < (1 - LEAST_SAVING) * paid:
            found[change.group] = whole.cost, _lever(change, first, whole.row)
    return [lever for _, lever in sorted(found.values(), key=lambda item: item[0])[:MOST_NAMED]]


def cost_of(row: PlanRow, workload: Workload) -> float | None:
    """Dollars by which rows of one workload are compared: of the job, of an hour of a service, else of a million tokens."""
    if row.job_usd is not None:
        return row.job_usd.value
    if workload.request_rate_per_s:
        return value_of(row.usd_per_h)
    return value_of(row.answer.usd_per_million_tokens)


def cheaper(plans: ChangedPlans) -> Iterator[Change]:
    """Changes that may let the same work cost less: smaller numbers, looser targets, other terms."""
    w = plans.task.workload
    yield from (change for change in plans.changes if change.costs == "precision")
    for limit in w.targets.latency_limits():
        looser = float(f"{limit.seconds * LOOSER:.2g}")
        if looser > limit.seconds:
            yield looser_limits(w, {limit: looser})
    if w.targets.deadline_h is not None:
        looser = float(f"{w.targets.deadline_h * LOOSER:.2g}")
        if looser > w.targets.deadline_h:
            words = f"{duration_text(looser * 3600)} instead of {duration_text(w.targets.deadline_h * 3600)}"
            yield Change({"targets": msgspec.structs.replace(w.targets, deadline_h=looser)}, words, "target", 1.0)
    if w.targets.burst and w.request_rate_per_s:
        words = f"no burst of {percent_text(w.targets.burst)} to absorb"
        yield Change({"targets": msgspec.structs.replace(w.targets, burst=0.0)}, words, "margin", 1.0)
    ends = bool(w.tokens_to_train or w.requests)
    if ends and w.market == "on-demand":
        yield Change({"market": "spot"}, "spot instances", "interruptions", 0.5)
    if not ends and w.market in {"on-demand", "reserved-1y"}:
        yield Change({"market": "reserved-3y"}, "a commitment of three years", "commitment", 2.0)


class _Solution(msgspec.Struct, frozen=True, dict=True):
    """A solution of a changed workload, converted to a row where needed."""

    plans: ChangedPlans
    choice: Choice

    @cached_property
    def row(self) -> PlanRow:
        """Row of a plan that it becomes."""
        return self.plans.rows([self.choice])[0]

    @cached_property
    def cost(self) -> float | None:
        """Dollars of `cost_of` for the row; for an hour of a service without an end they are known before the row is made."""
        workload = self.choice.deployments.workload
        if workload.requests or not workload.request_rate_per_s:
            return cost_of(self.row, workload)
        usd_per_h = float(self.choice.deployments.bill.usd_per_h[self.choice.row])
        return usd_per_h if isfinite(usd_per_h) else None


def _first(plans: ChangedPlans, keys: Keys, *, simulated: bool = False, below_usd_per_h: float | None = None) -> _Solution | None:
    """First solution with `keys` changed that is rented and surely fits; `below_usd_per_h`: see `search.plan.solutions`."""
    choices = plans.solutions(keys, simulated=simulated, below_usd_per_h=below_usd_per_h)
    found = next((choice for choice in choices if choice.sure), None)
    return _Solution(plans, found) if found else None


def _lever(change: Change, before: PlanRow, after: PlanRow) -> Lever:
    then, now = _state(before), _state(after)
    place = f"{now.gpus:,} × {now.gpu}"
    moved = f"{place} instead of {then.gpus:,} × {then.gpu}" if (now.gpu, now.gpus) != (then.gpu, then.gpus) else place
    return Lever(
        change=change.keys,
        text=f"{change.text}: {moved}",
        gpu=after.gpu,
        gpus=now.gpus,
        costs=change.costs,
        before=then,
        after=now,
    )


def _state(row: PlanRow) -> LeverState:
    assert row.usd_per_h is not None
    return LeverState(
        gpu=row.gpu,
        gpus=row.answer.gpus,
        usd_per_h=row.usd_per_h.value,
        usd_per_month=value_of(row.usd_per_month),
        job_usd=value_of(row.job_usd),
        job_h=value_of(row.job_h),
        usd_per_million_tokens=value_of(row.answer.usd_per_million_tokens),
        offer=f"{row.offer.provider} {row.offer.instance}, {row.offer.market}" if row.offer else None,
    )
