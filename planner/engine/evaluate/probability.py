"""Probabilities that candidates fit, from the range of their memory, and that figures stay below their limits, from their ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.engine.columns import Floats
from planner.engine.evaluate.evaluation import Evaluated
from planner.workload.published.spreads import OF_A_BATCH, published_spreads

LATENCY_KINDS = {"_ttft_": "time to first token", "_tpot_": "time per output token", "_request_": "request time"}
"""Part of a target's name -> the kind of figure that it limits."""


def probability_below(log_room: Floats, half_width: Floats) -> Floats:
    """Probability that the truth is at most exp(`log_room`) times the prediction, from the errors of published values."""
    shares, ratios = (np.array([0.0, *column]) for column in zip(*published_spreads().quantiles, strict=True))
    within = np.interp(np.abs(log_room) / half_width, ratios, shares)
    return 0.5 + np.sign(log_room) * within / 2


def room_for(confidence: float) -> float:
    """Half widths of the range between the prediction and a limit that the truth keeps with `confidence`; 0 below a half."""
    shares, ratios = zip(*published_spreads().quantiles, strict=True)
    return float(np.interp(2 * confidence - 1, (0.0, *shares), (0.0, *ratios), right=np.inf))


def probability_fits(e: Evaluated) -> Floats:
    """Probability that each candidate needs no more memory than the GPU has for it, including the share that is kept free.

    A service needs room for one request: with less memory its engine admits fewer requests. Memory for states is never less than predicted.
    """
    m, job = e.memory, e.table.job
    room = m.usable / (1 - job.headroom)
    serves = np.array([one.task == "serve" for one in e.candidates.jobs])[e.candidates.job_index]
    spare = np.where(serves, m.kv_cache - np.minimum(m.kv_cache, m.kv_per_sequence + m.kv_shared), 0.0)
    states = m.weights + m.optimizer + m.kv_cache - spare
    log_room = np.log((room + spare) / m.total)
    return np.where(states > room, 0.0, probability_below(log_room, np.where(log_room < 0, m.below, m.above)))


def probability_meets(e: Evaluated, targets: Sequence[tuple[str, Floats, float]]) -> Floats:
    """Probability that each candidate fits and keeps every limit of `targets` (name, column, limit).

    What makes one time longer also makes the others longer, so the least likely of them decides. Errors of memory have other causes.
    A limit on an unknown figure counts as kept. The monthly cost of a service is certain, because its GPUs are counted.
    """
    least, serves = np.ones(e.table.rows), e.candidates.jobs[0].task == "serve"
    overall = "training speed" if e.step else "serving throughput" if serves else "batch throughput"
    for name, column, limit in targets:
        kind = next((kind for part, kind in LATENCY_KINDS.items() if part in name), overall)
        half_width = e.ranges.half_width(kind if serves else OF_A_BATCH.get(kind, kind))
        known = np.isfinite(column) & (column > 0)
        chance = probability_below(np.log(limit / np.where(known, column, limit)), half_width)
        if name == "budget_usd" and not e.step and not e.candidates.jobs[0].workload.requests:
            chance = np.where(column <= limit, 1.0, 0.0)
        least = np.minimum(least, np.where(known, chance, np.where(np.isposinf(column), 0.0, 1.0)))
    return least * probability_fits(e)
