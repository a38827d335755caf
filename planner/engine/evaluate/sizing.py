"""Sizing of services by Little's law: the fewest replicas that meet the targets, without a simulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, Rows, joined
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.replicas import Replicas
from planner.engine.performance.prefill_decode.request_latency import NORMAL_TAILS, Latency
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.replicas import Steady, request_times
from planner.workload.tasks import Targets

SCREENED = 2.0 ** (np.arange(-8, 7) / 4)
"""Multiples of the screened replicas from which Little's law picks the starting number."""
FINER = np.array([0.25, 0.5, 0.75])
"""Positions between the last number that is not enough and the first that is, which are tried next."""
SURELY = 1.35
"""Ratio of a latency to its limit by Little's law above which a number of replicas is not simulated: the mean alone exceeds the limit."""
HOPELESS = 1.5
"""Ratio to a limit, with the most replicas that were tried by Little's law, above which no larger number is simulated."""


def sized(replica: Replicas, targets: Targets) -> tuple[Evaluated, Rows] | None:
    """Rows of `replica` at the fewest replicas that meet `targets` by Little's law, and their numbers; None: all are far from the targets.

    Screening evaluates a few numbers of sequences in flight and rounds the replicas up. Here the sequences are those of the replicas,
    and the different lengths of answers spread the time of a request.
    """
    found = screened(replica, targets)
    row = np.flatnonzero(~found.hopeless)
    if not row.size:
        return None
    replicas, steady = found.replicas[row], found.steady.take(row)
    load = replica.load(row, replicas)
    decoding = load.rate_per_s * steady.token_s * load.outputs.mean
    again = replica.evaluated(row, replicas, np.maximum(1.0, np.ceil(decoding)))
    assert again.serve is not None
    serve = replace(
        again.serve,
        ttft_s=again.serve.ttft_s.map(lambda seconds: seconds - steady.idle_s),
        request_s=_latency(steady.request_s, _request_sigma(steady, load)),
        tpot_s=_latency(steady.token_s, steady.load_sigma),
        requests_per_s=np.maximum(again.serve.requests_per_s, np.nextafter(load.rate_per_s, np.inf)),
    )
    return replace(again, serve=serve), row


class Screened(NamedTuple):
    """Replicas needed by Little's law; columns of shape [rows]."""

    replicas: Floats
    """Fewest replicas that meet the targets; the screened number if none does."""
    over: Floats
    """Largest ratio of a latency to its limit with them, first tokens excepted."""
    too_few: Floats
    """Most replicas that do not meet them, with `SURELY`."""
    hopeless: Flags
    """True if even the most replicas that were tried are far from the targets."""
    surely: Floats
    """Fewest replicas among those tried first whose ratio is at most the `share` asked for; infinite if there are none."""
    steady: Steady
    """Requests on each of `replicas`."""


def screened(replica: Replicas, targets: Targets, *, share: float = 1.0) -> Screened:
    """Replicas that each row needs by Little's law: first `SCREENED` multiples of the present number, then numbers between two of those."""
    rows, multiples = replica.rows, SCREENED.size
    every = np.arange(rows)
    row, given = np.repeat(every, multiples), replica.layout("dp")
    streams = np.broadcast_to(replica.candidates.layout.expert_streams, rows)
    tried = whole_groups(np.maximum(1.0, np.round(given[row] * np.tile(SCREENED, rows))), streams[row])
    over, steady = _over(replica, row, tried, targets)
    over, tried = over.reshape(rows, -1), tried.reshape(rows, -1)
    place = np.where((over <= 1).any(axis=1), np.argmax(over <= 1, axis=1), np.flatnonzero(SCREENED == 1.0)[0])
    enough, hopeless = tried[every, place], over[:, -1] > HOPELESS
    surely = np.where(over <= share, tried, np.inf).min(axis=1)
    too_few = np.where(hopeless, 0.0, np.minimum(np.where(over > SURELY, tried, 0.0).max(axis=1), enough - 1))
    short = np.where(place > 0, tried[every, np.maximum(place - 1, 0)], enough - 1)
    chosen = every * multiples + place
    further = np.flatnonzero(enough - short > streams)  # other rows have no number between the two
    if further.size:
        finer = short[further, None] + (enough - short)[further, None] * FINER
        finer = whole_groups(np.ceil(finer), streams[further, None])
        over_finer, steady_finer = _over(replica, np.repeat(further, FINER.size), finer.ravel(), targets)
        within = over_finer.reshape(finer.shape) <= 1
        found = row.size + np.arange(further.size) * FINER.size + np.argmax(within, axis=1)
        chosen[further] = np.where(within.any(axis=1), found, chosen[further])
        tried, over = (np.concatenate([a.ravel(), b.ravel()]) for a, b in ((tried, finer), (over, over_finer)))
        steady = joined([steady, steady_finer])
    return Screened(tried.ravel()[chosen], over.ravel()[chosen], too_few, hopeless, surely, steady.take(chosen))


def whole_groups(replicas: Floats, streams: Floats) -> Floats:
    """At least `replicas`, rounded up to whole groups that share one copy of the experts."""
    return np.ceil(replicas / streams) * streams


def _over(replica: Replicas, row: Rows, replicas: Floats, targets: Targets) -> tuple[Floats, Steady]:
    """Largest ratio of a latency to its limit by Little's law, first tokens excepted (infinite where the queue grows), and the requests.

    Equal numbers next to each other in a row are evaluated once, because multiples of few replicas are often rounded to the same number.
    """
    fresh = np.ones(row.size, dtype=bool)
    fresh[1:] = (row[1:] != row[:-1]) | (replicas[1:] != replicas[:-1])
    place, row = np.cumsum(fresh) - 1, row[fresh]
    load = replica.load(row, replicas[fresh])
    steady = request_times(replica.time, replica.rules, load, row)
    over = np.where(steady.keeps_up, 0.0, np.inf)
    for limit in targets.latency_limits():
        if limit.latency == "ttft":
            continue
        by_token = limit.latency == "tpot"
        mean, sigma = (steady.token_s, steady.load_sigma) if by_token else (steady.request_s, _request_sigma(steady, load))
        latency = _latency(mean, sigma)
        over = np.maximum(over, getattr(latency, limit.share) / limit.seconds)
    return over[place], steady.take(place)


def _request_sigma(steady: Steady, load: Load) -> Floats:
    """Standard deviation of the logarithm of the time of a request: a log-normal length of the answer, and a varying load."""
    return np.hypot(load.outputs.sigma, steady.load_sigma)


def _latency(mean: Floats, sigma: Floats) -> Latency:
    """A log-normal latency with this `mean`, in seconds, and standard deviation of the logarithm."""
    p50, p95, p99 = (mean * np.exp(sigma * z - sigma**2 / 2) for z in (0.0, *NORMAL_TAILS))
    return Latency(mean, p50, p95, p99)
