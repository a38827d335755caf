"""Targets of a workload, as columns of candidates with their limits."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.performance.interruptions import (
    MOST_FAILURES,
    WORTH_TELLING,
    checkpoint_bytes,
    lengthened_by_failures,
    write_seconds,
)
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, duration_text, usd_text
from planner.workload.tasks import Workload

LATENCY_WORDS = {"request": "", "ttft": "TTFT ", "tpot": "TPOT "}


def paid_columns(
    e: Evaluated, workload: Workload, expected_h: Floats, job_usd: Floats, usd_per_h: Floats
) -> list[tuple[str, Floats, float]]:
    """(name, column, limit) of the targets that depend on prices; `expected_h`: hours of the job including failures."""
    targets, found = workload.targets, list[tuple[str, Floats, float]]()
    if targets.deadline_h is not None:
        found.append(("deadline_h", expected_h, targets.deadline_h))
    if targets.budget_usd is not None:
        found.append(("budget_usd", job_usd if e.step or workload.requests else usd_per_h * HOURS_PER_MONTH, targets.budget_usd))
    return found


def latency_columns(e: Evaluated, workload: Workload) -> list[tuple[str, Floats, float]]:
    """(name, column, limit) of the targets on latency, where the candidates serve."""
    return [(limit.name, limit.of(e.serve), limit.seconds) for limit in workload.targets.latency_limits()] if e.serve else []


def failures(e: Evaluated, workload: Workload) -> Floats:
    """Time of a job with failures, restarts and checkpoints ÷ its time without; 1 if there is no deadline."""
    if workload.targets.deadline_h is None:
        return np.ones(1)
    factor = with_failures(e, np.arange(e.table.rows))
    return np.where(factor < WORTH_TELLING, 1.0, np.minimum(factor, np.exp(MOST_FAILURES)))


def with_failures(e: Evaluated, rows: Rows) -> Floats:
    """Time of training with failures, restarts and checkpoints ÷ its time without; 1 for jobs that do not train."""
    if e.step is None:
        return np.ones(rows.size)
    layout = e.table.layout
    nodes = np.ceil(layout.gpus[rows] / layout.gpus_per_node[rows])
    return lengthened_by_failures(_written_bytes(e)[rows], layout.gpus[rows], nodes)


def checkpoint_seconds(e: Evaluated, nodes: Floats) -> Floats:
    """Seconds in which the `nodes` of each row write a checkpoint; 0 for jobs that do not train."""
    return np.zeros(e.table.rows) if e.step is None else write_seconds(_written_bytes(e), nodes)


def _written_bytes(e: Evaluated) -> Floats:
    written: Floats = np.array([checkpoint_bytes(job) for job in e.candidates.jobs])[e.candidates.job_index]
    return written


def missed(name: str, value: float, limit: float, *, failing: bool) -> str:
    """A missed target in words; `failing`: the time includes failures."""
    if name == "deadline_h":
        takes = duration_text(value * SECONDS_PER_HOUR) + (" with failures" if failing else "")
        return f"takes {takes}, deadline {duration_text(limit * SECONDS_PER_HOUR)}"
    if name == "budget_usd":
        return f"costs {usd_text(value)} $, budget {usd_text(limit)} $"
    share, latency, _ = name.split("_")
    return f"{share} {LATENCY_WORDS[latency]}{duration_text(value)}, wanted {duration_text(limit)}"
