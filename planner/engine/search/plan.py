"""Search for a ranked plan: enumerate, evaluate, price, keep the best of each GPU and count, rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

import planner
from planner.engine.answers.plan import Counts, Plan, PlanRow
from planner.engine.columns import Rows
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.offer_prices import COMMITTED_H
from planner.engine.evaluate.task import Supply, Task
from planner.engine.job.bounds import check_planned
from planner.engine.job.compute_capability import dtypes_to_try, unsupported_reason
from planner.engine.job.context_length import check_context
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip, chip_over
from planner.engine.performance.operators.power import capped
from planner.engine.search.deployment import Deployments, deployments_of, with_replicas
from planner.engine.search.layouts import enumerate_layouts
from planner.engine.search.memory_screen import screen
from planner.engine.search.ranking import Scored, ranked
from planner.engine.search.rows.row import at_other_quotes, plan_rows, unsupported_row
from planner.engine.search.selection import Choice, choose, chosen_parts
from planner.engine.search.simulated import choose_simulated
from planner.engine.search.supply.bills import Nodes
from planner.engine.search.supply.node_types import FILTERS, NodeType, is_narrowed, node_types_for
from planner.hardware.catalogue.spelling import is_commonest
from planner.workload.hardware.owned import Owning
from planner.workload.tasks import Targets, Workload


def make_plan(task: Task, supply: Supply, *, simulated: bool = True) -> Plan:
    """Plan for `task` with all of its rows. Raises `UserError` for values that cannot be used.

    `simulated`: for a plan that is shown, not one of many. The best candidates of a service under a request rate are then simulated, where
    closed formulas are used otherwise, and the plan states how probably the first is better than the next.
    """
    workload = task.workload
    check_context(workload, task.models.main)
    check_planned(workload)
    jobs = _jobs(task)
    searched = _searched(task, jobs, supply)
    scored: list[Scored] = []
    if searched.candidates is not None:
        deployments = searched.candidates.deployments(workload)
        scored = _scored_rows(_chosen(deployments, simulated=simulated), workload, supply)
    scored += [Scored(unsupported_row(node, jobs[0]), float("inf")) for node in searched.others]
    rows = ranked(scored, workload, compared=simulated)
    plan = Plan(
        task=_filled_in(workload, jobs[0]),
        rows=rows,
        counts=Counts(considered=searched.considered, fit=searched.fit, shown=0),
        notes=[*_notes(workload), *_commonest(workload, supply), *_none_passes(workload, rows), *_owed_whole(rows)],
        version=planner.__version__,
    )
    return cut(plan, None)


def solutions(task: Task, supply: Supply, *, simulated: bool, below_usd_per_h: float | None = None) -> list[Choice]:
    """Candidates that meet every target, in the order of the rows of `make_plan`. Raises `UserError` as `make_plan` does.

    Rows at other providers' prices, which follow the candidate's own, are not included. `below_usd_per_h`: only cheaper deployments are
    wanted, so that nodes of which a single one costs as much may be left out.
    """
    check_context(task.workload, task.models.main)
    check_planned(task.workload)
    searched = _searched(task, _jobs(task), supply, below_usd_per_h)
    if searched.candidates is None:
        return []
    choices = _chosen(searched.candidates.deployments(task.workload), simulated=simulated)
    return sorted((choice for choice in choices if choice.meets), key=lambda choice: (choice.order, choice.node_type.gpu.name))


def _chosen(d: Deployments, *, simulated: bool) -> list[Choice]:
    """Candidates that become rows; `simulated`: the best of a service under a request rate are simulated."""
    return choose_simulated(d) if simulated and _comes_at_a_rate(d.workload) else choose(d)


def _notes(workload: Workload) -> Iterator[str]:
    """Notes on keys of the workload that may be misread."""
    price = workload.price_usd_per_gpu_h
    if isinstance(price, float) and not workload.gpus_considered:
        yield (
            f"price_usd_per_gpu_h = {price:g} is the price of this machine's devices alone, as no GPU is named "
            "(gpus_considered, --gpu): others are at their offers."
        )
    if workload.capex_usd and (left_out := (workload.owning or Owning()).left_out):
        yield f"what is bought counts as GPUs and their power alone; left out: {left_out}"


def _commonest(workload: Workload, supply: Supply) -> Iterator[str]:
    """Notes on names that several GPUs share; the most common GPU is used."""
    for name in workload.gpus_considered:
        if is_commonest(name, gpu := supply.find_gpu(name)):
            yield f"{name} is read as {gpu.name}, the most common GPU of that name."


def _none_passes(workload: Workload, rows: Sequence[PlanRow]) -> Iterator[str]:
    """Note on filters that no offer passes."""
    if any(row.offer for row in rows) or not is_narrowed(workload):
        return
    given = [f"{key} {', '.join(getattr(workload, key))}" for key in FILTERS if getattr(workload, key)]
    market = [] if workload.market == "any" else [f"market {workload.market}"]
    yield f"no offer passes the filters ({'; '.join([*market, *given])}): only this machine and what you own or buy is left."


def _owed_whole(rows: Sequence[PlanRow]) -> Iterator[str]:
    """Note on the part of its commitment that the first row leaves unused."""
    first = next((row for row in rows if row.rank == 1), None)
    if (
        first is None
        or first.offer is None
        or first.job_h is None
        or first.job_usd is None
        or first.offer.market not in COMMITTED_H
    ):
        return
    paid_h, used_h = first.job_usd.value / first.offer.usd_per_h, first.job_h.value
    if used_h < paid_h:
        yield (
            f"a commitment is owed whole: the job of the first row takes {used_h:,.0f} h, and {paid_h:,.0f} h are paid "
            "(commitment_use: share of the rest that other work uses)."
        )


def cut(plan: Plan, top: int | None, *, each_gpu: bool = False) -> Plan:
    """`plan` with its first `top` rows (None: all), the rows of this machine, and the first row of each GPU that is named or owned.

    `each_gpu`: only the first row of each GPU counts, so that these are the `top` best GPUs.
    """
    first_of: dict[str, int] = {}
    first_owned: dict[str, int] = {}
    for place, row in enumerate(plan.rows):
        first_of.setdefault(row.gpu, place)
        if row.owned is not None and not row.owned.bought:
            first_owned.setdefault(row.gpu, place)
    counting = [place for place, row in enumerate(plan.rows) if not each_gpu or first_of[row.gpu] == place]
    named = first_of.values() if plan.task.get("gpus_considered") else ()
    kept = {*counting[:top], *first_owned.values(), *named}
    rows = [row for place, row in enumerate(plan.rows) if place in kept or row.here]
    dates = [row.offer.as_of for row in rows if row.offer and row.offer.as_of.count("-") == 2]
    counts = msgspec.structs.replace(plan.counts, shown=len(rows))
    return msgspec.structs.replace(plan, rows=rows, counts=counts, prices_as_of=min(dates, default=None))


def _jobs(task: Task) -> list[Job]:
    """Job in every compute dtype that may be tried."""
    jobs = [task.job(dtype) for dtype in dtypes_to_try(task.workload, task.models.main)]
    if task.workload.dtype is not None:
        return jobs
    return [replace(job, assumed={"dtype": job.dtype} | job.assumed) for job in jobs]


class _Supported(msgspec.Struct, frozen=True):
    """Node types that can run the job, each with its chip and the job in the dtype it can compute in; and node types that cannot."""

    jobs: list[Job]
    node_types: list[NodeType]
    job_index: list[int]
    chips: list[Chip]
    others: list[NodeType]
    """One node type of each GPU that cannot run the job."""


def _supported(jobs: list[Job], node_types: Iterable[NodeType], supply: Supply) -> _Supported:
    found = _Supported(jobs, [], [], [], [])
    known: dict[tuple[str, bool, float | None], tuple[int, Chip] | None] = {}
    over: dict[tuple[str, bool, float | None, str], Chip] = {}
    for node in node_types:
        key = node.gpu.name, node.here, node.power_limit_w
        if key not in known:
            known[key] = _first_supported(jobs, node, supply)
            if known[key] is None and node.gpu.name not in {other.gpu.name for other in found.others}:
                found.others.append(node)
        if (usable := known[key]) is not None:
            number, chip = usable
            found.node_types.append(node)
            found.job_index.append(number)
            wired = *key, node.wire.kind
            if wired not in over:
                over[wired] = chip_over(chip, node.wire.kind)
            found.chips.append(over[wired])
    return found


def _first_supported(jobs: Sequence[Job], node: NodeType, supply: Supply) -> tuple[int, Chip] | None:
    """(number of the job, chip) of the first of `jobs` that the GPU can run; None: it can run none."""
    for number, job in enumerate(jobs):
        chip = None if unsupported_reason(node.gpu, job) else supply.chip(node.gpu, job.dtype, job.stored)
        if chip is not None:
            measured = node.here and chip.basis == "measured"  # under the power limit during the measurement
            return number, capped(chip, job.workload, None if measured else node.power_limit_w)
    return None


def _comes_at_a_rate(workload: Workload) -> bool:
    """True if requests arrive at a given rate, so that each may wait for others; pools have a closed form."""
    return workload.task == "serve" and workload.request_rate_per_s is not None and not workload.disaggregated


class _Unpriced(msgspec.Struct, frozen=True):
    """Candidates worth pricing, each evaluated with one replica."""

    evaluated: Evaluated
    nodes: Nodes
    node_index: Rows

    def deployments(self, workload: Workload) -> Deployments:
        """Candidates with as many replicas as the load of `workload` needs, their costs, and whether its targets are met."""
        evaluated = with_replicas(self.evaluated, workload, self.nodes.most[self.node_index])
        return deployments_of(evaluated, self.nodes, self.node_index, workload)


class _Searched(msgspec.Struct, frozen=True):
    """Search results for a workload, whatever limits it sets to latency, budget and burst."""

    candidates: _Unpriced | None
    """None: no node type can run the job."""
    others: list[NodeType]
    """One node type of each GPU that cannot run the job."""
    considered: int = 0
    fit: int = 0


def _searched(task: Task, jobs: list[Job], supply: Supply, below_usd_per_h: float | None = None) -> _Searched:
    """Search results for `task`, computed once for it and all tasks that differ only in limits; `below_usd_per_h`: see `solutions`."""
    key = id(supply), msgspec.msgpack.encode(_without_limits(task.workload))
    if (known := task.searches.get(key)) is None:
        node_types = node_types_for(task.workload, supply)
        if below_usd_per_h is not None:
            return _search(jobs, supply, [node for node in node_types if node.least_usd_per_h < below_usd_per_h])
        known = _search(jobs, supply, node_types)
        if not task.searches:  # only of the task as given: changed tasks are tried once
            task.searches[key] = known
    return known


def _without_limits(workload: Workload) -> Workload:
    """`workload` without the targets that only `Deployments` reads; unchanged where prefill has its own replicas."""
    if workload.disaggregated:
        return workload
    kept = Targets(deadline_h=workload.targets.deadline_h, headroom=workload.targets.headroom)
    return msgspec.structs.replace(workload, targets=kept)


def _search(jobs: list[Job], supply: Supply, node_types: Sequence[NodeType]) -> _Searched:
    supported = _supported(jobs, node_types, supply)
    if not supported.node_types:
        return _Searched(None, supported.others)
    job_index = np.array(supported.job_index)
    layouts = enumerate_layouts(supported.jobs[0], supported.node_types)
    screened = screen(supported.jobs, job_index, supported.chips, layouts)
    rows = node_index, _ = screened.node_index, screened.layout_index
    candidates = Candidates(supported.jobs, job_index[node_index], supported.chips, node_index, layouts.columns(*rows))
    evaluated = evaluate(candidates, screened.memory, layouts.pass_group(*rows))
    found = _Unpriced(evaluated, Nodes(supported.node_types), node_index)
    return _Searched(found, supported.others, layouts.candidates, screened.fit)


def _scored_rows(choices: Sequence[Choice], workload: Workload, supply: Supply) -> list[Scored]:
    """Rows with their scores; for the best row of each GPU also rows at other providers, where the price matters."""
    by_price = workload.objective in {"cheapest", "flop-per-usd"}
    scored: list[Scored] = []
    rows = plan_rows(choices, chosen_parts(choices), supply.spec_chip)
    for number, (choice, row) in enumerate(zip(choices, rows, strict=True)):
        score = float(choice.deployments.bill.score[choice.row])
        scored.append(Scored(row, score, (choice, number)))
        if choice.best and by_price:
            scored += [Scored(other, score * ratio, (choice, number)) for other, ratio in at_other_quotes(choice, row)]
    return scored


def _filled_in(workload: Workload, job: Job) -> dict[str, Any]:
    """`workload` as given, including every default that was filled in."""
    given: dict[str, Any] = msgspec.to_builtins(workload)
    if not isinstance(workload.model, str):
        given["model"] = job.architecture.family
    defaults: dict[str, Any] = {
        "targets": msgspec.to_builtins(workload.targets),
        "objective": workload.objective,
        "market": workload.market,
    }
    filled = dict(job.assumed) | defaults | given
    if workload.dtype is None:
        filled["dtype"] = job.dtype
    filled["targets"] = {"headroom": job.headroom} | {k: x for k, x in filled["targets"].items() if x is not None}
    return filled
