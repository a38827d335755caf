"""Interruptions of spot instances: how often, how far apart checkpoints are, and how much longer a job takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats
from planner.engine.performance.interruptions import best_work_seconds, lengthened
from planner.units import SECONDS_PER_HOUR
from planner.workload.tasks import Workload

RESTART_S = 900.0
"""Time from the loss of a node to the first new step: replacing the node and reading the checkpoint. An assumption."""
INTERRUPTIONS_PER_H = (2.7e-4, 3.4e-3, 4.2e-2)
"""(low, value, high) of one node. Low: 20 % a month (AWS Spot Instance Advisor for p5.48xlarge on 2026-02-24, 15-20 %). High: Google's
preemptible machines lived 24 h at most (Kadupitiya, Jadhao, Sharma, arXiv 1911.05160). The value is their geometric mean."""
LONGEST_INTERVAL_H = 24.0
"""Time between checkpoints where the workload does not state it and an even longer time would be best. An assumption."""
BATCH_INTERVAL_H = 1.0
"""Work that is lost with an instance where no weights are written: answers that are not stored yet. An assumption."""
LEAST_PER_H = 1e-12
"""Rate that stands for instances that are never taken away."""


class Spot(NamedTuple):
    """Delays of jobs on spot instances, and intervals of the checkpoints; columns of shape [rows]. Infinite where a job may never end."""

    low: Floats
    """Factor by which a job takes longer at the lowest published rate of interruptions."""
    value: Floats
    high: Floats
    interval_h: Floats
    """Hours of work between checkpoints."""

    def factors(self, row: int) -> tuple[float, float, float]:
        """(low, value, high) of one row."""
        return float(self.low[row]), float(self.value[row]), float(self.high[row])


def spot_of(workload: Workload, nodes: Floats, write_s: Floats) -> Spot:
    """Delays of jobs of `workload` whose `nodes` all wait when one is lost, and which write a checkpoint in `write_s` [rows].

    The time between checkpoints is that of the workload; else the best one at the likely rate of interruptions, but at most a day.
    """
    low, value, high = _interruptions_per_h(workload)
    if workload.checkpoint_interval_h is not None:
        work_s = np.full(nodes.shape, workload.checkpoint_interval_h * SECONDS_PER_HOUR)
    else:
        best = best_work_seconds(_between_s(nodes, value), write_s)
        longest, batch = LONGEST_INTERVAL_H * SECONDS_PER_HOUR, BATCH_INTERVAL_H * SECONDS_PER_HOUR
        work_s = np.where(write_s > 0, np.minimum(best, longest), batch)
    seldom, likely, often = (lengthened(_between_s(nodes, per_h), write_s, RESTART_S, work_s) for per_h in (low, value, high))
    endless = np.where(np.isinf(often), np.inf, 0.0)
    return Spot(seldom + endless, likely + endless, often, work_s / SECONDS_PER_HOUR)


def _interruptions_per_h(workload: Workload) -> tuple[float, float, float]:
    """(low, value, high) of one spot instance: as stated in the workload, or as published for two clouds."""
    given = workload.spot_interruptions_per_h
    return INTERRUPTIONS_PER_H if given is None else (given, given, given)


def _between_s(nodes: Floats, per_h: float) -> Floats:
    return np.asarray(SECONDS_PER_HOUR / np.maximum(nodes * per_h, LEAST_PER_H))
