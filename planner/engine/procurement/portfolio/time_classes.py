"""Classes of hours of the month in which every workload needs the same: hours of the day by their load, with jobs in the quietest ones."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.engine.procurement.portfolio.records import HOURS, Entry

LEAST_SHARE = 1e-9
STEP = 1.1
"""Shares of the month that jobs take are rounded up to powers of it, so that there are few classes."""


class TimeClass(NamedTuple):
    """A part of the month."""

    share: float
    """Share of the month."""
    begin: float
    """Share of the month that is quieter: a job that takes more than this runs in this class."""
    factors: tuple[float, ...]
    """Load of each service ÷ its largest; 0 for jobs."""


def rounded_share(share: float) -> float:
    """`share` of the month, rounded up to a power of `STEP`."""
    return min(1.0, STEP ** math.ceil(math.log(share, STEP) - 1e-9)) if share > 0 else 0.0


def hourly_factors(entry: Entry) -> list[float]:
    """Load of each hour ÷ the largest, seen by the replicas that serve it: each is started before it is needed."""
    load = entry.load or [1.0] * HOURS
    most = max(load) or 1.0
    ahead = -(-entry.start_minutes // 60)
    return [max(load[(hour + later) % HOURS] for later in range(int(ahead) + 1)) / most for hour in range(HOURS)]


def time_classes(entries: Sequence[Entry], services: Sequence[bool], job_shares: Iterable[float]) -> list[TimeClass]:
    """Classes for `entries`; `services`: whether each has a load; `job_shares`: shares of the month for jobs, rounded.

    Time is ordered from the quietest hour of the services to the busiest, and jobs are placed from its beginning.
    """
    loads = [hourly_factors(entry) if service else [0.0] * HOURS for entry, service in zip(entries, services, strict=True)]
    quietest = sorted(range(HOURS), key=lambda hour: sum(load[hour] for load in loads))
    of_jobs = sorted({share for share in job_shares if share < 1})
    cuts = sorted({place / HOURS for place in range(HOURS + 1)} | set(of_jobs))
    found: dict[tuple[int, tuple[float, ...]], TimeClass] = {}
    for begin, end in itertools.pairwise(cuts):
        if end - begin < LEAST_SHARE:
            continue
        hour = quietest[min(HOURS - 1, int((begin + end) / 2 * HOURS))]
        factors = tuple(load[hour] for load in loads)
        key = bisect.bisect_right(of_jobs, begin + LEAST_SHARE), factors
        known = found.get(key)
        found[key] = TimeClass(end - begin + (known.share if known else 0.0), known.begin if known else begin, factors)
    return list(found.values())
