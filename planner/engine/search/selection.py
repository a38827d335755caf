"""Which of the candidates become rows: the closest of every GPU, and the best of every GPU and count that is worth its price."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.search.rows import Evaluation

NO_FASTER = 1.001
"""A candidate has to be this many times as fast as those of its GPU that cost no more, or it teaches nothing."""


def choose(v: Evaluation) -> list[tuple[int, bool]]:
    """(row, whether it is its GPU's best): the best candidate of every site and count of GPUs; of a GPU that is no solution anywhere, the closest one alone.

    Among the sites of one GPU a count is kept once, where it is best. A candidate that costs no less and is no faster than
    another of the same GPU teaches nothing and is left out.
    """
    o, e = v.outcome, v.evaluated
    excess = e.memory.total / e.memory.usable
    tier = np.where(o.meets, 0, np.where(e.memory.fits, 1, 2))
    key = np.choose(tier, [o.score, o.overshoot, excess])
    numbers: dict[tuple[str, bool], int] = {}
    gpu = np.array([numbers.setdefault((site.gpu.name, site.here), len(numbers)) for site in v.sites])[v.site_index]
    order = np.lexsort((key, tier))
    order = order[_faster(gpu[order] * (o.gpus.max() + 1) + o.gpus[order], o.tokens_per_s[order])]
    kept: dict[int, list[int]] = defaultdict(list)
    rates: dict[int, list[float]] = defaultdict(list)
    seen: set[tuple[int, float]] = set()
    columns = (order, gpu[order], o.gpus[order], tier[order], o.tokens_per_s[order])
    for row, part, count, missing, rate in zip(*(column.tolist() for column in columns), strict=True):
        if (part, count) in seen or (kept[part] and missing > 0):
            continue
        if any(rate <= other * NO_FASTER for other in rates[part]):
            continue
        seen.add((part, count))
        kept[part].append(row)
        rates[part].append(rate)
    return [(row, place == 0) for rows in kept.values() for place, row in enumerate(rows)]


def _faster(place: Floats, rate: Floats) -> Rows:
    """Rows that are faster than all before them of the same place, in their order; no other can be kept by `choose`."""
    grouped = np.argsort(place, kind="stable")
    begins = np.diff(place[grouped], prepend=-1) > 0
    by_rate = np.argsort(rate)
    height = np.empty(rate.size, dtype=np.int64)
    height[by_rate] = np.cumsum(np.diff(rate[by_rate], prepend=0.0) > 0)
    height = height[grouped] + 1 + np.cumsum(begins) * (rate.size + 2)
    most = np.maximum.accumulate(height)
    return np.sort(grouped[begins | (height > np.concatenate([[0], most[:-1]]))])
