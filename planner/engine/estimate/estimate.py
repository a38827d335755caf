"""Candidates given in full: many requests, for any models and tasks, evaluated as one table per kind of task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.answers.answer import Answer, Network
from planner.engine.columns import LayoutColumns
from planner.engine.estimate.request_layout import divided_batch, layout_of_request
from planner.engine.estimate.service_load import in_flight, in_flight_in_pools, queued
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.offer_prices import own_prices
from planner.engine.evaluate.probability import probability_fits
from planner.engine.explain.answer import answers_of, priced
from planner.engine.job.compute_capability import dtypes_to_try, unsupported_reason
from planner.engine.job.job import Job
from planner.engine.job.people import peak_over_mean, with_request_rate
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import Chip, FindChip, fabric_of, with_fabric
from planner.engine.performance.operators.power import capped
from planner.engine.records.layout import Layout
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.spelling import is_commonest
from planner.workload.architecture import Models
from planner.workload.tasks import Dtype, Request


class Prepared(msgspec.Struct, frozen=True):
    """One request with its job, chip and layout, and the assumptions behind the layout."""

    request: Request
    job: Job
    chip: Chip
    layout: Layout[float]
    assumed: dict[str, object]

    @property
    def kind(self) -> str:
        """Kind of task: requests of one kind are evaluated together."""
        if self.job.workload.disaggregated:
            return "pools"
        return "train" if self.job.train else "serve" if self.job.task == "serve" else "fixed"


def estimate(
    requests: Sequence[Request],
    find_gpu: Callable[[str], Gpu],
    find_models: Callable[[Request], Models],
    chip: FindChip,
) -> list[Answer | UserError]:
    """One answer per request, in order; a `UserError` with the reasons for a request that cannot be used."""
    answers: list[Answer | UserError] = [UserError(())] * len(requests)
    by_kind: dict[str, dict[int, Prepared]] = defaultdict(dict)
    known: dict[tuple[Dtype | None, bytes], Job] = {}
    for position, request in enumerate(requests):
        try:
            gpu = find_gpu(request.gpu)
            price = own_prices(request, [gpu.name], find_gpu).get(gpu.name)
            priced = msgspec.structs.replace(request, price_usd_per_gpu_h=price)
            prepared = laid_out(_job_once(known, priced, gpu, find_models(request)), priced, gpu, chip)
        except UserError as error:
            answers[position] = error
            continue
        if isinstance(prepared, Answer):
            answers[position] = prepared
        else:
            by_kind[prepared.kind][position] = prepared
    for kind, found in by_kind.items():
        items = list(found.values())
        for position, answer in zip(found, answers_of_kind(kind, items, evaluated_requests(kind, items)), strict=True):
            answers[position] = answer
    return answers


def prepare(request: Request, gpu: Gpu, models: Models, find_chip: FindChip) -> Prepared | Answer:
    """`request` ready to be evaluated, or the answer that the GPU cannot run it; raises `UserError`."""
    return laid_out(job_of_request(request, gpu, models), request, gpu, find_chip)


def _job_once(known: dict[tuple[Dtype | None, bytes], Job], request: Request, gpu: Gpu, models: Models) -> Job:
    """`job_of_request`, resolved once for requests that differ only in the GPU, its price and their id; raises `UserError`."""
    unplaced = msgspec.structs.replace(request, id=None, gpu="", price_usd_per_gpu_h=None)
    alike = _dtype_of(request, gpu, models), msgspec.json.encode(unplaced, enc_hook=str)
    if (job := known.get(alike)) is None:
        job = known[alike] = job_of_request(request, gpu, models)
        return job
    own = {name: getattr(request, name) for name in ("id", "gpu", "price_usd_per_gpu_h")}
    return replace(job, workload=msgspec.structs.replace(job.workload, **own), assumed=dict(job.assumed))


def _dtype_of(request: Request, gpu: Gpu, models: Models) -> Dtype | None:
    """The compute dtype of `request`: the first that may be tried and `gpu` has a rate for."""
    return next((dtype for dtype in dtypes_to_try(request, models.main) if dtype in gpu.compute_flop_per_s), request.dtype)


def job_of_request(request: Request, gpu: Gpu, models: Models) -> Job:
    """Job of `request` on `gpu`, for any layout; raises `UserError`."""
    request = with_request_rate(request)
    job = resolve(msgspec.structs.replace(request, dtype=_dtype_of(request, gpu, models)), models, headroom=0.0)
    return replace(job, assumed={"dtype": job.dtype} | job.assumed) if request.dtype is None else job


def laid_out(job: Job, request: Request, gpu: Gpu, find_chip: FindChip) -> Prepared | Answer:
    """`job` in the layout of `request`, or the answer that the GPU cannot run it; raises `UserError`."""
    assert isinstance(job.workload, Request)
    request = job.workload  # with what its engine turns on
    reason = unsupported_reason(gpu, job)
    chip = None if reason else find_chip(gpu, job.dtype, job.stored)
    if chip is None:
        known = ", ".join(sorted(gpu.compute_flop_per_s))
        reason = reason or f"{gpu.name} has no known {job.dtype} rate; it has {known}"
        return Answer(id=request.id, fits=False, reason=reason, bottleneck=None, assumed=dict(job.assumed))
    chip = capped(chip, request)
    layout, assumed = layout_of_request(request, gpu, job)
    job, layout, divided = divided_batch(job, layout)
    assumed |= divided
    if is_commonest(request.gpu, gpu):
        assumed = {"gpu": f"{gpu.name}, the most common GPU called {request.gpu}"} | assumed
    return Prepared(request, job, chip if request.fabric is None else with_fabric(chip, request.fabric), layout, assumed)


def evaluated_requests(kind: str, prepared: Sequence[Prepared]) -> Evaluated:
    """Requests of one kind with their memory and times, a row each."""
    wanted = candidates_of(prepared)
    if kind not in {"serve", "pools"}:
        return evaluate(wanted)
    candidates, table = (in_flight if kind == "serve" else in_flight_in_pools)(wanted)
    evaluated = evaluate(candidates, table=table)
    return queued(evaluated, wanted.layout) if kind == "serve" else evaluated


def candidates_of(prepared: Sequence[Prepared]) -> Candidates:
    """Requests as candidates, with the load that they state."""
    index = np.arange(len(prepared))
    wanted = LayoutColumns.gather([item.layout for item in prepared], index)
    return Candidates([item.job for item in prepared], index, [item.chip for item in prepared], index, wanted)


def answers_of_kind(kind: str, prepared: Sequence[Prepared], evaluated: Evaluated) -> Iterator[Answer]:
    """Answers of requests of one kind, which are the rows of `evaluated`."""
    chances = probability_fits(evaluated).round(3).tolist()
    for row, (item, answer) in enumerate(zip(prepared, answers_of(evaluated, range(len(prepared))), strict=True)):
        assumed = answer.assumed | item.assumed | _assumed_load(kind, item, evaluated.candidates.layout, row)
        found = {"id": item.request.id, "assumed": assumed, "network": _network(item, answer), "probability_fits": chances[row]}
        whole = msgspec.structs.replace(answer, **found)
        price = item.request.price_usd_per_gpu_h  # a number: `estimate` took it from a table
        assert not isinstance(price, dict)
        usd_per_h = price * answer.layout.gpus if price and answer.layout else None
        yield priced(whole, usd_per_h, peak_over_mean(item.request))


def _network(item: Prepared, answer: Answer) -> Network | None:
    """Network between the nodes of a candidate; None if it uses one node."""
    layout, asked = answer.layout, item.request.fabric
    if layout is None or layout.nodes < 2:
        return None
    apart = item.job.task == "serve" and not item.job.workload.disaggregated
    exchanging = layout.tp * layout.pp * layout.cp if apart else layout.gpus
    name, rate = fabric_of(item.chip.gpu, asked, layout.gpus_per_node)
    return Network(
        fabric=name,
        bytes_per_s=rate,
        joined_nodes=-(-exchanging // layout.gpus_per_node),
        nodes=layout.nodes,
        basis="assumed" if asked is None else "given",
    )


def _assumed_load(kind: str, item: Prepared, layout: LayoutColumns, row: int) -> dict[str, object]:
    """Load that was determined for a service: requests that wait on a replica, or replicas that read prompts."""
    if kind == "pools" and item.request.prefill_replicas is None:
        return {"prefill_replicas": round(float(layout.prefill[row]))}
    waiting = item.layout.sequences - float(layout.sequences[row])
    if kind == "serve" and np.isfinite(waiting) and waiting > 0:
        return {"waiting_per_replica": int(waiting)}
    return {}
