"""What reaches a replica: when requests arrive and how long they are, drawn from a seed.

Two lanes of one seed see the same luck, whatever else is simulated beside them, so that a difference between them comes from
the replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

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

    @property
    def varies(self) -> bool:
        """Whether requests differ in it."""
        return self.sigma > 0 or self.spread > 0

    def tokens(self, normal: Floats, even: Floats) -> Floats:
        """Lengths from standard normal and [0, 1) draws; the mean is kept, the spread follows p95 ÷ p50."""
        drawn: Floats = tokens_of([self], normal[None], even[None], np.zeros(1, dtype=np.int64))[0]
        return drawn


def tokens_of(lengths: Sequence[Length], normal: Floats, even: Floats, draw: Rows) -> Floats:
    """`Length.tokens` of many distributions, a row each; draws of shape [draws, requests], and which of them each takes."""
    mean, sigma, spread = (np.array(one)[:, None] for one in zip(*((of.mean, of.sigma, of.spread) for of in lengths), strict=True))
    if not (sigma > 0).any() and not (spread > 0).any():
        alike = np.maximum(1.0, np.floor(mean + 0.5))
        return np.broadcast_to(alike, (len(lengths), normal.shape[1])).copy()
    drawn = mean * (1 + spread * (2 * even[draw] - 1))
    if (sigma > 0).any():
        drawn = np.where(sigma > 0, mean * np.exp(sigma * normal[draw] - sigma**2 / 2), drawn)
    whole: Floats = np.maximum(1.0, np.floor(drawn + 0.5))
    return whole


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
    requests: Rows
    """That ever come to each lane."""
    rounds: Floats | None = None
    """Iterations in which each request decodes, where a draft makes tokens come several at a time; else every token has its own."""

    def fitted(self, capacity: Floats) -> Traffic:
        """With no request longer than its lane's cache of `capacity` tokens: longer ones are cut, as by an engine's limit on length."""
        room = np.floor(capacity)[:, None]
        inputs = np.minimum(self.input_tokens, np.maximum(room - 1, 1.0))
        prefix = np.minimum(self.prefix_tokens, np.maximum(inputs - 1, 0.0))
        outputs = np.minimum(self.output_tokens, np.maximum(room - inputs, 1.0))
        return replace(self, input_tokens=inputs, prefix_tokens=prefix, fresh_tokens=inputs - prefix, output_tokens=outputs)

    def take(self, index: Rows) -> Traffic:
        """The lanes `index`."""
        parts: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        taken: dict[str, Any] = {name: part if part is None else part[index] for name, part in parts.items()}
        return Traffic(**taken)

    @property
    def still_to_come(self) -> Floats:
        """Tokens that decoding puts out: all but the first, which comes with the prompt; all of those that run from the start."""
        left: Floats = self.output_tokens - 1 + (np.arange(self.output_tokens.shape[1]) < self.in_flight[:, None])
        return left


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
    number = {seed: place for place, seed in enumerate(dict.fromkeys(seeds))}
    own = np.array([number[seed] for seed in seeds])
    draws = [np.stack(one) for one in zip(*(_draws(seed, requests) for seed in number), strict=True)]
    normal_in, even_in, normal_out, even_out, progress = draws
    closed = np.array([load.arrivals == "closed" for load in loads])
    running = np.minimum(np.array([load.in_flight for load in loads], dtype=np.int64), requests)
    concurrency = np.array([load.concurrency for load in loads], dtype=np.int64) * closed
    turnaround_s = np.array([load.turnaround_s for load in loads], dtype=np.float64)
    ever = np.full(len(loads), requests) if most is None else np.minimum(most, requests)
    inputs = tokens_of([load.inputs for load in loads], normal_in, even_in, own)
    outputs = tokens_of([load.outputs for load in loads], normal_out, even_out, own)
    prefix = np.minimum(np.floor([[load.prefix_tokens] for load in loads]), inputs - 1)
    rank = np.arange(requests) - running[:, None]
    begun = int(running.max())
    done = np.maximum(np.floor(outputs[:, :begun] * progress[own, :begun]), 1.0)  # the first token came with the prompt
    done = np.where(rank[:, :begun] < 0, np.minimum(done, outputs[:, :begun] - 1), 0.0)
    inputs[:, :begun] += done
    outputs[:, :begun] -= done
    order = np.argsort(
        np.where(rank[:, :begun] < 0, outputs[:, :begun], np.inf), axis=1, kind="stable"
    )  # who ends first stands first
    for values in (inputs, outputs, prefix):
        values[:, :begun] = np.take_along_axis(values[:, :begun], order, axis=1)
    arrival = _open_arrivals(loads, seeds, rank, None if most is None else ever)
    if closed.any():
        first = np.where(rank < np.maximum(concurrency - running, 0)[:, None], (rank + 1) * turnaround_s[:, None], np.inf)
        arrival = np.where(closed[:, None], first, arrival)
    arrival[rank < 0] = 0.0
    arrival[np.arange(requests) >= ever[:, None]] = np.inf
    sent = np.where(closed[:, None] & np.isfinite(arrival), 0.0, arrival) if closed.any() else arrival
    window_s = np.array([load.window_s for load in loads])
    if window_s.any():
        later = ~closed[:, None] & (rank >= 0)
        arrival = np.where(later, gathered(np.where(later, arrival, -np.inf), window_s), arrival)

    def ended(values: Floats, last: float) -> Floats:
        return np.pad(values, ((0, 0), (0, 1)), constant_values=last)

    return Traffic(
        arrival_s=ended(arrival, np.inf),
        sent_s=ended(sent, np.inf),
        input_tokens=ended(inputs, 0.0),
        fresh_tokens=ended(inputs - prefix, 0.0),
        prefix_tokens=ended(prefix, 0.0),
        output_tokens=ended(outputs, 1.0),
        in_flight=running,
        concurrency=concurrency,
        turnaround_s=turnaround_s,
        requests=ever,
    )


def _open_arrivals(loads: Sequence[Load], seeds: Sequence[int], rank: Rows, ever: Rows | None) -> Floats:
    """When requests of open loads come; `rank`: how many have come before, less than 0 for those that run from the start.

    With `ever` requests a lane, its own stretch is as busy as its rate says.
    """
    rate = np.array([np.nan if load.arrivals == "closed" else load.rate_per_s for load in loads])
    if (rate <= 0).any():
        raise ValueError(f"a rate of {rate[rate <= 0][0]} requests/s is not above 0")
    arrival: Floats = rank / rate[:, None]  # of `fixed` arrivals
    keys = [(seed, load.variation) for seed, load in zip(seeds, loads, strict=True) if load.arrivals == "poisson"]
    if keys:
        random = np.flatnonzero([load.arrivals == "poisson" for load in loads])
        gaps = {key: _gaps(*key, rank.shape[1]) for key in dict.fromkeys(keys)}
        since = np.cumsum(np.where(rank[random] < 0, 0.0, np.stack([gaps[key] for key in keys])), axis=1)
        if ever is not None:
            last = np.maximum(ever[random] - 1, 0)
            count = np.maximum(rank[random, last] + 1, 0)
            whole = since[np.arange(random.size), last]
            since = since * (count / np.where(whole > 0, whole, 1.0))[:, None]
        arrival[random] = since / rate[random, None]
    return arrival
