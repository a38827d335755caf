"""The load of replicas: how often requests come to each of them, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.engine.columns import Flags, Floats, RowRecord, Rows
from planner.engine.job.job import Job
from planner.workload.tasks import Lengths
from planner.workload.traffic.lengths import drawn_outputs, sigma_of


class TokenLengths(RowRecord, frozen=True):
    """Distributions of numbers of tokens: log-normal, or fixed where `sigma` is 0. Shape [rows]."""

    mean: Floats
    sigma: Floats
    """Standard deviation of the logarithm."""

    @property
    def varies(self) -> Flags:
        """True if requests of a row differ in length."""
        return self.sigma > 0

    def draw(self, normal: Floats, stream: Rows) -> Floats:
        """Whole numbers of tokens, at least 1, with the mean of each row; shape [rows, requests].

        `normal` contains standard normal numbers of shape [streams, requests], and `stream` is the number of the stream for each row.
        """
        mean, sigma = self.mean[:, None], self.sigma[:, None]
        drawn = np.broadcast_to(mean, (mean.size, normal.shape[1]))
        if self.varies.any():
            drawn = np.where(sigma > 0, mean * np.exp(sigma * normal[stream] - sigma**2 / 2), drawn)
        return np.maximum(1.0, np.floor(drawn + 0.5))


class Load(RowRecord, frozen=True):
    """Requests that each replica is sent. Shape [rows]."""

    rate_per_s: Floats
    """Requests per second; 0: a closed loop, in which each client sends its next request when the last has ended."""
    concurrency: Floats
    """Clients of a closed loop; with a rate, the most requests in flight, 0: no limit."""
    inputs: TokenLengths
    outputs: TokenLengths
    prefix_tokens: Floats
    """Leading tokens of every input that are cached already."""
    variation: Floats
    """Standard deviation ÷ mean of the time between arrivals. 0: evenly spaced, 1: Poisson, above 1: in bursts (gamma)."""
    window_s: Floats
    """Time for which the first request of a batch waits for others; all of them reach the engine together."""

    @property
    def closed(self) -> Flags:
        """True if a row is a closed loop."""
        return self.rate_per_s <= 0


def token_lengths(given: Sequence[int | Lengths | None], means: Sequence[float]) -> TokenLengths:
    """The lengths given in workloads, a row each; its number in `means` where a workload gives a number or nothing."""
    mean = [one.mean if isinstance(one, Lengths) else mean for one, mean in zip(given, means, strict=True)]
    return TokenLengths(np.array(mean, dtype=np.float64), np.array([sigma_of(one) for one in given]))


def thinned_variation(variation: Floats | float, replicas: Floats) -> Floats:
    """Variation of the arrivals at one of `replicas`, when each request goes to one of them at random.

    A renewal stream of variation c thinned to 1/n has c² = 1 + (c² - 1)/n: a Poisson stream stays one, bursts thin out.
    """
    return np.sqrt(1 + (variation**2 - 1) / np.maximum(replicas, 1.0))


def replicas_at_work(jobs: Sequence[Job], replicas: Floats) -> Floats:
    """Work of all `replicas` [rows] ÷ that of the fullest one, for the job of each row; shape [rows].

    The clients of a closed loop are distributed evenly, so the fullest replica has its share of them rounded up: one client keeps one
    replica of two busy, and five do 5/3 of the work of the three on one of them. Requests at a rate, as many as fit, or pools of replicas
    keep all at work.
    """
    clients = np.array([0.0 if job.request_rate_per_s or job.workload.disaggregated else job.concurrency for job in jobs])
    bounded = np.isfinite(clients) & (clients > 0)
    return np.where(bounded, clients / np.maximum(np.ceil(np.where(bounded, clients, 1.0) / replicas), 1.0), replicas)


def replica_load(jobs: Sequence[Job], replicas: Floats, *, surge: Floats | float = 0.0, index: Rows | None = None) -> Load:
    """The load of one of `replicas` [rows] that share each job, whose rate is raised by `surge` (0.2: 20 %).

    `index`: the number of the job of each row; None: a job for each row.
    """
    given = [job.workload for job in jobs]
    rate = np.array([job.request_rate_per_s for job in jobs])
    clients = np.array([job.concurrency for job in jobs])
    inputs = token_lengths([workload.input_tokens for workload in given], [job.input_tokens for job in jobs])
    outputs = token_lengths([drawn_outputs(workload) for workload in given], [job.output_tokens for job in jobs])
    prefix = np.array([job.prefix_tokens for job in jobs])
    variation = np.array([1.0 if workload.arrival_variation is None else workload.arrival_variation for workload in given])
    window_s = np.array([workload.batch_window_s or 0.0 for workload in given])
    of_row = np.arange(len(jobs)) if index is None else index
    clients = clients[of_row]
    return Load(
        rate_per_s=rate[of_row] * (1 + surge) / replicas,
        concurrency=np.where(np.isfinite(clients), np.ceil(clients / replicas), 0.0),
        inputs=inputs.take(of_row),
        outputs=outputs.take(of_row),
        prefix_tokens=prefix[of_row],
        variation=thinned_variation(variation[of_row], replicas),
        window_s=window_s[of_row],
    )
