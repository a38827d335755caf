"""What a change of a workload saves and costs: the same GPUs in the same layout, with the change and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from planner.engine.answers.layout import LayoutAnswer
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.explain.candidate import candidate_of, job_of
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload

if TYPE_CHECKING:
    from planner.engine.search.plan import Sources

LAYOUT_KEYS = ("checkpointing", "micro_batch", "sharding")
"""Keys of a workload that are also a layout's."""


@dataclass(frozen=True)
class Weighed:
    """A change on one row."""

    saves_bytes: float
    """Of the fullest GPU."""
    slowdown: float | None
    """Time for the same work with the change ÷ without, minus one."""


def weigh(
    before: Workload,
    after: Workload,
    architecture: Architecture,
    sources: Sources,
    row: PlanRow,
    keys: dict[str, Any],
    *,
    as_planned: bool,
) -> Weighed | None:
    """What `after` saves and costs in the layout of `row`, had `before` the memory; `as_planned`: the row is of `after`'s plan.

    None where one of both cannot be evaluated there.
    """
    layout = row.answer.layout
    if layout is None:
        return None
    changed_layout = layout if as_planned else _spread(layout, after, keys)
    plain = _evaluated(before, architecture, sources, row, _spread(layout, before, keys))
    lighter = _evaluated(after, architecture, sources, row, changed_layout)
    if plain is None or lighter is None:
        return None
    return Weighed(_total(plain) - _total(lighter), _seconds(lighter) / _seconds(plain) - 1)


def weigh_hardware(
    before: Workload, after: Workload, architecture: Architecture, sources: Sources, near: PlanRow, row: PlanRow
) -> Weighed | None:
    """What `row` of `after`'s plan, on more or other GPUs, saves and costs against `near`, had that the memory."""
    if near.answer.layout is None or row.answer.layout is None:
        return None
    layout = msgspec.structs.replace(near.answer.layout, batch=row.answer.layout.batch)
    plain = _evaluated(before, architecture, sources, near, layout)
    other = _evaluated(after, architecture, sources, row, row.answer.layout)
    if plain is None or other is None:
        return None
    seconds = (_request_s(one) if one.serve else _seconds(one) for one in (other, plain))
    return Weighed(_total(plain) - _total(other), next(seconds) / next(seconds) - 1)


def _spread(layout: LayoutAnswer, workload: Workload, keys: dict[str, Any]) -> LayoutAnswer:
    """`layout` with what `workload` says of the changed keys; what it leaves open is as plain as can be."""
    plain = {"checkpointing": "none", "sharding": layout.sharding, "micro_batch": layout.micro_batch}
    values: dict[str, Any] = {key: getattr(workload, key) or plain[key] for key in LAYOUT_KEYS if key in keys}
    if "concurrency" in keys and isinstance(workload.concurrency, int):
        values["batch"] = -(-workload.concurrency // layout.dp)
    if "batch" in keys:
        values["batch"] = workload.batch or 1
    return msgspec.structs.replace(layout, **values)


def _evaluated(
    workload: Workload, architecture: Architecture, sources: Sources, row: PlanRow, layout: LayoutAnswer
) -> Evaluated | None:
    job = job_of(workload, architecture, row)
    gpu = _gpu(sources, row)
    chip = sources.chip(gpu, job.dtype, job.stored)
    return evaluate(candidate_of(job, chip, layout, nvlink=_nvlink(sources, row))) if chip else None


def _gpu(sources: Sources, row: PlanRow) -> Gpu:
    return next((local for local in sources.machine if row.here and local.name == row.gpu), None) or sources.find_gpu(row.gpu)


def _nvlink(sources: Sources, row: PlanRow) -> bool | None:
    """Whether the row's offer says that its GPUs are joined by NVLink."""
    if row.offer is None:
        return None
    place = (row.offer.provider, row.offer.instance, row.offer.region, row.gpu)
    return next((one.nvlink for one in sources.offers if (one.provider, one.instance, one.region, one.gpu) == place), None)


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
    return float(one.serve.request_s[0])
