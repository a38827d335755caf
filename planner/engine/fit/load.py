"""Loads that nobody stated: the longest context of one sequence alone, and the requests at once of a service.

Both are found by halving, because no formula gives them.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, Rows, Table
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.probability import probability_fits
from planner.engine.memory import memory_of
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.workload.tasks import Request, Targets

ENDLESS = 2.0**24
"""Tokens at which the search ends: no model is trained for so long a context."""
PRECISION_TOKENS = 16.0
"""Tokens to which the end is found: a block of a cache."""
LOADS = np.array([size for power in range(16) for size in ((1.0,) if power == 0 else (2.0**power, 1.5 * 2**power))])
"""Requests at once on a replica that are tried where fewer are wanted than memory holds: two in each doubling."""


def lateness(serve: ServeColumns, targets: Targets, rows: int) -> Floats:
    """Latency over its limit, of the limit that is missed most; 0 if none is set."""
    limits = targets.latency_limits()
    late = np.max([limit.of(serve) / limit.seconds for limit in limits], axis=0) if limits else np.zeros(rows)
    return np.broadcast_to(late, rows)


def with_load(e: Evaluated, sequences: Floats) -> Evaluated:
    """`e` with this number of requests at once on each replica; its ranges stay."""
    layout = replace(e.table.layout, sequences=sequences)
    table: Table = replace(e.table, layout=layout)
    return replace(e.with_layout(layout), table=table, memory=memory_of(table), serve=serve_of(table, continuous=True))


def steady_load(e: Evaluated, request: Request) -> Evaluated:
    """`e`, which has as many requests at once as memory holds, with the most that surely fit and keep the limits of latency.

    A limit that one request alone misses, and the confidence that one alone does not reach, ask for nothing. One alone is
    taken where it misses a limit.
    """
    full = np.array(np.broadcast_to(e.table.layout.sequences, e.table.rows), dtype=np.float64)
    rows = np.flatnonzero(e.memory.fits & (full > 1))
    if not rows.size:
        return e
    some = replace(e, candidates=e.candidates.take(rows), table=e.table.take(rows))

    def kept(sequences: Floats) -> tuple[Flags, Flags]:
        now = with_load(some, sequences)
        assert now.serve is not None
        return lateness(now.serve, request.targets, rows.size) <= 1, probability_fits(now) >= request.confidence

    in_time, sure = kept(np.ones(rows.size))

    def holds(sequences: Floats) -> Flags:
        now_in_time, now_sure = kept(sequences)
        return now_in_time & (now_sure | ~sure)

    most = full[rows]
    low, high = np.zeros(rows.size, dtype=np.int64), np.searchsorted(LOADS, most)
    whole = holds(most)
    high = np.where(in_time & ~whole, high, 0)
    while bool((high - low > 1).any()):
        middle = (low + high) // 2
        good = holds(LOADS[middle])
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    full[rows] = np.where(whole, most, LOADS[low])
    return with_load(e, full)


def longest_context(e: Evaluated, rows: Rows) -> Floats:
    """Tokens of the longest sequence that fits alone in each of `rows`, at most the model's positions; NaN where even the shortest does not.

    Of an inference job: prompt and answer together. NaN also where attention stores scores while training, whose size is no
    constant per token.
    """
    t, jobs = e.table.take(rows), [e.candidates.jobs[int(number)] for number in e.candidates.job_index[rows]]
    train = bool(t.job.train[0])
    most = np.array([job.architecture.max_context or ENDLESS for job in jobs], dtype=np.float64)
    answer = np.broadcast_to(np.where(train, 0.0, t.job.output_tokens), most.shape)
    ones = np.ones(rows.size)
    layout = replace(t.layout, micro_batch=ones) if train else replace(t.layout, sequences=ones)

    def fits(tokens: Floats) -> Floats:
        job = replace(t.job, sequence=tokens) if train else replace(t.job, input_tokens=np.maximum(tokens - answer, 1.0))
        found = memory_of(replace(t, job=job, layout=layout))
        return np.where(found.total <= found.usable, 1.0, 0.0)

    low, high = answer + PRECISION_TOKENS, np.maximum(most, answer + PRECISION_TOKENS)
    shortest = fits(low) > 0
    while float(np.max(high - low, initial=0.0)) > PRECISION_TOKENS:
        middle = np.floor((low + high) / 2)
        good = fits(middle) > 0
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    low = np.where(fits(most) > 0, most, low)
    stored_scores = np.array([train and job.eager_attention > 0 for job in jobs])
    return np.where(shortest & ~stored_scores, np.minimum(low, most), np.nan)
