"""Time of a row of a plan, operator by operator, and its memory, item by item."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter

import msgspec
import numpy as np

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryDetail, MemoryItem
from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import TimeDetail
from planner.engine.columns import Floats, Table
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.task import Supply, Task
from planner.engine.explain.operator_times import serve_operators, step_operators
from planner.engine.job.job import Job
from planner.engine.memory import memory_of
from planner.engine.memory.terms import COMMUNICATOR_RECORD, CONTEXT_RECORD, SLACK_RECORD, STORAGE_FORMAT, Term
from planner.engine.memory.total import terms_of
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.operators.power import capped
from planner.hardware.catalogue.gpus import Gpu
from planner.units import bytes_text, percent_text
from planner.workload.sublayers import formats_text
from planner.workload.weights import FORMATS

SIGNIFICANT = 4
"""Significant figures of a number that is not whole."""
_NOTHING = re.compile(r" ÷ 1(?: ranks)?(?![\d,.])| \+ 0(?:\.0 GiB)?$| · 1$")
"""Terms that do not change a sum or product."""
WORK = {"train": "one optimizer step", "finetune": "one optimizer step", "serve": "one request", "prefill": "one batch of prompts"}


def number_text(value: float) -> str:
    """A number to calculate with: whole numbers in full (6,979,321,856), other small ones to four figures (0.5312)."""
    whole = not np.isfinite(value) or value == round(value) or abs(value) >= 10**SIGNIFICANT
    return f"{value:,.0f}" if whole else f"{value:,.{SIGNIFICANT}g}"


WAYS_TO_READ: Mapping[str, Callable[[float], str]] = {"": number_text, "bytes": bytes_text, "percent": percent_text}
"""Formats that may follow the colon of a symbol in `Term.formula`."""


def memory_items(t: Table, row: int) -> list[MemoryItem]:
    """Memory of `row`, by component in the order of `MEMORY_COMPONENTS`; items of 0 bytes are left out."""
    there = [(term, cell(term.bytes, row)) for term in terms_of(t)]
    return [
        MemoryItem(term.component, term.name, size, formula_text(term, row), term.source)
        for component in MEMORY_COMPONENTS
        for term, size in there
        if term.component == component and size != 0
    ]


def formula_text(term: Term, row: int) -> str:
    """Formula of `term` with the numbers of `row`. Raises `ValueError` for a symbol without a value or an unknown format."""
    parts = []
    for text, symbol, way, _ in Formatter().parse(term.formula):
        parts.append(text)
        if symbol is None:
            continue
        if symbol not in term.values or (way or "") not in WAYS_TO_READ:
            raise ValueError(
                f"{{{symbol}:{way}}} of {term.formula!r} is not one of {sorted(term.values)}, or of {sorted(WAYS_TO_READ)}"
            )
        parts.append(WAYS_TO_READ[way or ""](cell(term.values[symbol], row)))
    return _NOTHING.sub("", "".join(parts))


def cell(column: Floats, row: int) -> float:
    """Value of `row` in a column that may be shared by all rows."""
    return float(np.ravel(column)[row if np.size(column) > 1 else 0])


def time_detail(task: Task, row: PlanRow, supply: Supply) -> TimeDetail | None:
    """Time of `row` of the plan for `task`, operator by operator; None for a row that cannot be timed."""
    evaluated = evaluated_row(task, row, supply) if row.answer.seconds_by_class else None
    if evaluated is None:
        return None
    mean = row.answer.request_s.mean.value if task.workload.task == "serve" and row.answer.request_s else None
    return msgspec.structs.replace(detail_of(evaluated), mean_request_s=mean)


def evaluated_row(task: Task, row: PlanRow, supply: Supply) -> Evaluated | None:
    """`row` of the plan for `task` as a table of one candidate; None if it has no layout or its chip no ceilings."""
    layout, job = row.answer.layout, task.job_of(row)
    chip = supply.chip(supply.gpu_of(row), job.dtype, job.stored)
    if layout is None or chip is None:
        return None
    limit_w = row.owned.power_limit_w if row.owned else None if chip.basis == "measured" else row.power_limit_w
    chip = capped(chip, job.workload, limit_w)
    return evaluate(candidate_of(job, chip, layout, nvlink=supply.nvlink_of(row), network=row.answer.network))


def detail_of(e: Evaluated) -> TimeDetail:
    """Time of a table of one candidate."""
    job, chip = e.candidates.jobs[0], e.candidates.chips[0]
    if e.step is not None:
        operators = step_operators(e.table, job, e.step)
    else:
        assert e.serve is not None
        operators = serve_operators(e.table, job, e.serve)
    at_once = max(1, round(float(e.table.layout.sequences[0]))) if job.task == "serve" else 1
    work = WORK.get(job.task, "one batch of requests")
    return TimeDetail(
        work=f"{work} among {at_once:,} on its replica" if at_once > 1 else work,
        at_once=at_once,
        operators=operators,
        total_s=sum(one.seconds for one in operators),
        dtype=job.dtype,
        flop_per_s=chip.flop_per_s * (chip.fp16_accumulate_gain if job.engine.fp16_accumulate else 1.0),
        peak_flop_per_s=chip.peak_flop_per_s,
        bytes_per_s=chip.bandwidth_bytes_per_s,
        peak_bytes_per_s=chip.gpu.memory_bandwidth_bytes_per_s,
    )


def memory_detail(task: Task, row: PlanRow, supply: Supply) -> MemoryDetail | None:
    """Memory of `row` of the plan for `task`, item by item; None for a row whose memory is not known."""
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
    """`item` with its source in full, where that depends on the engine or the storage format."""
    engine = job.engine
    full = {
        CONTEXT_RECORD: f"{engine.name}: {engine.context_source}",
        COMMUNICATOR_RECORD: f"{engine.name}: {engine.communicator_source}",
        SLACK_RECORD: f"{engine.name}: {engine.slack_source}",
        STORAGE_FORMAT: f"{job.stored}: {FORMATS[job.stored].source or 'bytes of its elements'}{_apart(job)}",
    }
    return msgspec.structs.replace(item, source=full.get(item.source, item.source))


def _apart(job: Job) -> str:
    """Words on parts of the checkpoint in other formats."""
    a = job.architecture
    return f"; {formats_text(a.stored_parts)}" if a.stored_parts and job.stored == a.stored_as else ""


def _capacity_source(gpu: Gpu, chip: Chip) -> str:
    if gpu.usable_memory_bytes:
        return "what the driver gives"
    if gpu.kind != "gpu":
        return "what the system has"
    return f"{percent_text(chip.capacity_bytes / gpu.memory_bytes)} of the label: no driver's figure is known"
