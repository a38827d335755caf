"""What reaches a replica: when requests arrive and how long they are, drawn from a seed.

Two lanes of one seed see the same luck, whatever else is simulated beside them, so that a difference between them comes from
the replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from planner.engine.columns import Floats, Rows

QUANTILES = 1 << 14
"""Points at which the distribution of times between bursty arrivals is known."""
NORMAL_P95 = 1.6448536269514722
Arrivals = Literal["poisson", "fixed", "closed"]


@dataclass(frozen=True, kw_only=True)
class Length:
    """A distribution of whole numbers of tokens, at least 1: log-normal if percentiles are known, even within ± `spread`, or fixed."""

    mean: float
    p50: float | None = None
    p95: float | None = None
    spread: float = 0.0
    """Half width of an even distribution, as a fraction of the mean."""

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm; 0: not log-normal."""
        if self.p50 and self.p95:
            return float(np.log(self.p95 / self.p50) / NORMAL_P95)
        if self.p50 and self.mean > self.p50:
            return float(np.sqrt(2 * np.log(self.mean / self.p50)))
        if self.p95:  # mean = exp(mu + s²/2) and p95 = exp(mu + 1.645 s), the narrower solution
            ratio = float(np.log(self.p95 / self.mean))
            return NORMAL_P95 - float(np.sqrt(max(0.0, NORMAL_P95**2 - 2 * ratio)))
        return 0.0

    def tokens(self, normal: Floats, even: Floats) -> Floats:
        """Lengths from standard normal and [0, 1) draws; the mean is kept, the spread follows p95 ÷ p50."""
        if self.sigma > 0:
            drawn = self.mean * np.exp(self.sigma * normal - self.sigma**2 / 2)
        else:
            drawn = self.mean * (1 + self.spread * (2 * even - 1))
        return np.maximum(1.0, np.floor(drawn + 0.5))


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one lane is asked."""

    inputs: Length
    outputs: Length
    prefix_tokens: float = 0.0
    """Leading tokens of every input that are cached already."""
    arrivals: Arrivals = "poisson"
    rate_per_s: float = 0.0
    """Of `poisson` and `fixed` arrivals."""
    variation: float = 1.0
    """Standard deviation ÷ mean of the time between `poisson` arrivals: above 1 they come in bursts (gamma)."""
    concurrency: int = 0
    """Of a `closed` loop: a finished request is followed by the next."""
    turnaround_s: float = 0.0
    """Of a `closed` loop: client and front end need it for each request, one after the other, before the engine sees it."""
    in_flight: int = 0
    """Sequences that are running at the start, each somewhere in its output, so that less time passes until it is steady."""
    window_s: float = 0.0
    """Of open loads: the first request of a batch waits so long for others, and all reach the engine together."""


@dataclass(frozen=True)
class Traffic:
    """Shape [lanes, requests + 1], the last column a request that never comes; tokens are whole numbers."""

    arrival_s: Floats
    """Infinite while a closed loop has not decided it."""
    sent_s: Floats
    input_tokens: Floats
    fresh_tokens: Floats
    """Input tokens that have to be computed."""
    prefix_tokens: Floats
    output_tokens: Floats
    in_flight: Rows
    """The first so many requests of each lane run from the start, with what is left of their outputs."""
    concurrency: Rows
    turnaround_s: Floats

    def fitted(self, capacity: Floats) -> Traffic:
        """With no request longer than its lane's cache of `capacity` tokens: longer ones are cut, as by an engine's limit on length."""
        room = capacity[:, None]
        inputs = np.minimum(self.input_tokens, np.maximum(room - 1, 1.0))
        prefix = np.minimum(self.prefix_tokens, np.maximum(inputs - 1, 0.0))
        outputs = np.minimum(self.output_tokens, np.maximum(room - inputs, 1.0))
        return replace(self, input_tokens=inputs, prefix_tokens=prefix, fresh_tokens=inputs - prefix, output_tokens=outputs)

    def take(self, index: Rows) -> Traffic:
        """The lanes `index`."""
        return Traffic(**{item.name: getattr(self, item.name)[index] for item in fields(self)})


def _draws(seed: int, count: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """(normal, even, normal, even, even) of one seed; a longer draw begins with the shorter one.

    Seeds come in pairs: the luck of an odd one is that of the one before it turned round, so that what short lanes have too much
    of cancels over a pair.
    """
    streams = [np.random.default_rng([seed // 2, number]) for number in range(5)]
    normal = [streams[number].standard_normal(count) for number in (0, 2)]
    even = [streams[number].random(count) for number in (1, 3, 4)]
    if seed % 2:
        normal, even = [-draw for draw in normal], [1 - draw for draw in even]
    return normal[0], even[0], normal[1], even[1], even[2]


def _gaps(seed: int, variation: float, count: int) -> Floats:
    """Times between arrivals of mean 1, turned round in odd seeds as all else."""
    even = np.random.default_rng([seed // 2, 5]).random(count)
    even = 1 - even if seed % 2 else even
    if variation == 1.0:
        return -np.log(np.maximum(even, 1e-300))
    shape = 1 / variation**2
    table = np.sort(np.random.default_rng(QUANTILES).standard_gamma(shape, QUANTILES)) / shape
    drawn: Floats = np.interp(even, (np.arange(QUANTILES) + 0.5) / QUANTILES, table / table.mean())
    return drawn


def gathered(sent_s: Floats, window_s: Floats) -> Floats:
    """When requests sent at `sent_s` [lanes, requests] reach the engine: as the window closes that the first of a batch opened."""
    closes = np.full(sent_s.shape[0], -np.inf)
    reached = np.empty_like(sent_s)
    for number in range(sent_s.shape[1]):
        sent = sent_s[:, number]
        closes = np.where(sent > closes, sent + window_s, closes)
        reached[:, number] = closes
    return reached


def traffic_of(loads: Sequence[Load], seeds: Sequence[int], requests: int, most: Rows | None = None) -> Traffic:
    """`requests` of each load, a lane each, with its seed.

    `most`: each lane's own number of them. They then come at the very rate of the load on the average: what a short stretch has
    too much of would otherwise be the largest error of its percentiles. Raises ValueError for an open load without a rate.
    """
    lanes, width = len(loads), requests + 1
    arrival = np.full((lanes, width), np.inf)
    inputs, outputs = np.zeros((lanes, width)), np.ones((lanes, width))
    prefix = np.zeros((lanes, width))
    draws = {seed: _draws(seed, requests) for seed in set(seeds)}
    gaps: dict[tuple[int, float], Floats] = {}
    for lane, (load, seed) in enumerate(zip(loads, seeds, strict=True)):
        normal_in, even_in, normal_out, even_out, progress = draws[seed]
        inputs[lane, :-1] = load.inputs.tokens(normal_in, even_in)
        outputs[lane, :-1] = load.outputs.tokens(normal_out, even_out)
        prefix[lane, :-1] = np.minimum(np.floor(load.prefix_tokens), inputs[lane, :-1] - 1)
        running = min(load.in_flight, requests)
        done = np.floor(outputs[lane, :running] * progress[:running])
        inputs[lane, :running] += done
        outputs[lane, :running] -= done
        if load.arrivals == "closed":
            first = np.arange(1, max(load.concurrency - running, 0) + 1)[: requests - running]
            arrival[lane, running : running + first.size] = first * load.turnaround_s
        elif load.rate_per_s <= 0:
            raise ValueError(f"a rate of {load.rate_per_s} requests/s is not above 0")
        elif load.arrivals == "fixed":
            arrival[lane, running:-1] = np.arange(requests - running) / load.rate_per_s
        else:
            key = (seed, load.variation)
            if key not in gaps:
                gaps[key] = _gaps(*key, requests)
            since = np.cumsum(gaps[key][running:])
            if most is not None:  # the lane's own stretch is as busy as the rate says
                count = int(most[lane]) - running
                since = since * (count / since[count - 1])
            arrival[lane, running:-1] = since / load.rate_per_s
        arrival[lane, :running] = 0.0
    if most is not None:
        arrival[np.arange(width) >= most[:, None]] = np.inf
    closed = np.array([load.arrivals == "closed" for load in loads])
    window_s = np.array([load.window_s for load in loads])
    sent = np.where(closed[:, None] & np.isfinite(arrival), 0.0, arrival)
    if window_s.any():
        later = ~closed[:, None] & (np.arange(width) >= np.array([load.in_flight for load in loads])[:, None])
        arrival = np.where(later, gathered(np.where(later, arrival, -np.inf), window_s), arrival)
    return Traffic(
        arrival_s=arrival,
        sent_s=sent,
        input_tokens=inputs,
        fresh_tokens=inputs - prefix,
        prefix_tokens=prefix,
        output_tokens=outputs,
        in_flight=np.array([min(load.in_flight, requests) for load in loads], dtype=np.int64),
        concurrency=np.array([load.concurrency * (load.arrivals == "closed") for load in loads], dtype=np.int64),
        turnaround_s=np.array([load.turnaround_s for load in loads], dtype=np.float64),
    )
