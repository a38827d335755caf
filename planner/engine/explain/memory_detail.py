"""The memory of a row of a plan, item by item."""

from __future__ import annotations

import msgspec

from planner.engine.answers.memory import MemoryDetail, MemoryItem
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.evaluate.supply import Supply
from planner.engine.evaluate.task import Task
from planner.engine.job.job import Job
from planner.engine.memory import memory_of
from planner.engine.memory.detail import memory_items
from planner.engine.memory.terms import COMMUNICATOR_RECORD, CONTEXT_RECORD, SLACK_RECORD, STORAGE_FORMAT
from planner.engine.performance.operators.chip import Chip
from planner.hardware.catalogue.gpus import Gpu
from planner.units import percent_text
from planner.workload.sublayers import told
from planner.workload.weights import FORMATS


def memory_detail(task: Task, row: PlanRow, supply: Supply) -> MemoryDetail | None:
    """The memory of `row` of the plan for `task`, item by item; None for a row whose memory is not known."""
    layout, job, gpu = row.answer.layout, task.job_of(row), supply.gpu_of(row)
    chip = supply.chip(gpu, job.dtype, job.stored)
    if row.answer.memory_bytes is None or layout is None or chip is None:
        return None
    table = candidate_of(job, chip, layout).table()
    columns = memory_of(table)
    taken = float(columns.total[0] - columns.kv_cache[0]) / chip.capacity_bytes
    return MemoryDetail(
        items=[_sourced(item, job) for item in memory_items(table, 0)],
        total_bytes=float(columns.total[0]),
        label_bytes=float(gpu.memory_bytes),
        capacity_bytes=chip.capacity_bytes,
        capacity_source=_capacity_source(gpu, chip),
        memory_fraction=job.memory_fraction + job.engine.pool_of_free * (1 - job.memory_fraction) * taken,
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
        STORAGE_FORMAT: f"{job.stored}: {FORMATS[job.stored].source or 'bytes of its elements'}{_apart(job)}",
    }
    return msgspec.structs.replace(item, source=full.get(item.source, item.source))


def _apart(job: Job) -> str:
    """Parts of the checkpoint in other formats, in words."""
    a = job.architecture
    return f"; {told(a.stored_parts)}" if a.stored_parts and job.stored == a.stored_as else ""


def _capacity_source(gpu: Gpu, chip: Chip) -> str:
    if gpu.usable_memory_bytes:
        return "what the driver gives"
    if gpu.kind != "gpu":
        return "what the system has"
    return f"{percent_text(chip.capacity_bytes / gpu.memory_bytes)} of the label: no driver's figure is known"
