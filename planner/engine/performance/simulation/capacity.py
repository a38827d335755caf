"""The highest rate that a replica can answer, with which loads close to it are compared.

A queue in a short run says little: a batch admits requests before anything waits, and a few long requests look like a growing queue. So a
replica is simulated that always has a request to admit. Its rate does not depend on the load, and it cannot keep up with any load above it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, RowRecord, Rows
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.iteration_time import IterationTime
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.replicas import limited, simulate, steady_limit

SURELY_ANSWERED = 0.6
"""Share of the rate that fills a replica by Little's law which is answered without a simulation: busy replicas of 90 random services answer
0.69 of it or more (median 0.96)."""
BELOW = 1 - 1e-6
"""Factor slightly below that rate, so that the highest rate is a load at which Little's law does not fill the replica."""
LEAST_MEASURED = 128
"""Requests measured in each run: so many, or as many as are in flight, rounded up to a power of 2. With eight times those in flight the rate of
22 random services differs by 1 % (median), by 12 % where 50 requests fill a cache and inputs spread from 200 (median) to 2,000 tokens (p95)."""
MOST_IN_FLIGHT = 2048
"""Requests in flight above which the rate by Little's law is used: runs would take seconds."""


def highest_rate(time: IterationTime, rules: BatchingRules, load: Load, *, seeds: int) -> Floats:
    """Requests per second that each replica answers at most; infinite in a closed loop and where the load is surely below. Shape [rows]."""
    rules = limited(rules, load)
    fills = steady_limit(time, rules, load) * BELOW
    near = np.flatnonzero(~load.closed & (load.rate_per_s > SURELY_ANSWERED * fills))
    most = np.full(load.rate_per_s.size, np.inf)
    most[near] = fills[near]
    near = near[rules.sequences[near] <= MOST_IN_FLIGHT]
    none = np.zeros(near.size)
    busy = replace(load.take(near), rate_per_s=none, concurrency=np.ceil(rules.sequences[near]), variation=none, window_s=none)
    first, group = _different(time.take(near), rules.take(near), busy)
    near_of, busy = near[first], busy.take(first)
    counts = np.maximum(LEAST_MEASURED, 2 ** np.ceil(np.log2(busy.concurrency)))
    answered = np.empty(first.size)
    for measured in np.unique(counts).tolist():
        row = np.flatnonzero(counts == measured)
        alone = time.take(near_of[row]), rules.take(near_of[row]), busy.take(row)
        answered[row] = simulate(*alone, seeds=seeds, measured=int(measured)).requests_per_s
    most[near] = np.clip(answered[group], SURELY_ANSWERED * fills[near], fills[near])
    return most


def _different(*records: RowRecord) -> tuple[Rows, Rows]:
    """The first of each group of rows that are equal in all `records`, and the number of the group of every row."""
    columns = list[Any]()
    for record in records:
        record.map(columns.append)
    if not columns[0].shape[0]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    number = dict[bytes, int]()
    groups = [
        number.setdefault(b"".join(column[row].tobytes() for column in columns), len(number)) for row in range(columns[0].shape[0])
    ]
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return first, group
