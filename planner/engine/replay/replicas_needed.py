"""Fewest replicas for each hour of a trace, all hours simulated side by side at several numbers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.performance.simulation.summary import MOST_GROWTH
from planner.engine.replay.runs import MapChunks, Recorded, Replica, Run, Times, stretch
from planner.workload.tasks import Targets

STRETCH_S = 600.0
"""Length of the busiest stretch that represents an hour, in seconds, or a longer one with `FEWEST` requests."""
FEWEST = 300
GRID_S = 60.0
SURELY_SHORT = 0.7
"""Share of the replicas that keep up with the mean load that surely are too few for its busiest stretch."""
MOST_ROUNDS = 6
NEARBY = (0.93, 1.0, 1.07)
"""Multiples of the expected number that are tried first; for few replicas, one less and one more."""
FEW, CLOSE = 8, 0.04
"""Number of replicas up to which every number is tried; above, numbers that differ by less than this share are skipped."""
PLENTY = 8
"""Multiple of the expected number of replicas that is tried at most: an hour that needs more is hopeless."""
MOST_REPLICAS = 4096


class _Hour(msgspec.Struct):
    """One hour, represented by its busiest stretch, and the numbers of replicas that were tried for it."""

    begin_s: float
    end_s: float
    guess: int
    short: int = 0
    """Largest number that is not enough."""
    enough: int | None = None
    tried: set[int] = msgspec.field(default_factory=set)

    def options(self, step: int) -> list[int]:
        """Numbers to try next, multiples of `step`; empty if the answer is known well enough, or the most were not enough."""
        guess = self.guess
        if not self.tried:
            numbers = {guess - 1, guess, guess + 1} if guess <= FEW else {round(guess * share) for share in NEARBY}
            numbers |= {guess * PLENTY}
        elif self.enough is None or self.enough - self.short <= max(step, CLOSE * self.enough):
            return []
        elif self.enough - self.short > self.short:
            numbers = {self.enough // 2, self.enough * 3 // 4, self.enough - 1}
        else:
            numbers = {(self.short + self.enough) // 2, self.enough - 1}
        most = min(MOST_REPLICAS, self.enough - 1 if self.enough else MOST_REPLICAS)
        stepped = {max(step, math.ceil(number / step) * step) for number in numbers}
        return sorted(number for number in stepped - self.tried if self.short < number <= most)


def replicas_needed(
    replica: Replica,
    recorded: Recorded,
    edges: Floats,
    targets: Targets,
    *,
    per_replica: float,
    lead_s: float,
    step: int = 1,
    map_chunks: MapChunks = map,
) -> list[int | None]:
    """Fewest replicas of each hour between `edges` that meet `targets` (without any: that keep up); None: none that was tried.

    `per_replica`: requests per second that one is expected to serve; `lead_s`: see `stretch`; `step`: replicas come in multiples of it.
    """
    hours = _hours(recorded, edges, min(per_replica, capacity := replica.capacity_per_s(recorded)), capacity, step)
    for _ in range(MOST_ROUNDS):
        asked = [(hour, number) for hour in hours if hour for number in hour.options(step)]
        if not asked:
            break
        enough = _enough(replica, recorded, asked, targets, lead_s, map_chunks)
        for (hour, number), good in zip(asked, enough, strict=True):
            hour.tried.add(number)
            if good:
                hour.enough = min(number, hour.enough or number)
        for hour, number in asked:
            if hour.enough is None or number < hour.enough:
                hour.short = max(hour.short, number)
    return [0 if hour is None else hour.enough for hour in hours]


def _hours(recorded: Recorded, edges: Floats, per_replica: float, capacity: float, step: int) -> list[_Hour | None]:
    found: list[_Hour | None] = []
    for begin_s, end_s in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        begin, end = np.searchsorted(recorded.arrival_s, [begin_s, end_s]).tolist()
        if begin == end:
            found.append(None)
            continue
        own = recorded.arrival_s[begin:end]
        first_s, last_s = _busiest(own, float(own[0]), float(own[-1]))
        requests = np.count_nonzero((own >= first_s) & (own < last_s))
        rate = float(requests / max(last_s - first_s, GRID_S))
        guess = min(max(1, math.ceil(rate / per_replica / step)) * step, MOST_REPLICAS)
        short = min(math.floor(SURELY_SHORT * rate / capacity), guess - 1)
        found.append(_Hour(first_s, last_s, guess, max(short, 0)))
    return found


def _busiest(own: Floats, begin_s: float, end_s: float) -> tuple[float, float]:
    """Busiest stretch of an hour, which represents it."""
    long_s = max(STRETCH_S, FEWEST * (end_s - begin_s) / own.size)
    starts = np.arange(begin_s, max(end_s - long_s, begin_s) + GRID_S / 2, GRID_S)
    counts = np.searchsorted(own, starts + long_s) - np.searchsorted(own, starts)
    first_s = float(starts[int(np.argmax(counts))])
    return first_s, min(first_s + long_s, float(np.nextafter(end_s, np.inf)))


def _enough(
    replica: Replica, recorded: Recorded, asked: Sequence[tuple[_Hour, int]], targets: Targets, lead_s: float, map_chunks: MapChunks
) -> list[bool]:
    """True if the number of replicas is enough for the hour, for each pair in `asked`."""
    runs, owner = list[Run](), list[int]()
    for pair, (hour, number) in enumerate(asked):
        more = stretch(recorded, hour.begin_s, hour.end_s, number, lead_s)
        runs += more
        owner += [pair] * len(more)
    times = replica.serve(recorded, runs, map_chunks)
    pair_of = np.array(owner)[times.run]
    arrival_s = recorded.arrival_s[times.request]
    return [_good(times, np.flatnonzero(pair_of == pair), arrival_s, targets) for pair in range(len(asked))]


def _good(times: Times, own: Rows, arrival_s: Floats, targets: Targets) -> bool:
    """True if the requests `own` meet every limit, and their queue does not grow."""
    latencies = {"ttft": times.ttft_s[own], "tpot": times.tpot_s[own], "request": times.request_s[own]}
    for limit in targets.latency_limits():
        found = latencies[limit.latency]
        found = found[~np.isnan(found)]
        if found.size and np.percentile(found, float(limit.share[1:])) > limit.seconds:
            return False
    sent = arrival_s[own]
    waiting = np.count_nonzero(sent + times.wait_s[own] > sent.max())
    return bool(waiting <= max(MOST_GROWTH * own.size, 3 * math.sqrt(own.size)))
