"""A row of a plan as a candidate again, to tell where its time goes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import TimeDetail
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.explain.candidate import candidate_of, job_of
from planner.engine.explain.operator_times import serve_operators, step_operators
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload

WORK = {"train": "one optimizer step", "finetune": "one optimizer step", "serve": "one request", "prefill": "one batch of prompts"}


def time_detail(
    workload: Workload,
    architecture: Architecture,
    row: PlanRow,
    gpu: Gpu,
    offers: Sequence[Offer],
    find_chip: FindChip,
) -> TimeDetail | None:
    """The time of `row` operator by operator; None for a row that cannot be timed. `gpu` is the row's, `find_chip` its plan's."""
    layout = row.answer.layout
    job = job_of(workload, architecture, row)
    chip = find_chip(gpu, job.dtype, job.stored)
    if layout is None or chip is None or not row.answer.seconds_by_class:
        return None
    found = detail_of(evaluate(candidate_of(job, chip, layout, nvlink=nvlink_of(row, offers))))
    mean = row.answer.request_s.mean.value if job.task == "serve" and row.answer.request_s else None
    return msgspec.structs.replace(found, mean_request_s=mean)


def detail_of(e: Evaluated) -> TimeDetail:
    """The time of a table of one candidate."""
    job, chip = e.candidates.jobs[0], e.candidates.chips[0]
    if e.step is not None:
        operators = step_operators(e.table, job, e.step)
    else:
        assert e.serve is not None
        operators = serve_operators(e.table, job, e.serve)
    at_once = max(1, round(float(e.table.layout.sequences[0]))) if job.task == "serve" else 1
    work = WORK.get(job.task, "one batch of requests")
    return TimeDetail(
        work=f"{work} of {at_once:,} at once a replica" if at_once > 1 else work,
        at_once=at_once,
        operators=operators,
        total_s=sum(one.seconds for one in operators),
        dtype=job.dtype,
        flop_per_s=chip.flop_per_s * (chip.fp16_accumulate_gain if job.engine.fp16_accumulate else 1.0),
        peak_flop_per_s=chip.peak_flop_per_s,
        bytes_per_s=chip.bandwidth_bytes_per_s,
        peak_bytes_per_s=chip.gpu.memory_bandwidth_bytes_per_s,
    )


def nvlink_of(row: PlanRow, offers: Sequence[Offer]) -> bool | None:
    """Whether the row's offer says that its GPUs are joined by NVLink."""
    if row.offer is None:
        return None
    place = (row.offer.provider, row.offer.instance, row.offer.region, row.gpu)
    return next((one.nvlink for one in offers if (one.provider, one.instance, one.region, one.gpu) == place), None)
