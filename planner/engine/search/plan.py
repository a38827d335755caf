"""From one workload to a ranked plan: enumerate, evaluate, price, keep the best of each place, rank, explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

import planner
from planner.engine.answers.plan import Counts, Plan, PlanRow
from planner.engine.evaluate.evaluation import Candidates, evaluate
from planner.engine.evaluate.request_rate import served
from planner.engine.explain.candidate import PLAN_HEADROOM
from planner.engine.job.compute_capability import barred
from planner.engine.job.context_length import check_context
from planner.engine.job.job import Job
from planner.engine.job.resolve import resolve
from planner.engine.levers.levers import levers_for, with_hints
from planner.engine.performance.operators.chip import Chip, FindChip
from planner.engine.search.layouts import DEFAULT_MOST_GPUS, Site, enumerate_layouts
from planner.engine.search.memory_screen import screen
from planner.engine.search.node_types import sites_for
from planner.engine.search.rows import Evaluation, elsewhere, missing_row, plan_row, ranked
from planner.engine.search.selection import choose
from planner.engine.search.targets import deployed, outcome_of
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload

MOST_SIMULATED = 5
"""Candidates of a service that are simulated at once: the best ones, beside those of this machine."""
SURE_PLACES = 3
"""So many first places go to candidates that were simulated."""
DTYPES_TO_TRY = ("bf16", "fp16", "fp32")
"""When the workload leaves the compute dtype open, the first a device has a figure for."""


@dataclass(frozen=True)
class Sources:
    """What a plan is made from."""

    gpus: Sequence[Gpu]
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    local_counts: Mapping[str, int]
    find_gpu: Callable[[str], Gpu]
    chip: FindChip
    spec_chip: FindChip
    """The same without this machine's measurements."""


@dataclass(frozen=True)
class _Posed:
    """Sites that can run the job, each with the job at its dtype and its chip; and those that cannot."""

    jobs: list[Job]
    sites: list[Site]
    site_job: list[int]
    chips: list[Chip]
    unsupported: list[Site]


def make_plan(
    workload: Workload,
    architecture: Architecture,
    sources: Sources,
    *,
    top: int | None = None,
    levers: bool = True,
    hints: bool = False,
    simulated: bool = True,
) -> Plan:
    """The plan for `workload`, its rows cut to `top` (this machine's stay). Raises `UserError` for values that cannot be used.

    `levers`: when nothing fits, look for changes that help. `hints`: name such a change for every GPU that is no solution.
    `simulated`: serve requests that come at a rate by the best candidates, one by one, instead of by closed formulas alone.
    """
    check_context(workload, architecture)
    considered = {sources.find_gpu(name).name for name in workload.gpus_considered}
    most = workload.max_gpus or DEFAULT_MOST_GPUS[workload.task]
    sites = sites_for(workload, sources.gpus, sources.offers, sources.machine, sources.local_counts, considered, most)
    posed = _pose(workload, architecture, sites, sources.chip)
    scored, counted, fit = _rows(workload, posed, sources, simulated=simulated and serves(workload))
    scored += [(missing_row(site, posed.jobs[0]), float("inf")) for site in posed.unsupported]
    in_order = ranked(scored, workload)
    if hints:
        in_order = with_hints(workload, architecture, sources, in_order, make_plan)
    help_needed = levers and not any(row.rank for row in in_order)
    shown = [row for place, row in enumerate(in_order) if top is None or place < top or row.here]
    dates = [row.offer.as_of for row in shown if row.offer and row.offer.as_of.count("-") == 2]
    return Plan(
        task=_task(workload, posed.jobs[0], architecture),
        rows=shown,
        counts=Counts(considered=counted, fit=fit, shown=len(shown)),
        levers=levers_for(workload, architecture, sources, in_order, make_plan) if help_needed else [],
        prices_as_of=min(dates, default=None),
        version=planner.__version__,
    )


def _pose(workload: Workload, architecture: Architecture, sites: Sequence[Site], chip: FindChip) -> _Posed:
    dtypes = (workload.dtype,) if workload.dtype else DTYPES_TO_TRY
    jobs = [resolve(msgspec.structs.replace(workload, dtype=dtype), architecture, headroom=PLAN_HEADROOM) for dtype in dtypes]
    if workload.dtype is None:
        jobs = [replace(job, assumed={"dtype": job.dtype} | job.assumed) for job in jobs]
    posed = _Posed(jobs, [], [], [], [])
    named: set[str] = set()
    for site in sites:
        for position, job in enumerate(jobs):
            found = None if barred(site.gpu, job) else chip(site.gpu, job.dtype, job.stored)
            if found is not None:
                posed.sites.append(site)
                posed.site_job.append(position)
                posed.chips.append(found)
                break
        else:
            if site.gpu.name not in named:
                posed.unsupported.append(site)
            named.add(site.gpu.name)
    return posed


def serves(workload: Workload) -> bool:
    """Whether requests come at a rate of their own, so that what one waits depends on the others; pools have a closed form."""
    return workload.task == "serve" and workload.request_rate_per_s is not None and not workload.disaggregated


def _rows(workload: Workload, posed: _Posed, sources: Sources, *, simulated: bool) -> tuple[list[tuple[PlanRow, float]], int, int]:
    """(rows with their scores, candidates considered, candidates that fit)."""
    if not posed.sites:
        return [], 0, 0
    layouts = enumerate_layouts(posed.jobs[0], posed.sites)
    site_job = np.array(posed.site_job)
    screened = screen(posed.jobs, site_job, posed.chips, layouts)
    place = site_index, _ = screened.site_index, screened.way_index
    candidates = Candidates(posed.jobs, site_job[site_index], posed.chips, site_index, layouts.columns(*place))
    evaluated = deployed(evaluate(candidates, screened.memory, layouts.alike(*place)), workload)
    outcome = outcome_of(evaluated, site_index, posed.sites, workload)
    v = Evaluation(evaluated, outcome, site_index, posed.sites, workload, sources.spec_chip)
    shown = [(v, row, best) for row, best in choose(_at_any_price(v) if simulated else v)]
    if simulated:
        shown = _simulated(shown)
    scored: list[tuple[PlanRow, float]] = []
    for of, row, best in shown:
        found, score = plan_row(of, row), float(of.outcome.score[row])
        scored.append((found, score))
        if best and workload.objective in {"cheapest", "flop-per-usd"}:
            scored += [(other, score * ratio) for other, ratio in elsewhere(of, row, found)]
    return scored, layouts.candidates, screened.fit


Shown = tuple[Evaluation, int, bool]
"""(what it is a row of, the row, whether it is its GPU's best)."""


def _at_any_price(v: Evaluation) -> Evaluation:
    """`v` judged without its budget: how many replicas a service needs, and so what it costs, is only known once it is simulated."""
    if v.workload.targets.budget_usd is None:
        return v
    free = msgspec.structs.replace(v.workload, targets=msgspec.structs.replace(v.workload.targets, budget_usd=None))
    return replace(v, outcome=outcome_of(v.evaluated, v.site_index, v.sites, free))


def _simulated(shown: list[Shown]) -> list[Shown]:
    """The best of `shown`, and this machine's, with what simulation says of them; the others as they were screened.

    A layout is simulated once, whatever load it was screened at. As long as one that was only screened is among the very best,
    more are simulated.
    """
    once = _of_different_layouts([item for item in shown if item[0].evaluated.memory.fits[item[1]]])
    rest = [item for item in shown if not item[0].evaluated.memory.fits[item[1]]]
    once.sort(key=_standing)
    done = list[Shown]()
    while once:
        placed = sorted([*once, *done], key=_standing)[:SURE_PLACES]
        if all(v.evaluated.queue is not None for v, _, _ in placed):
            break
        now = [place < MOST_SIMULATED or (_here(item) and not done) for place, item in enumerate(once)]
        done += _served([item for item, chosen in zip(once, now, strict=True) if chosen])
        once = [item for item, chosen in zip(once, now, strict=True) if not chosen]
    return _once_each(done + once + rest)


def _standing(item: Shown) -> tuple[bool, float]:
    v, row, _ = item
    return not v.outcome.meets[row], float(v.outcome.score[row])


def _here(item: Shown) -> bool:
    v, row, _ = item
    return v.sites[int(v.site_index[row])].here


def _of_different_layouts(shown: list[Shown]) -> list[Shown]:
    """The best of those that differ in replicas and load alone."""
    kept: dict[tuple[str, bool, float, float, float], Shown] = {}
    for item in sorted(shown, key=_standing):
        v, row, _ = item
        site, s = v.sites[int(v.site_index[row])], v.evaluated.candidates.layout
        degrees = (float(np.broadcast_to(of, v.evaluated.table.rows)[row]) for of in (s.tp, s.pp, s.ep))
        kept.setdefault((site.gpu.name, site.here, *degrees), item)  # type: ignore[arg-type]  # three of them
    return list(kept.values())


def _served(picked: list[Shown]) -> list[Shown]:
    """The same rows, simulated."""
    v = picked[0][0]
    rows = np.array([row for _, row, _ in picked])
    evaluated, place = served(v.evaluated.take(rows), v.workload.targets)
    site_index = v.site_index[rows][place]
    again = replace(v, evaluated=evaluated, outcome=outcome_of(evaluated, site_index, v.sites, v.workload), site_index=site_index)
    return [(again, number, picked[row][2]) for number, row in enumerate(place)]


def _once_each(shown: list[Shown]) -> list[Shown]:
    """Of every GPU and count the best alone: simulation may have brought two to the same count, and changed which is a GPU's best."""
    kept: dict[tuple[str, bool, float], tuple[Evaluation, int]] = {}
    best: dict[tuple[str, bool], tuple[str, bool, float]] = {}
    for v, row, _ in sorted(shown, key=_standing):
        site = v.sites[int(v.site_index[row])]
        place = (site.gpu.name, site.here, float(v.outcome.gpus[row]))
        kept.setdefault(place, (v, row))
        best.setdefault(place[:2], place)
    return [(v, row, best[place[:2]] == place) for place, (v, row) in kept.items()]


def _task(workload: Workload, job: Job, architecture: Architecture) -> dict[str, Any]:
    given: dict[str, Any] = msgspec.to_builtins(workload)
    if not isinstance(workload.model, str):
        given["model"] = architecture.family
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
