"""The time of a row of a plan, operator by operator."""

from __future__ import annotations

import msgspec

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import TimeDetail
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.supply import Supply
from planner.engine.evaluate.task import Task
from planner.engine.explain.operator_times import serve_operators, step_operators
from planner.engine.performance.operators.power import capped

WORK = {"train": "one optimizer step", "finetune": "one optimizer step", "serve": "one request", "prefill": "one batch of prompts"}


def time_detail(task: Task, row: PlanRow, supply: Supply) -> TimeDetail | None:
    """The time of `row` of the plan for `task`, operator by operator; None for a row that cannot be timed."""
    evaluated = evaluated_row(task, row, supply) if row.answer.seconds_by_class else None
    if evaluated is None:
        return None
    mean = row.answer.request_s.mean.value if task.workload.task == "serve" and row.answer.request_s else None
    return msgspec.structs.replace(detail_of(evaluated), mean_request_s=mean)


def evaluated_row(task: Task, row: PlanRow, supply: Supply) -> Evaluated | None:
    """`row` of the plan for `task` as a table of one candidate; None where it has no layout or its chip no ceilings."""
    layout, job = row.answer.layout, task.job_of(row)
    chip = supply.chip(supply.gpu_of(row), job.dtype, job.stored)
    if layout is None or chip is None:
        return None
    limit_w = row.owned.power_limit_w if row.owned else None if chip.basis == "measured" else row.power_limit_w
    chip = capped(chip, job.workload, limit_w)
    return evaluate(candidate_of(job, chip, layout, nvlink=supply.nvlink_of(row), network=row.answer.network))


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
