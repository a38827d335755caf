"""Candidates deployed for the whole workload: replicas, GPUs, hours, dollars, and whether its targets are met."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, Rows, full
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.offer_prices import paid_hours
from planner.engine.evaluate.probability import probability_fits, probability_meets, room_for
from planner.engine.evaluate.spot import Spot, spot_of
from planner.engine.performance.simulation.load import replicas_at_work
from planner.engine.search.prefill_pools import with_pools
from planner.engine.search.supply.bills import Bill, GpuNeed, Nodes, Terms
from planner.engine.search.supply.node_types import NodeType
from planner.engine.search.supply.quotes import Quote
from planner.engine.search.targets import checkpoint_seconds, failures, latency_columns, paid_columns
from planner.units import SECONDS_PER_HOUR
from planner.workload.tasks import Workload

UNPRICED = 1e6
"""Overshoot of a budget where the price is unknown."""
UNAVAILABLE = 1e3
"""Overshoot of nodes that nobody sells, or sells only unjoined: another quote, or another layout, is closer to a solution."""
ENDLESS = 1e9
"""Overshoot of replicas whose queue grows without end, and of jobs that interruptions may keep from ending."""


class Deployments(msgspec.Struct, frozen=True, dict=True):
    """Evaluated candidates as deployed for the whole workload; columns of shape [rows]."""

    evaluated: Evaluated
    nodes: Nodes
    node_index: Rows
    """Number of the node type of each row."""
    workload: Workload
    gpus: Floats
    instances: Floats
    joined: Floats
    """Nodes over which each group of GPUs exchanges data."""
    tokens_per_s: Floats
    """Throughput of the whole deployment."""
    bill: Bill
    """Payment at the quote that suits each row best."""
    spot: Spot
    """Interruptions on spot instances, and their effect on the job."""
    failures: Floats
    """Time with failures ÷ time without, where there is a deadline; of one size or [rows]."""

    @cached_property
    def expected_h(self) -> Floats:
        """Hours of the job including failures."""
        return self.bill.job_h * self.failures

    @cached_property
    def meets(self) -> Flags:
        """True if it fits and misses no target."""
        return self.evaluated.memory.fits & (self.bill.overshoot <= 1)

    @cached_property
    def probability_fits(self) -> Floats:
        """Probability that the memory is enough."""
        return probability_fits(self.evaluated)

    @cached_property
    def probability_meets(self) -> Floats:
        """Probability that the memory is enough and every target is met."""
        return probability_meets(self.evaluated, self.targets)

    @cached_property
    def targets(self) -> list[tuple[str, Floats, float]]:
        """(name, column, limit) of every target."""
        e, workload = self.evaluated, self.workload
        return [*paid_columns(e, workload, self.expected_h, self.bill.job_usd, self.bill.usd_per_h), *latency_columns(e, workload)]

    @cached_property
    def sure(self) -> Flags:
        """True if the memory is enough with the required confidence."""
        return self.probability_fits >= self.workload.confidence

    @cached_property
    def can_be_had(self) -> Flags:
        """True if it is this machine, is owned, or has a known price."""
        return self.nodes.at_hand[self.node_index] | np.isfinite(self.bill.usd_per_h)

    def node_type(self, row: int) -> NodeType:
        """Node type of `row`."""
        return self.nodes.types[self.node_index.item(row)]

    def quote(self, row: int) -> Quote | None:
        """Quote that `row` is paid by; None: a price of its own, or none."""
        quotes = self.node_type(row).quotes
        return quotes[self.bill.quote.item(row)] if quotes else None


def with_replicas(e: Evaluated, workload: Workload, most: Floats | float = np.inf) -> Evaluated:
    """`e` with as many replicas as the load needs: for the request rate with its burst, or for the requests within the deadline.

    A deadline is met with the required confidence, as far as the `most` available GPUs allow: the work costs the same on more replicas.
    """
    if e.serve is None or e.candidates.jobs[0].task != "serve":
        return e
    rate, deadline_h = workload.request_rate_per_s or 0.0, workload.targets.deadline_h
    needed = rate * (1 + workload.targets.burst)
    if not needed and workload.requests and deadline_h:
        needed = workload.requests / (deadline_h * SECONDS_PER_HOUR)
    if workload.disaggregated:
        return with_pools(e, workload, needed)
    if not needed:
        return e
    layout, groups = e.table.layout, _groups(e, needed)
    if not rate:
        surely = _groups(e, needed * np.exp(e.ranges.half_width("serving throughput") * room_for(workload.confidence)))
        there = np.floor(most / (layout.tp * layout.pp * layout.expert_streams))
        groups = np.maximum(groups, np.minimum(surely, there))
    replicas = groups * layout.expert_streams
    return e.with_layout(replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas))


def _groups(e: Evaluated, needed: Floats | float) -> Floats:
    """Numbers of groups of replicas that share experts, or of single replicas, that answer `needed` requests per second; 1 if nothing fits."""
    assert e.serve is not None
    groups = np.ceil(needed / e.serve.requests_per_s / e.table.layout.expert_streams)
    return np.where(e.memory.fits, np.maximum(1.0, groups), 1.0)


def deployments_of(e: Evaluated, types: Nodes, node_index: Rows, workload: Workload) -> Deployments:
    """`e` with its costs and whether targets are met, each row at the quote of its node type that suits it best."""
    gpus = e.table.layout.gpus
    per_node = types.per_node[node_index]
    nodes = np.ceil(gpus / per_node)
    joined = np.ceil(_exchanging(e, workload) / per_node)
    tokens_per_s, job_h, longer = _tokens_per_s(e, workload), _job_hours(e, workload), failures(e, workload)
    spot = spot_of(workload, nodes if e.step else joined, checkpoint_seconds(e, nodes))
    rates = {"tokens_per_s": tokens_per_s, "job_h": job_h, "failures": longer, "spot": spot.value}
    wide: dict[str, Any] = {name: full(column, gpus.size) for name, column in rates.items()}
    need = GpuNeed(gpus, nodes, joined, **wide, **_of_any_price(e, types, node_index, workload))
    bill = _bill(e, workload, types.terms, types.first_quote[node_index], need)
    for slot in range(1, int(types.quotes.max())):
        rows = np.flatnonzero(types.quotes[node_index] > slot)
        if rows.size:
            numbers = types.first_quote[node_index[rows]] + slot
            other = _bill(e, workload, types.terms, numbers, need.take(rows), slot)
            bill = bill.or_better(rows, other, e.memory.fits[rows])
    return Deployments(e, types, node_index, workload, gpus, nodes, joined, tokens_per_s, bill, spot, longer)


def _of_any_price(e: Evaluated, types: Nodes, node_index: Rows, workload: Workload) -> dict[str, Any]:
    """Fields of `GpuNeed` that say how close the rows come to the targets that do not depend on prices."""
    here, over = types.here[node_index], e.table.layout.gpus / types.most[node_index]
    for _, column, limit in latency_columns(e, workload):
        over = np.maximum(over, _ratio(column, limit, here))
    return {
        "here": here,
        "host": e.memory.host,
        "over": over,
        "saturated": e.queue.saturated if e.queue else None,
        "request_s": e.serve.request_s.p95 if e.serve and workload.request_rate_per_s else None,
    }


def _ratio(column: Floats, limit: float, here: Flags) -> Floats:
    """`column` ÷ its limit; unknown values are far over it, except on this machine, which is paid for."""
    known, over = np.isfinite(column), column / limit
    return over if known.all() else np.where(known, over, np.where(here, 0.0, UNPRICED))


def _exchanging(e: Evaluated, workload: Workload) -> Floats:
    """GPUs of each group that exchanges data: all of a job, of pools, or of a fixed batch; for a service those of one replica."""
    layout = e.table.layout
    if e.step or workload.disaggregated or workload.task != "serve":
        return layout.gpus
    return np.minimum(layout.gpus, layout.tp * layout.pp * layout.cp * layout.expert_streams)


def _bill(e: Evaluated, workload: Workload, quotes: Terms, numbers: Rows, need: GpuNeed, slot: int = 0) -> Bill:
    """Costs and targets of the rows of `need`, each at its quote among `quotes`, which has the number `slot` in its node type."""
    terms = quotes.at(numbers)
    usd_per_h = np.where(terms.each_gpu, need.gpus, need.nodes) * terms.usd_per_h
    job_h, job_usd, effective = need.job_h, need.job_h, usd_per_h
    if not need.endless:
        job_h = job_h * np.where(terms.spot, need.spot, 1.0)
        paid_h = job_h.copy()
        for term, provider, rows in quotes.billed(numbers):
            paid_h[rows] = paid_hours(term, job_h[rows], use=workload.commitment_use or 0.0, provider=provider)
        job_usd = usd_per_h * paid_h
        ends = np.isfinite(job_usd)
        effective = np.where(ends, job_usd / np.where(ends, need.job_h, 1.0), usd_per_h)
    lacking = np.maximum(need.nodes / terms.machines, np.where(need.joined > 1, need.joined / terms.cluster, 0.0))
    overshoot = np.maximum(need.over, np.where(lacking > 1, UNAVAILABLE * lacking, lacking))
    for _, column, limit in paid_columns(e, workload, job_h * need.failures, job_usd, usd_per_h):
        overshoot = np.maximum(overshoot, _ratio(column, limit, need.here))
    overshoot = np.maximum(overshoot, np.nan_to_num(need.host / terms.host))
    if need.saturated is not None:
        overshoot = np.where(need.saturated, ENDLESS, overshoot)
    overshoot = np.where(terms.spot & np.isinf(job_h), ENDLESS, overshoot)
    score = _score(e, workload, need, effective)
    return Bill(
        np.full(numbers.size, slot),
        usd_per_h,
        *(full(column, numbers.size) for column in (effective, job_h, job_usd, overshoot, score)),
    )


def _tokens_per_s(e: Evaluated, workload: Workload) -> Floats:
    if e.step:
        return e.step.tokens / e.step.step_s
    assert e.serve is not None
    job = e.candidates.jobs[0]
    return _requests_per_s(e) * (job.input_tokens if workload.task == "prefill" else job.output_tokens)


def _requests_per_s(e: Evaluated) -> Floats:
    assert e.serve is not None
    dp = e.table.layout.dp
    return e.serve.requests_per_s * (replicas_at_work(e.candidates.jobs[:1], dp) if e.candidates.jobs[0].task == "serve" else dp)


def _job_hours(e: Evaluated, workload: Workload) -> Floats:
    """Hours of the whole job; NaN if the workload does not state the amount of work."""
    if workload.tokens_to_train and e.step:
        return workload.tokens_to_train / _tokens_per_s(e, workload) / SECONDS_PER_HOUR
    if workload.requests and e.serve:
        return workload.requests / _requests_per_s(e) / SECONDS_PER_HOUR
    return np.full(e.table.rows, np.nan)


def is_bounded(workload: Workload) -> bool:
    """True if `workload` states an amount of work per time: more GPUs than needed are then no better."""
    return bool(workload.request_rate_per_s or isinstance(workload.concurrency, int) or workload.targets.deadline_h)


def _score(e: Evaluated, workload: Workload, need: GpuNeed, usd_per_h: Floats) -> Floats:
    """Objective as a column. Unknown prices come after known ones, ordered by fewer GPUs where the work is bounded, else by speed."""
    gpus, tokens_per_s = need.gpus, need.tokens_per_s
    unpriced = 1e18 * gpus if is_bounded(workload) else 1e18 / np.maximum(tokens_per_s, 1e-30)
    if workload.objective == "fastest":
        return 1 / tokens_per_s if need.request_s is None else need.request_s
    if workload.objective == "fewest-gpus":
        return gpus * 1e6 + np.where(np.isfinite(usd_per_h), usd_per_h, 9e5)
    by_token = workload.objective == "flop-per-usd" or not workload.request_rate_per_s or e.serve is None
    known = usd_per_h / tokens_per_s if by_token else usd_per_h
    return np.where(np.isfinite(known), known, unpriced)
