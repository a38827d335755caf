"""Tradeoff of a change of a workload: the same GPUs in the same layout, with and without the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.answers.plan import PlanRow
from planner.engine.columns import Floats, full
from planner.engine.evaluate.candidates import Candidates, candidate_of, side_by_side
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.task import Supply, Task
from planner.engine.job.compute_capability import dtypes_to_try, unsupported_reason
from planner.engine.levers.changed_plans import Keys
from planner.workload.tasks import Workload

LAYOUT_KEYS = ("checkpointing", "micro_batch", "sharding")
"""Keys of a workload that are also a layout's."""


class Tradeoff(msgspec.Struct, frozen=True):
    """Bytes that a change saves on one row, and the time it costs."""

    saves_bytes: float
    """Bytes on the fullest GPU."""
    slowdown: float
    """Time for the same work with the change ÷ without, minus one."""


def tradeoffs_of_change(
    before: Task, after: Task, supply: Supply, rows: Sequence[PlanRow], keys: Keys, *, as_planned: bool
) -> list[Tradeoff | None]:
    """Tradeoff of `after` in the layout of each of `rows`, as if `before` had enough memory; `as_planned`: they are rows of `after`'s plan.

    None where one of the two cannot be evaluated there.
    """
    pairs = dict[int, tuple[Candidates, Candidates]]()
    for number, row in enumerate(rows):
        if (layout := row.answer.layout) is None:
            continue
        plain = _candidate(before, supply, row, _with_keys(layout, before.workload, keys))
        lighter = _candidate(after, supply, row, layout if as_planned else _with_keys(layout, after.workload, keys))
        if plain is not None and lighter is not None:
            pairs[number] = plain, lighter
    if not pairs:
        return [None] * len(rows)
    (bytes_before, before_s), (bytes_after, after_s) = (_needs(parts) for parts in zip(*pairs.values(), strict=True))
    found = map(Tradeoff, (bytes_before - bytes_after).tolist(), (after_s / before_s - 1).tolist())
    of_row = dict(zip(pairs, found, strict=True))
    return [of_row.get(number) for number in range(len(rows))]


def tradeoff_of_hardware(before: Task, after: Task, supply: Supply, near: PlanRow, row: PlanRow) -> Tradeoff | None:
    """Tradeoff of `row` of `after`'s plan, on more or other GPUs, compared with `near` as if that had enough memory."""
    if near.answer.layout is None or row.answer.layout is None:
        return None
    layout = msgspec.structs.replace(near.answer.layout, batch=row.answer.layout.batch)
    plain = _candidate(before, supply, near, layout)
    other = _candidate(after, supply, row, row.answer.layout)
    if plain is None or other is None:
        return None
    e, of_other = evaluate(plain), evaluate(other)
    seconds = _request_s if of_other.serve else _seconds
    return Tradeoff(float(e.memory.total[0] - of_other.memory.total[0]), float(seconds(of_other)[0] / seconds(e)[0] - 1))


def _with_keys(layout: LayoutAnswer, workload: Workload, keys: Keys) -> LayoutAnswer:
    """`layout` with the values of `workload` for the changed keys; open values are the simplest ones."""
    plain = {"checkpointing": "none", "sharding": layout.sharding, "micro_batch": layout.micro_batch}
    values: dict[str, Any] = {key: getattr(workload, key) or plain[key] for key in LAYOUT_KEYS if key in keys}
    if "concurrency" in keys and isinstance(workload.concurrency, int):
        values["batch"] = -(-workload.concurrency // layout.dp)
    if "batch" in keys:
        values["batch"] = workload.batch or 1
    return msgspec.structs.replace(layout, **values)


def _candidate(task: Task, supply: Supply, row: PlanRow, layout: LayoutAnswer) -> Candidates | None:
    """Candidate of `row` in `layout` with the job of `task` on its GPU; None if the GPU has no figures for that job.

    The dtype is the one in which a plan for `task` computes there, and may differ from the row's: weights in FP8 compute in FP8, unlike the
    weights they replace.
    """
    gpu = supply.gpu_of(row)
    for dtype in dtypes_to_try(task.workload, task.models.main):
        job = task.job(dtype)
        if not unsupported_reason(gpu, job) and (chip := supply.chip(gpu, job.dtype, job.stored)):
            return candidate_of(job, chip, layout, nvlink=supply.nvlink_of(row), network=row.answer.network)
    return None


def _needs(parts: Sequence[Candidates]) -> tuple[Floats, Floats]:
    """(bytes on the fullest GPU, seconds) of each candidate."""
    e = evaluate(side_by_side(parts))
    return e.memory.total, full(_seconds(e), e.table.rows)


def _seconds(e: Evaluated) -> Floats:
    """Seconds per trained token of the whole job, or per answered request of one replica."""
    if e.step:
        return e.step.step_s / e.step.tokens
    assert e.serve is not None
    return 1 / e.serve.requests_per_s


def _request_s(e: Evaluated) -> Floats:
    assert e.serve is not None
    return e.serve.request_s.mean
