"""Classes of a question (architecture of its GPU, shape of its model, engine of a service) of which no value is published, in words."""

from __future__ import annotations

from functools import cache

from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.job.job import Job
from planner.workload.published.spreads import published_spreads

KINDS_OF = {
    "train": ("training speed",),
    "prefill": ("prefill", "batch throughput"),
    "generate": ("prefill", "decode", "batch throughput", "batch request time"),
    "serve": ("serving throughput", "time to first token", "time per output token", "request time"),
}
"""Task -> kinds of the times and rates in its answer."""


def without_source(e: Evaluated, number: int, job: Job) -> dict[str, str]:
    """Kinds of figures of row `number`, which has `job`, of which no value is published for a class of it."""
    task = "train" if job.train else job.task
    words = _words(task, tuple(of.names[int(of.rows[number if of.rows.size > 1 else 0])] for of in e.ranges.classes))
    return {"ranges_without_source": words} if words else {}


@cache
def _words(task: str, classes: tuple[str | None, ...]) -> str:
    spreads, found = published_spreads(), []
    for name in classes:
        if name is None:
            continue
        kinds = [kind for kind in KINDS_OF[task] if name not in spreads.kinds[kind].classes]
        if kinds:
            found.append(f"no published {' or '.join(kinds)} of {name or 'this architecture'}")
    return "; ".join(found)
