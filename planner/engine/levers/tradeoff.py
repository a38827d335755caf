"""Tradeoff of a change of a workload: the same GPUs in the same layout, with the change and without it."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.task import Supply, Task
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


def tradeoff_of_change(before: Task, after: Task, supply: Supply, row: PlanRow, keys: Keys, *, as_planned: bool) -> Tradeoff | None:
    """Tradeoff of `after` in the layout of `row`, had `before` the memory; `as_planned`: the row is of `after`'s plan.

    None where one of both cannot be evaluated there.
    """
    layout = row.answer.layout
    if layout is None:
        return None
    changed_layout = layout if as_planned else _with_keys(layout, after.workload, keys)
    plain = _evaluated(before, supply, row, _with_keys(layout, before.workload, keys))
    lighter = _evaluated(after, supply, row, changed_layout)
    if plain is None or lighter is None:
        return None
    return Tradeoff(_total(plain) - _total(lighter), _seconds(lighter) / _seconds(plain) - 1)


def tradeoff_of_hardware(before: Task, after: Task, supply: Supply, near: PlanRow, row: PlanRow) -> Tradeoff | None:
    """Tradeoff of `row` of `after`'s plan, on more or other GPUs, against `near`, had that the memory."""
    if near.answer.layout is None or row.answer.layout is None:
        return None
    layout = msgspec.structs.replace(near.answer.layout, batch=row.answer.layout.batch)
    plain = _evaluated(before, supply, near, layout)
    other = _evaluated(after, supply, row, row.answer.layout)
    if plain is None or other is None:
        return None
    seconds = _request_s if other.serve else _seconds
    return Tradeoff(_total(plain) - _total(other), seconds(other) / seconds(plain) - 1)


def _with_keys(layout: LayoutAnswer, workload: Workload, keys: Keys) -> LayoutAnswer:
    """`layout` with the values of `workload` for the changed keys; open values are the simplest ones."""
    plain = {"checkpointing": "none", "sharding": layout.sharding, "micro_batch": layout.micro_batch}
    values: dict[str, Any] = {key: getattr(workload, key) or plain[key] for key in LAYOUT_KEYS if key in keys}
    if "concurrency" in keys and isinstance(workload.concurrency, int):
        values["batch"] = -(-workload.concurrency // layout.dp)
    if "batch" in keys:
        values["batch"] = workload.batch or 1
    return msgspec.structs.replace(layout, **values)


def _evaluated(task: Task, supply: Supply, row: PlanRow, layout: LayoutAnswer) -> Evaluated | None:
    job = task.job_of(row)
    chip = supply.chip(supply.gpu_of(row), job.dtype, job.stored)
    return evaluate(candidate_of(job, chip, layout, nvlink=supply.nvlink_of(row), network=row.answer.network)) if chip else None


def _total(one: Evaluated) -> float:
    return float(one.memory.total[0])


def _seconds(one: Evaluated) -> float:
    """A trained token of the whole job, or an answered request of one replica."""
    if one.step:
        return float(one.step.step_s[0] / one.step.tokens[0])
    assert one.serve is not None
    return float(1 / one.serve.requests_per_s[0])


def _request_s(one: Evaluated) -> float:
    assert one.serve is not None
    return float(one.serve.request_s.mean[0])
