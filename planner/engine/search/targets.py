"""What a candidate means for the whole workload: replicas, GPUs, hours, dollars, and whether its targets are met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.search.layouts import Site
from planner.engine.search.prefill_pools import with_pools
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, duration_text, usd_text
from planner.workload.tasks import LATENCY_TARGETS, Workload

UNPRICED = 1e6
"""Overshoot of a budget that an unknown price cannot be held against."""
ENDLESS = 1e9
"""Overshoot of replicas whose queue grows without end."""

LATENCY_WORDS = {"request": "request time", "ttft": "time to first token", "tpot": "time per token"}


@dataclass(frozen=True)
class Outcome:
    """Shape [rows]."""

    gpus: Floats
    instances: Floats
    usd_per_h: Floats
    """NaN: no offer."""
    tokens_per_s: Floats
    """Of the whole deployment."""
    job_h: Floats
    """NaN: the workload does not say how much there is to do."""
    job_usd: Floats
    meets: Flags
    overshoot: Floats
    """Largest ratio of a target column to its limit; above 1 a target is missed."""
    score: Floats
    """Smaller is better, by the objective."""


def deployed(e: Evaluated, workload: Workload) -> Evaluated:
    """With as many replicas as the load needs: the request rate with its burst, or the requests within the deadline."""
    if e.serve is None or e.candidates.jobs[0].task != "serve":
        return e
    needed = workload.request_rate_per_s * (1 + workload.targets.burst) if workload.request_rate_per_s else 0.0
    if not needed and workload.requests and workload.targets.deadline_h:
        needed = workload.requests / (workload.targets.deadline_h * SECONDS_PER_HOUR)
    if workload.disaggregated:
        return with_pools(e, workload, needed)
    if not needed:
        return e
    layout = e.table.layout
    replicas = np.where(e.memory.fits, np.maximum(1.0, np.ceil(needed / e.serve.requests_per_s)), 1.0)
    layout = replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas)
    return replace(e, candidates=replace(e.candidates, layout=layout), table=replace(e.table, layout=layout))


def outcome_of(e: Evaluated, site_index: Rows, sites: Sequence[Site], workload: Workload) -> Outcome:
    """Columns of what is paid and what is met."""
    layout = e.table.layout
    billed = np.array([site.billed for site in sites], dtype=np.float64)[site_index]
    here = np.array([site.here for site in sites])[site_index]
    price = np.array([site.usd_per_h for site in sites])[site_index]
    most = np.array([site.most for site in sites], dtype=np.float64)[site_index]
    instances = np.ceil(layout.gpus / billed)
    rate = _rate(e, workload)
    requests = e.serve.requests_per_s * layout.dp if e.serve else np.full_like(rate, np.nan)
    hours = np.full_like(rate, np.nan)
    if workload.tokens_to_train and e.step:
        hours = workload.tokens_to_train / rate / SECONDS_PER_HOUR
    elif workload.requests and e.serve:
        hours = workload.requests / requests / SECONDS_PER_HOUR
    usd_per_h = instances * price
    job_usd = usd_per_h * hours
    overshoot = layout.gpus / most
    for _, column, limit in target_columns(e, workload, hours, job_usd, usd_per_h):
        unknown = ~np.isfinite(column) & ~here
        overshoot = np.maximum(overshoot, np.where(np.isfinite(column), column / limit, np.where(unknown, UNPRICED, 0.0)))
    room = np.array([site.host_bytes_per_gpu for site in sites])[site_index]
    overshoot = np.maximum(overshoot, np.nan_to_num(e.memory.host / room))
    if e.queue is not None:
        overshoot = np.where(e.queue.saturated, ENDLESS, overshoot)
    meets = e.memory.fits & (overshoot <= 1)
    score = _score(workload, e, rate, usd_per_h, layout.gpus)
    return Outcome(layout.gpus, instances, usd_per_h, rate, hours, job_usd, meets, overshoot, score)


def target_columns(
    e: Evaluated, workload: Workload, hours: Floats, job_usd: Floats, usd_per_h: Floats
) -> list[tuple[str, Floats, float]]:
    """(name, column, limit) of every target the workload sets and the candidate can be judged by."""
    t, found = workload.targets, []
    if t.deadline_h is not None:
        found.append(("deadline_h", hours, t.deadline_h))
    if t.budget_usd is not None:
        found.append(("budget_usd", job_usd if e.step or workload.requests else usd_per_h * HOURS_PER_MONTH, t.budget_usd))
    if e.serve is not None:
        for name in LATENCY_TARGETS:
            limit = getattr(t, name)
            if limit is not None:
                share, latency, _ = name.split("_")
                found.append((name, getattr(e.serve, f"{latency}_{share}_s"), limit))
    return found


def missed(name: str, value: float, limit: float) -> str:
    """A missed target in words."""
    if name == "deadline_h":
        return f"takes {duration_text(value * SECONDS_PER_HOUR)}, deadline {duration_text(limit * SECONDS_PER_HOUR)}"
    if name == "budget_usd":
        return f"costs ${usd_text(value)}, budget ${usd_text(limit)}"
    share, latency, _ = name.split("_")
    words = f"{share} {LATENCY_WORDS[latency]}"
    return f"{words} {duration_text(value)}, wanted {duration_text(limit)}"


def _rate(e: Evaluated, workload: Workload) -> Floats:
    if e.step:
        return e.step.tokens / e.step.step_s
    assert e.serve is not None
    job = e.candidates.jobs[0]
    return e.serve.requests_per_s * e.table.layout.dp * (job.input_tokens if workload.task == "prefill" else job.output_tokens)


def _score(workload: Workload, e: Evaluated, rate: Floats, usd_per_h: Floats, gpus: Floats) -> Floats:
    """Unknown prices come after known ones; among themselves the faster first."""
    unpriced = 1e18 / np.maximum(rate, 1e-30)
    if workload.objective == "fastest":
        return e.serve.request_p95_s if e.serve and workload.request_rate_per_s else 1 / rate
    if workload.objective == "fewest-gpus":
        return gpus * 1e6 + np.where(np.isfinite(usd_per_h), usd_per_h, 9e5)
    by_token = workload.objective == "flop-per-usd" or not workload.request_rate_per_s or e.serve is None
    known = usd_per_h / rate if by_token else usd_per_h
    return np.where(np.isfinite(known), known, unpriced)
