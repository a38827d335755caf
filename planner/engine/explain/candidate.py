"""A row of a plan as a candidate again: its job, its chip and its layout as columns, to look at what the row itself leaves out."""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.answers.layout import LayoutAnswer
from planner.engine.answers.memory import MemoryDetail, MemoryItem
from planner.engine.answers.plan import PlanRow
from planner.engine.columns import LayoutColumns
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.supply import Supply
from planner.engine.evaluate.task import Task
from planner.engine.job.job import Job
from planner.engine.memory import memory_of
from planner.engine.memory.detail import memory_items
from planner.engine.memory.terms import COMMUNICATOR_RECORD, CONTEXT_RECORD, SLACK_RECORD, STORAGE_FORMAT
from planner.engine.performance.operators.chip import Chip, fabric_of, link_of
from planner.engine.records.layout import Layout, spread
from planner.hardware.catalogue.gpus import Gpu
from planner.units import percent_text
from planner.workload.weights import FORMATS


def job_of(task: Task, row: PlanRow) -> Job:
    """The job of `row`, a row of the plan for `task`."""
    return task.job(row.answer.assumed.get("dtype"))


def candidate_of(job: Job, chip: Chip, layout: LayoutAnswer, *, nvlink: bool | None = None) -> Candidates:
    """`job` on `chip`, spread as `layout` says; `nvlink` as an offer says it, which memory does not depend on."""
    one = np.zeros(1, dtype=np.int64)
    return Candidates([job], one, [chip], one, LayoutColumns.gather([_spread(job, chip.gpu, layout, nvlink)], one))


def _spread(job: Job, gpu: Gpu, layout: LayoutAnswer, nvlink: bool | None) -> Layout[float]:
    return spread(
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        cp=layout.cp,
        ep=layout.ep,
        virtual_stages=layout.virtual_stages,
        gpus_per_node=layout.gpus_per_node,
        sharding=layout.sharding or "none",
        checkpointing=layout.checkpointing or "none",
        micro_batch=float(layout.micro_batch or job.micro_batch or 1),
        sequences=float(layout.batch or 1),
        prefill=layout.prefill_replicas,
        link=link_of(gpu, None, nvlink=nvlink),
        fabric_bytes_per_s=fabric_of(gpu, None, layout.gpus_per_node)[1],
    )


def memory_detail(task: Task, row: PlanRow, supply: Supply) -> MemoryDetail | None:
    """The memory of `row` of the plan for `task`, item by item; None for a row whose memory is not known."""
    layout, job, gpu = row.answer.layout, job_of(task, row), supply.gpu_of(row)
    chip = supply.chip(gpu, job.dtype, job.stored)
    if row.answer.memory_bytes is None or layout is None or chip is None:
        return None
    table = candidate_of(job, chip, layout).table()
    columns = memory_of(table)
    return MemoryDetail(
        items=[_sourced(item, job) for item in memory_items(table, 0)],
        total_bytes=float(columns.total[0]),
        label_bytes=float(gpu.memory_bytes),
        capacity_bytes=chip.capacity_bytes,
        capacity_source=_capacity_source(gpu, chip),
        memory_fraction=job.memory_fraction,
        headroom=job.headroom,
        usable_bytes=float(columns.usable[0]),
        host_bytes=float(columns.host[0]),
    )


def _sourced(item: MemoryItem, job: Job) -> MemoryItem:
    """`item` with the source that depends on the engine or the storage format in full."""
    engine = job.engine
    full = {
        CONTEXT_RECORD: f"{engine.name}: {engine.context_source}",
        COMMUNICATOR_RECORD: f"{engine.name}: {engine.communicator_source}",
        SLACK_RECORD: f"{engine.name}: {engine.slack_source}",
        STORAGE_FORMAT: f"{job.stored}: {FORMATS[job.stored].source or 'bytes of its elements'}",
    }
    return msgspec.structs.replace(item, source=full.get(item.source, item.source))


def _capacity_source(gpu: Gpu, chip: Chip) -> str:
    if gpu.usable_memory_bytes:
        return "what the driver gives"
    if gpu.kind != "gpu":
        return "what the system has"
    return f"{percent_text(chip.capacity_bytes / gpu.memory_bytes)} of the label: no driver's figure is known"
