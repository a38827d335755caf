"""Probability that the first row of a plan is really better than each row behind it, from paired draws of the errors.

The error of a time is drawn from the errors of published values, relative to the width of their ranges. Errors of two rows have causes in
common, more of them if both are on one GPU (`Spreads.shared`), so the difference of two rows is known better than either. A row whose
memory turns out too small is no solution. A row that would miss its targets needs more of the same GPUs, in proportion to what it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats
from planner.engine.search.selection import Choice
from planner.workload.published.spreads import published_spreads

DRAWS = 2000
"""Number of draws, in mirrored pairs; a chance near one half is off by about 1 %."""
SEED = 20261122


class Uncertain(NamedTuple):
    """Uncertainty of one candidate."""

    gpu: str
    half_width: float
    """Half width of the logarithm of its times."""
    meets: float
    """Probability that it meets every target if its memory is enough; NaN: its score follows its time."""
    fits: float
    candidate: int
    """Number of the candidate: rows of one candidate at several prices have the same number, and the same errors."""


def uncertain(choice: Choice, candidate: int) -> Uncertain:
    """Uncertainty of `choice`."""
    d, row = choice.deployments, choice.row
    e, task, objective = d.evaluated, d.workload.task, d.workload.objective
    half = 0.0 if objective == "fewest-gpus" else np.broadcast_to(e.ranges.half_width(_kind(choice)), e.table.rows)[row]
    fits = float(d.probability_fits[row])
    sized = d.workload.request_rate_per_s is not None and task == "serve" and objective == "cheapest"
    meets = float(d.probability_meets[row]) / fits if sized and fits > 0 else float("nan")
    return Uncertain(choice.node_type.gpu.name, float(half), meets, fits, candidate)


def _kind(choice: Choice) -> str:
    """Kind of figure that the score of `choice` follows."""
    workload = choice.deployments.workload
    if choice.deployments.evaluated.step:
        return "training speed"
    if workload.task == "serve":
        return "request time" if workload.objective == "fastest" and workload.request_rate_per_s else "serving throughput"
    return "prefill" if workload.task == "prefill" else "decode"


def chances_of_first(rows: Sequence[tuple[float, Uncertain]]) -> list[float]:
    """Probability that the first row's true score is smaller, for each of `rows` (score, uncertainty); 1 for the first."""
    luck = [_luck([uncertain for _, uncertain in rows], stream) for stream in (0, 1)]
    errors, memory = (np.concatenate([drawn, -drawn], axis=1) for drawn in (_error(luck[0]), luck[1]))
    scores = np.array([_score(score, uncertain, errors[number], memory[number]) for number, (score, uncertain) in enumerate(rows)])
    better = (scores[:1] < scores).mean(axis=1) + (scores[:1] == scores).mean(axis=1) / 2
    return [1.0, *better[1:].tolist()]


def _luck(rows: Sequence[Uncertain], stream: int) -> Floats:
    """Standard normal numbers with the correlation of shared causes, one of each mirrored pair; shape [rows, pairs]."""
    shared = published_spreads().shared
    gpus, candidates = (list(dict.fromkeys(names)) for names in ((one.gpu for one in rows), (one.candidate for one in rows)))
    common, *drawn = _drawn(stream, 1 + len(gpus) + len(candidates))
    by_gpu, own = dict(zip(gpus, drawn, strict=False)), dict(zip(candidates, drawn[len(gpus) :], strict=True))
    of_gpu, alone = max(0.0, shared.gpu - shared.plan), 1 - max(shared.gpu, shared.plan)
    return math.sqrt(shared.plan) * common + np.array(
        [math.sqrt(of_gpu) * by_gpu[one.gpu] + math.sqrt(alone) * own[one.candidate] for one in rows]
    )


@lru_cache(maxsize=64)
def _drawn(stream: int, causes: int) -> Floats:
    """Standard normal numbers of each of so many causes, the same for every plan; shape [causes, pairs]."""
    return np.random.default_rng([SEED, stream]).standard_normal((causes, DRAWS // 2))


def _score(score: float, uncertain: Uncertain, off: Floats, memory: Floats) -> Floats:
    """True scores of one candidate from the relative errors of its times and the draw of its memory; infinite where memory is not enough."""
    if not math.isnan(uncertain.meets):
        off = np.maximum(off - _error(np.full(1, _normal(uncertain.meets))), 0.0)
    return np.where(memory < _normal(uncertain.fits), score * np.exp(uncertain.half_width * off), np.inf)


def _error(normal: Floats) -> Floats:
    """Errors relative to the half width of the range that are as likely as the standard `normal` numbers, at most the last known one."""
    sizes, ratios = _table()
    return np.copysign(np.interp(np.abs(normal), sizes, ratios), normal)


@cache
def _table() -> tuple[Floats, Floats]:
    """(standard normal numbers, errors relative to the half width with the same probability); absolute values."""
    known = published_spreads().quantiles
    return np.array([0.0, *(_normal((1 + share) / 2) for share, _ in known)]), np.array([0.0, *(ratio for _, ratio in known)])


def _normal(share: float) -> float:
    """Standard normal number below which the share `share` lies."""
    return NormalDist().inv_cdf(share) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)
