"""Candidates given in full: many requests, of any models and tasks, evaluated as one table a kind of task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.columns import LayoutColumns
from planner.engine.estimate.request_layout import layout_of_request
from planner.engine.estimate.service_load import in_flight, in_flight_in_pools, queued
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import evaluate
from planner.engine.explain.answer import answer_of
from planner.engine.explain.prices import priced
from planner.engine.job.compute_capability import unsupported_reason
from planner.engine.job.compute_dtype import native_dtype
from planner.engine.job.job import Job
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import Chip, FindChip, with_fabric
from planner.engine.records.layout import Layout
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Models
from planner.workload.tasks import Request


@dataclass(frozen=True)
class _Prepared:
    """One request with its job, its chip, its layout and what was assumed for that."""

    request: Request
    job: Job
    chip: Chip
    layout: Layout[float]
    assumed: dict[str, object]

    @property
    def kind(self) -> str:
        """Requests of one kind are evaluated together."""
        if self.job.workload.disaggregated:
            return "pools"
        return "train" if self.job.train else "serve" if self.job.task == "serve" else "fixed"


def estimate(
    requests: Sequence[Request],
    find_gpu: Callable[[str], Gpu],
    find_models: Callable[[Request], Models],
    chip: FindChip,
) -> list[Answer | UserError]:
    """One answer a request, in order; a request that cannot be used gets the `UserError` that says why."""
    answers: list[Answer | UserError] = [UserError(())] * len(requests)
    by_kind: dict[str, dict[int, _Prepared]] = defaultdict(dict)
    for position, request in enumerate(requests):
        try:
            prepared = _prepared(request, find_gpu(request.gpu), find_models(request), chip)
        except UserError as error:
            answers[position] = error
            continue
        if isinstance(prepared, Answer):
            answers[position] = prepared
        else:
            by_kind[prepared.kind][position] = prepared
    for kind, found in by_kind.items():
        for position, answer in zip(found, _answers(kind, list(found.values())), strict=True):
            answers[position] = answer
    return answers


def _prepared(request: Request, gpu: Gpu, models: Models, find_chip: FindChip) -> _Prepared | Answer:
    """`request` ready to be evaluated, or the answer that the GPU cannot run it; raises `UserError`."""
    native = native_dtype(request)
    if native in gpu.compute_flop_per_s:
        job = resolve(msgspec.structs.replace(request, dtype=native), models, headroom=0.0)
        job = replace(job, assumed={"dtype": native} | job.assumed)
    else:
        job = resolve(request, models, headroom=0.0)
    assert isinstance(job.workload, Request)
    request = job.workload  # with what its engine turns on
    reason = unsupported_reason(gpu, job)
    chip = None if reason else find_chip(gpu, job.dtype, job.stored)
    if chip is None:
        known = ", ".join(sorted(gpu.compute_flop_per_s))
        reason = reason or f"{gpu.name} has no known {job.dtype} rate; it has {known}"
        return Answer(id=request.id, fits=False, reason=reason, bottleneck=None, assumed=dict(job.assumed))
    layout, assumed = layout_of_request(request, gpu, job)
    return _Prepared(request, job, chip if request.fabric is None else with_fabric(chip, request.fabric), layout, assumed)


def _answers(kind: str, prepared: Sequence[_Prepared]) -> list[Answer]:
    """The answers of requests of one kind."""
    index = np.arange(len(prepared))
    wanted = LayoutColumns.gather([item.layout for item in prepared], index)
    candidates = Candidates([item.job for item in prepared], index, [item.chip for item in prepared], index, wanted)
    if kind == "serve":
        candidates = in_flight(candidates)
        evaluated = queued(evaluate(candidates), wanted)
    else:
        evaluated = evaluate(in_flight_in_pools(candidates) if kind == "pools" else candidates)
    answers = []
    for row, item in enumerate(prepared):
        answer = answer_of(evaluated, row)
        assumed = answer.assumed | item.assumed | _assumed_load(kind, item, evaluated.candidates.layout, row)
        answer = msgspec.structs.replace(answer, id=item.request.id, assumed=assumed)
        price = item.request.price_usd_per_gpu_h
        answers.append(priced(answer, price * answer.layout.gpus if price and answer.layout else None))
    return answers


def _assumed_load(kind: str, item: _Prepared, layout: LayoutColumns, row: int) -> dict[str, object]:
    """Load that a service came to: requests that wait on a replica, or replicas that read prompts."""
    if kind == "pools" and item.request.prefill_replicas is None:
        return {"prefill_replicas": round(float(layout.prefill[row]))}
    waiting = item.layout.sequences - float(layout.sequences[row])
    if kind == "serve" and np.isfinite(waiting) and waiting > 0:
        return {"waiting_per_replica": int(waiting)}
    return {}
