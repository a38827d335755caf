"""Candidates deployed for the whole workload: replicas, GPUs, hours, dollars, and whether its targets are met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.probability import probability_fits, probability_meets
from planner.engine.search.node_types import NodeType
from planner.engine.search.prefill_pools import with_pools
from planner.engine.search.targets import target_columns
from planner.units import SECONDS_PER_HOUR
from planner.workload.tasks import Workload

UNPRICED = 1e6
"""Overshoot of a budget that an unknown price cannot be held against."""
ENDLESS = 1e9
"""Overshoot of replicas whose queue grows without end."""


@dataclass(frozen=True)
class Deployments:
    """Evaluated candidates and what each means for the whole workload; columns of shape [rows]."""

    evaluated: Evaluated
    node_types: Sequence[NodeType]
    node_index: Rows
    """Number of the node type that each row is on."""
    workload: Workload
    gpus: Floats
    instances: Floats
    usd_per_h: Floats
    """NaN: no offer."""
    tokens_per_s: Floats
    """Throughput of the whole deployment."""
    job_h: Floats
    """NaN: the workload does not say how much there is to do."""
    job_usd: Floats
    meets: Flags
    """Fits, and misses no target."""
    overshoot: Floats
    """Largest ratio of a target's column to its limit; above 1 a target is missed."""
    score: Floats
    """Smaller is better, by the objective."""

    @cached_property
    def probability_fits(self) -> Floats:
        """Probability that the memory is enough."""
        return probability_fits(self.evaluated)

    @cached_property
    def probability_meets(self) -> Floats:
        """Probability that the memory is enough and every target is met."""
        columns = target_columns(self.evaluated, self.workload, self.job_h, self.job_usd, self.usd_per_h)
        return probability_meets(self.evaluated, columns)

    @cached_property
    def sure(self) -> Flags:
        """Whether the memory is enough with the confidence asked for."""
        return self.probability_fits >= self.workload.confidence

    def node_type(self, row: int) -> NodeType:
        """The node type that `row` is on."""
        return self.node_types[int(self.node_index[row])]


def with_replicas(e: Evaluated, workload: Workload) -> Evaluated:
    """`e` with as many replicas as the load needs: the request rate with its burst, or the requests within the deadline."""
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
    groups = np.where(e.memory.fits, np.maximum(1.0, np.ceil(needed / e.serve.requests_per_s / layout.expert_streams)), 1.0)
    replicas = groups * layout.expert_streams
    return e.with_layout(replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas))


def deployments_of(e: Evaluated, node_types: Sequence[NodeType], node_index: Rows, workload: Workload) -> Deployments:
    """`e` with what is paid and which targets are met."""
    gpus = e.table.layout.gpus
    billed = np.array([node.billed for node in node_types], dtype=np.float64)[node_index]
    here = np.array([node.here for node in node_types])[node_index]
    price = np.array([node.usd_per_h for node in node_types])[node_index]
    most = np.array([node.most for node in node_types], dtype=np.float64)[node_index]
    host = np.array([node.host_bytes_per_gpu for node in node_types])[node_index]
    instances = np.ceil(gpus / billed)
    tokens_per_s, job_h = _tokens_per_s(e, workload), _job_hours(e, workload)
    usd_per_h = instances * price
    job_usd = usd_per_h * job_h
    overshoot = gpus / most
    for _, column, limit in target_columns(e, workload, job_h, job_usd, usd_per_h):
        unknown = ~np.isfinite(column) & ~here
        overshoot = np.maximum(overshoot, np.where(np.isfinite(column), column / limit, np.where(unknown, UNPRICED, 0.0)))
    overshoot = np.maximum(overshoot, np.nan_to_num(e.memory.host / host))
    if e.queue is not None:
        overshoot = np.where(e.queue.saturated, ENDLESS, overshoot)
    return Deployments(
        evaluated=e,
        node_types=node_types,
        node_index=node_index,
        workload=workload,
        gpus=gpus,
        instances=instances,
        usd_per_h=usd_per_h,
        tokens_per_s=tokens_per_s,
        job_h=job_h,
        job_usd=job_usd,
        meets=e.memory.fits & (overshoot <= 1),
        overshoot=overshoot,
        score=_score(e, workload, tokens_per_s, usd_per_h, gpus),
    )


def _tokens_per_s(e: Evaluated, workload: Workload) -> Floats:
    if e.step:
        return e.step.tokens / e.step.step_s
    assert e.serve is not None
    job = e.candidates.jobs[0]
    return e.serve.requests_per_s * e.table.layout.dp * (job.input_tokens if workload.task == "prefill" else job.output_tokens)


def _job_hours(e: Evaluated, workload: Workload) -> Floats:
    """Hours of the whole job; NaN where the workload does not say how much there is to do."""
    if workload.tokens_to_train and e.step:
        return workload.tokens_to_train / _tokens_per_s(e, workload) / SECONDS_PER_HOUR
    if workload.requests and e.serve:
        return workload.requests / (e.serve.requests_per_s * e.table.layout.dp) / SECONDS_PER_HOUR
    return np.full(e.table.rows, np.nan)


def _score(e: Evaluated, workload: Workload, tokens_per_s: Floats, usd_per_h: Floats, gpus: Floats) -> Floats:
    """The objective as a column; unknown prices come after known ones, among themselves the faster first."""
    unpriced = 1e18 / np.maximum(tokens_per_s, 1e-30)
    if workload.objective == "fastest":
        return e.serve.request_s.p95 if e.serve and workload.request_rate_per_s else 1 / tokens_per_s
    if workload.objective == "fewest-gpus":
        return gpus * 1e6 + np.where(np.isfinite(usd_per_h), usd_per_h, 9e5)
    by_token = workload.objective == "flop-per-usd" or not workload.request_rate_per_s or e.serve is None
    known = usd_per_h / tokens_per_s if by_token else usd_per_h
    return np.where(np.isfinite(known), known, unpriced)
