"""The requests of a run: when each arrives and how long it is, drawn from a seed.

Two runs with one seed draw the same random numbers, whatever is simulated with them, so a difference between them comes from
their replicas. Seeds come in pairs: an odd seed mirrors the numbers of the even one before it (-x of a normal, 1 - x of a uniform
number), so that random deviations of a short run cancel over a pair.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, RowRecord, Rows
from planner.engine.performance.simulation.load import Load

QUANTILES = 1 << 14
"""Points at which the distribution of times between bursty arrivals is known."""
INPUTS, OUTPUTS, PROGRESS, GAPS = 0, 2, 4, 35
"""Numbers of a seed's streams of random numbers. Of 32 streams, that of the gaps is the one whose first four and eight seeds come closest to
long runs (docs/decisions/345-short-runs-that-vary-like-a-long-one.md)."""


class Traffic(RowRecord, frozen=True):
    """Requests of several runs, of shape [runs, requests + 1] unless noted; the last request never arrives. Tokens are whole numbers."""

    arrival_s: Floats
    """Time at which a request reaches the engine; infinite while its client waits for an earlier one to end."""
    sent_s: Floats
    input_tokens: Floats
    prefix_tokens: Floats
    """Leading input tokens that are cached already."""
    output_tokens: Floats
    """Tokens that are generated from the start of the run."""
    in_flight: Rows
    """Number of the first requests that are decoding when the run starts. Shape [runs], like all below."""
    clients: Rows
    """Clients of a closed loop; 0: requests come at a rate."""
    requests: Rows
    """Number of requests that ever arrive."""
    rounds: Floats | None = None
    """Shape [runs, requests + 1]: iterations in which each request decodes, where a draft yields several tokens at a time."""

    @property
    def fresh_tokens(self) -> Floats:
        """Input tokens that have to be computed."""
        return self.input_tokens - self.prefix_tokens

    @property
    def decoded_tokens(self) -> Floats:
        """Tokens from decoding: all but the first, which comes with the prompt; all tokens of requests in flight at the start."""
        return self.output_tokens - 1 + (np.arange(self.output_tokens.shape[1]) < self.in_flight[:, None])

    def fitted(self, capacity: Floats) -> Traffic:
        """Requests cut to the cache of their run, `capacity` [runs] tokens, as an engine's limit on length does."""
        room = np.floor(capacity)[:, None]
        if (self.input_tokens + self.output_tokens <= room).all():
            return self
        inputs = np.minimum(self.input_tokens, np.maximum(room - 1, 1.0))
        prefix = np.minimum(self.prefix_tokens, np.maximum(inputs - 1, 0.0))
        outputs = np.minimum(self.output_tokens, np.maximum(room - inputs, 1.0))
        return replace(self, input_tokens=inputs, prefix_tokens=prefix, output_tokens=outputs)


def traffic_of(
    load: Load,
    seeds: Sequence[int],
    requests: int,
    *,
    in_flight: Rows | None = None,
    most: Rows | None = None,
    row: Rows | None = None,
) -> Traffic:
    """Draw `requests` for each row of `load`, one run each, from the run's seed.

    `in_flight` [runs] of them are decoding at the start, each at a random point of its output, so that a run is steady sooner. With `most`
    [runs] only so many arrive, exactly at the rate of the load on average: otherwise the surplus of a few short runs would be the largest
    error of their percentiles. The average is that of all runs with the same number in `row` [runs], one of which may be busier than
    another like the parts of a long run; None: that of each run. Raises ValueError where there is neither a rate nor a client.
    """
    if (load.closed & (load.concurrency <= 0)).any():
        raise ValueError("a rate is not above 0, and there are no clients")
    runs, closed = load.rate_per_s.size, load.closed
    stream_of = {seed: stream for stream, seed in enumerate(dict.fromkeys(seeds))}
    stream = np.array([stream_of[seed] for seed in seeds])
    place = np.arange(requests + 1)
    inputs, outputs = (
        lengths.draw(_normal(stream_of, number, place.size) if lengths.varies.any() else np.zeros((1, place.size)), stream)
        for lengths, number in ((load.inputs, INPUTS), (load.outputs, OUTPUTS))
    )
    prefix = np.minimum(np.floor(load.prefix_tokens)[:, None], inputs - 1)
    running = np.minimum(np.zeros(runs, dtype=np.int64) if in_flight is None else in_flight, requests)
    progress = _uniform(stream_of, PROGRESS, int(running.max()))[stream]
    _start_decoding(running, progress, inputs, outputs, prefix)
    rank = place - running[:, None]
    clients = np.where(closed, load.concurrency, 0.0).astype(np.int64)
    arrival = np.where(rank < np.maximum(clients - running, 0)[:, None], 0.0, np.inf)
    if not closed.all():
        arrival = np.where(closed[:, None], arrival, _open_arrivals(load, seeds, rank, most, row))
    arrival[rank < 0] = 0.0
    arriving = np.full(runs, requests) if most is None else np.minimum(most, requests)
    arrival[place >= arriving[:, None]] = np.inf
    sent = arrival
    if load.window_s.any():
        waits = ~closed[:, None] & (rank >= 0)
        arrival = np.where(waits, batch_arrivals(np.where(waits, sent, -np.inf), load.window_s), sent)
    inputs[:, -1], prefix[:, -1], outputs[:, -1] = 0.0, 0.0, 1.0
    return Traffic(
        arrival_s=arrival,
        sent_s=sent,
        input_tokens=inputs,
        prefix_tokens=prefix,
        output_tokens=outputs,
        in_flight=running,
        clients=clients,
        requests=arriving,
    )


def batch_arrivals(sent_s: Floats, window_s: Floats) -> Floats:
    """Times at which requests sent at `sent_s` [runs, requests] reach the engine: the end of the window that the first of a batch opened."""
    closes = np.full(sent_s.shape[0], -np.inf)
    reached = np.empty_like(sent_s)
    for number in range(sent_s.shape[1]):
        sent = sent_s[:, number]
        closes = np.where(sent > closes, sent + window_s, closes)
        reached[:, number] = closes
    return reached


def _normal(seeds: Collection[int], stream: int, count: int) -> Floats:
    """Standard normal numbers of each seed; a longer draw begins with the shorter one."""
    pairs = {pair: np.random.default_rng([pair, stream]).standard_normal(count) for pair in {seed // 2 for seed in seeds}}
    return np.stack([-pairs[seed // 2] if seed % 2 else pairs[seed // 2] for seed in seeds])


def _uniform(seeds: Collection[int], stream: int, count: int) -> Floats:
    """Numbers in [0, 1) of each seed; a longer draw begins with the shorter one."""
    pairs = {pair: np.random.default_rng([pair, stream]).random(count) for pair in {seed // 2 for seed in seeds}}
    return np.stack([1 - pairs[seed // 2] if seed % 2 else pairs[seed // 2] for seed in seeds])


def _start_decoding(running: Rows, progress: Floats, inputs: Floats, outputs: Floats, prefix: Floats) -> None:
    """Move the output that the first `running` [runs] requests already have to their inputs, in place.

    Such a request has generated the share `progress` [runs, most running] of its output, at least one token. They are ordered by the
    remaining output, so that the first to end comes first.
    """
    most = progress.shape[1]
    here = np.arange(most) < running[:, None]
    done = np.maximum(np.floor(outputs[:, :most] * progress), 1.0)  # the first token came with the prompt
    done = np.where(here, np.minimum(done, outputs[:, :most] - 1), 0.0)
    inputs[:, :most] += done
    outputs[:, :most] -= done
    order = np.argsort(np.where(here, outputs[:, :most], np.inf), axis=1, kind="stable")
    for values in (inputs, outputs, prefix):
        values[:, :most] = np.take_along_axis(values[:, :most], order, axis=1)


def _open_arrivals(load: Load, seeds: Sequence[int], rank: Rows, most: Rows | None, row: Rows | None) -> Floats:
    """Arrival times of requests at a rate, shape of `rank`: number of earlier arrivals, negative for requests in flight at the start."""
    rate = np.where(load.closed, np.nan, load.rate_per_s)
    arrival: Floats = rank / rate[:, None]
    random = np.flatnonzero(~load.closed & (load.variation > 0))
    if random.size:
        keys = [(seeds[run], float(load.variation[run])) for run in random.tolist()]
        even = dict(zip(dict.fromkeys(seeds), _uniform(dict.fromkeys(seeds), GAPS, rank.shape[1]), strict=True))
        number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        gaps = np.stack([_gaps(even[seed], variation) for seed, variation in number])[[number[key] for key in keys]]
        gaps[rank[random] < 0] = 0.0
        since = np.cumsum(gaps, axis=1, out=gaps)
        if most is not None:
            last = np.maximum(np.minimum(most[random], rank.shape[1]) - 1, 0)
            count = np.maximum(rank[random, last] + 1, 0)
            whole = since[np.arange(random.size), last]
            of_row = np.arange(random.size) if row is None else row[random]
            counts, wholes = (np.bincount(of_row, weights=values) for values in (count, whole))
            since = since * (counts / np.where(wholes > 0, wholes, 1.0))[of_row, None]
        arrival[random] = since / rate[random, None]
    return arrival


def _gaps(even: Floats, variation: float) -> Floats:
    """Times between arrivals from numbers in [0, 1), of mean 1: exponential, or by quantiles of the gamma distribution with that variation."""
    if variation == 1.0:
        return -np.log(np.maximum(even, 1e-300))
    shape = 1 / variation**2
    table = np.sort(np.random.default_rng(QUANTILES).standard_gamma(shape, QUANTILES)) / shape
    return np.interp(even, (np.arange(QUANTILES) + 0.5) / QUANTILES, table / table.mean())
