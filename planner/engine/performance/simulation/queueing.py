"""What simulated requests say of the replicas beside latencies: how long they wait, how busy replicas are, and whether they keep up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.performance.simulation.summary import Summary
from planner.units import digits


@dataclass(frozen=True)
class Queue:
    """Shape [rows]; of rows that were not simulated all is 0."""

    wait_s: Floats
    """From sending a request until it is admitted, mean."""
    wait_p50_s: Floats
    wait_p95_s: Floats
    wait_p99_s: Floats
    utilisation: Floats
    rate_per_s: Floats
    """Of requests to the whole deployment; 0: a closed loop."""
    samples: Floats
    """Requests measured; 0 also where replicas do not keep up."""
    saturated: Flags
    """Requests come faster than the replicas answer them."""

    def measured(self, row: int) -> bool:
        """Whether requests of the row were simulated to their ends."""
        return bool(self.samples[row] > 0)

    def endless(self, row: int) -> bool:
        """Whether its queue grows without end."""
        return bool(self.saturated[row])

    def words(self, row: int, most_per_s: float) -> str:
        """How the percentiles of a simulated row were made, or why there are none; `most_per_s`: what can be answered at most."""
        rate = digits(float(self.rate_per_s[row]))
        if self.endless(row):
            return f"none: {rate} requests a second are asked, about {digits(most_per_s)} can be answered"
        load = f" at {rate} a second" if self.rate_per_s[row] > 0 else ""
        return f"simulated, {self.samples[row]:.0f} requests{load}, seed 0"


def queue_of(found: Summary, rate_per_s: Floats, place: Rows, rows: int) -> Queue:
    """`found` of the rows `place` out of `rows`; `rate_per_s` is of their whole deployments."""

    def spread(values: Floats | Flags) -> Floats:
        column = np.zeros(rows)
        column[place] = values
        return column

    wait = found.wait_s
    return Queue(
        wait_s=spread(wait.mean),
        wait_p50_s=spread(wait.p50),
        wait_p95_s=spread(wait.p95),
        wait_p99_s=spread(wait.p99),
        utilisation=spread(found.utilisation),
        rate_per_s=spread(rate_per_s),
        samples=spread(found.samples),
        saturated=spread(found.saturated) > 0,
    )
