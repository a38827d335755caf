"""Time of a long job that is interrupted: checkpoints are written, and after each interruption the work since the last one is repeated.

Symbols: M seconds between interruptions of the job · C seconds to write a checkpoint · R seconds until work continues after an interruption
· τ seconds of work between checkpoints.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats
from planner.engine.job.job import Job

GPU_HOURS_BETWEEN_FAILURES = 50_000.0
"""419 unexpected interruptions in 54 days on 16,384 H100 are one in 50,700 GPU-hours (Llama 3, arXiv:2407.21783, table 5); 1 to 2 GPUs a week of
384 A100 are one in 43,000 (BLOOM, arXiv:2211.05100, 3.3). Research clusters of many users: one in 8,000 to 30,000 (arXiv:2410.21680)."""
RESTART_S = 600.0
"""Seconds until work continues after a failure: detection, new placement, loading of weights. An assumption, with which the run above
computes for more than 90 % of its time, as reported."""
MOST_FAILURES = 10.0
"""Interruptions during a piece of work above which the job does not end."""
WORTH_TELLING = 1.01
"""Ratio to the time without failures below which failures are not shown."""
NODE_WRITES_BYTES_PER_S = 1e9
"""2 TB/s sustained for some 2,000 nodes (arXiv:2407.21783, 3.3.1)."""


def checkpoint_bytes(job: Job) -> float:
    """Bytes of a checkpoint: the trained weights and all optimizer states."""
    trained = job.adapters or float(job.architecture.total)
    weights = job.gradient_bytes if job.adapters else job.linear_bytes
    return trained * (weights + job.master_bytes + job.state_bytes)


def write_seconds(written_bytes: Floats | float, nodes: Floats | float) -> Floats:
    """C of a checkpoint of `written_bytes` that `nodes` write together."""
    return np.asarray(written_bytes / (NODE_WRITES_BYTES_PER_S * np.asarray(nodes)))


def best_work_seconds(between_s: Floats, write_s: Floats) -> Floats:
    """τ = sqrt(2·C·M), close to the value for the shortest job (Young, 1974, doi 10.1145/361147.361115), and at least C."""
    return np.maximum(np.sqrt(2 * write_s * between_s), write_s)


def lengthened(between_s: Floats, write_s: Floats, restart_s: float, work_s: Floats) -> Floats:
    """Expected time of a job ÷ its time without interruptions and checkpoints: M·e^(R/M)·(e^((τ+C)/M) - 1)/τ.

    Daly, 2006, doi 10.1016/j.future.2004.11.016, eq. 13. Infinite where a job does not end.
    """
    tries = np.minimum((work_s + write_s) / between_s, MOST_FAILURES)
    factor = between_s * np.exp(np.minimum(restart_s / between_s, MOST_FAILURES)) * np.expm1(tries) / work_s
    return np.where((restart_s + work_s + write_s) / between_s <= MOST_FAILURES, factor, np.inf)


def lengthened_by_failures(written_bytes: Floats | float, gpus: Floats | float, nodes: Floats | float) -> Floats:
    """Expected time of a job ÷ its time without failures of its `gpus`, with checkpoints at the best interval; 1 if nothing is written."""
    between_s = GPU_HOURS_BETWEEN_FAILURES * 3600 / np.asarray(gpus, dtype=np.float64)
    write_s = write_seconds(written_bytes, nodes)
    work_s = best_work_seconds(between_s, write_s)
    return np.where(work_s > 0, lengthened(between_s, write_s, RESTART_S, np.where(work_s > 0, work_s, 1.0)), 1.0)
