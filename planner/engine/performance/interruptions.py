"""Time of a long job with failures: checkpoints are written, and after each failure the work since the last one is done again.

Symbols: M seconds between failures of the job · C seconds to write a checkpoint · R seconds until work goes on after a failure · τ seconds of
work between checkpoints.
"""

from __future__ import annotations

import math

from planner.engine.job.job import Job

GPU_HOURS_BETWEEN_FAILURES = 50_000.0
"""419 unexpected interruptions in 54 days on 16,384 H100 are one in 50,700 GPU-hours (Llama 3, arXiv:2407.21783, table 5); 1 to 2 GPUs a week of
384 A100 are one in 43,000 (BLOOM, arXiv:2211.05100, 3.3). Research clusters of many users: one in 8,000 to 30,000 (arXiv:2410.21680)."""
RESTART_S = 600.0
"""Until work goes on after a failure: found, placed anew, weights loaded. An assumption, with which the former run computes for more than 90 % of
its time, as it is reported to."""
MOST_FAILURES = 10.0
"""Failures before a piece of work is done beyond which the job does not end."""
NODE_WRITES_BYTES_PER_S = 1e9
"""2 TB/s sustained for some 2,000 nodes (arXiv:2407.21783, 3.3.1)."""


def checkpoint_bytes(job: Job) -> float:
    """Bytes of a checkpoint: the weights that are trained and all states of the optimizer."""
    trained = job.adapters or float(job.architecture.total)
    weights = job.gradient_bytes if job.adapters else job.linear_bytes
    return trained * (weights + job.master_bytes + job.state_bytes)


def lengthened(written_bytes: float, gpus: int, nodes: int) -> float:
    """Expected time of a job over its time without failures and checkpoints: M·e^(R/M)·(e^((τ+C)/M) - 1)/τ (Daly, 2006, eq. 13).

    τ = sqrt(2·C·M) is near its least (Young, 1974), and no shorter than C.
    """
    between_s = GPU_HOURS_BETWEEN_FAILURES * 3600 / gpus
    write_s = written_bytes / (NODE_WRITES_BYTES_PER_S * nodes)
    work_s = max(math.sqrt(2 * write_s * between_s), write_s)
    if not work_s:
        return 1.0
    if (RESTART_S + work_s + write_s) / between_s > MOST_FAILURES:
        return math.inf
    return between_s * math.exp(RESTART_S / between_s) * math.expm1((work_s + write_s) / between_s) / work_s
