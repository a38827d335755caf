"""Pools of a disaggregated service: the replicas that read prompts and the replicas that decode, as many as its load needs."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.performance.disaggregated import PoolRates, pool_demand, pool_times, rates_of
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.search.supply.node_types import most_gpus
from planner.workload.tasks import Workload

BUSY = (0.95, 0.85, 0.75, 0.65, 0.5, 0.35, 0.2, 0.1)
"""Shares of time for which replicas read prompts, in descending order: smaller ones are tried where a first token has to come sooner."""


def with_pools(e: Evaluated, workload: Workload, needed_per_s: float) -> Evaluated:
    """`e` with the fewest replicas in either pool that answer `needed_per_s` and meet its targets; 0: its load, at any rate.

    Rows whose memory is not enough get one replica in each pool. During the choice, caches are sent over the network between nodes.
    """
    assert e.serve is not None
    apart = replace(e.table, layout=replace(e.table.layout, gpus=np.full(e.table.rows, np.inf)))
    r = rates_of(apart, e.serve)
    sequences = e.table.layout.sequences
    clients = pool_demand(e.candidates.jobs, e.candidates.job_index).concurrency
    if needed_per_s:
        decode = np.ceil(needed_per_s / r.answers_per_s)
        wanted = np.full(e.table.rows, needed_per_s)
    elif np.isfinite(clients).all():
        decode = np.ceil(clients / sequences)
        wanted = np.minimum(clients / r.alone_s, decode * r.answers_per_s)
    else:
        return _pooled(e, *_balanced(e, workload, r))
    shares = BUSY if workload.request_rate_per_s else (1.0, *BUSY)
    tried = [np.ceil(wanted / r.prompts_per_s / busy) for busy in shares]
    chosen, open_ = tried[0], np.ones(e.table.rows, dtype=bool)
    for prefill in tried:
        found = _pooled(e, prefill, decode)
        assert found.serve is not None
        assert found.queue is not None
        good = open_ & _meets(found.serve, workload) & ~found.queue.saturated
        chosen, open_ = np.where(good, prefill, chosen), open_ & ~good
        if not open_.any():
            break
    return _pooled(e, chosen, decode)


def _balanced(e: Evaluated, workload: Workload, r: PoolRates) -> tuple[Floats, Floats]:
    """Smallest pair of pools where neither waits for the other: one replica in the slower, and the matching number in the other."""
    layout = e.table.layout
    most = most_gpus(workload) / (layout.tp * layout.pp) - 1
    ratio = r.answers_per_s / r.prompts_per_s
    prefill = np.where(np.isfinite(ratio), np.ceil(ratio), most)
    decode = np.floor(1 / np.maximum(ratio, 1e-9))
    return tuple(np.clip(count, 1.0, np.maximum(most, 1.0)) for count in (prefill, decode))  # type: ignore[return-value]  # two


def _pooled(e: Evaluated, prefill: Floats, decode: Floats) -> Evaluated:
    """`e` with these numbers of replicas, at least one in each pool."""
    prefill, decode = (np.where(e.memory.fits, np.maximum(count, 1.0), 1.0) for count in (prefill, decode))
    layout, replicas = e.table.layout, prefill + decode
    layout = replace(layout, dp=replicas, prefill=prefill, gpus=layout.tp * layout.pp * replicas)
    e = e.with_layout(layout)
    assert e.serve is not None
    serve, queue = pool_times(e.table, e.serve, pool_demand(e.candidates.jobs, e.candidates.job_index))
    return replace(e, serve=serve, queue=queue)


def _meets(serve: ServeColumns, workload: Workload) -> Flags:
    """True if the targets that depend on the wait for a first token are met."""
    good = np.ones(serve.requests_per_s.shape, dtype=bool)
    for limit in workload.targets.latency_limits():
        if limit.latency != "tpot":
            good &= limit.of(serve) <= limit.seconds
    return good
