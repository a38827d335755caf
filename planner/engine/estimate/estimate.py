"""Candidates given in full: many requests, of any models and tasks, evaluated as one table a kind of task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.columns import Floats, LayoutColumns
from planner.engine.evaluate.evaluation import Candidates, Evaluated, evaluate
from planner.engine.evaluate.request_rate import LATENCY_COLUMNS, latencies
from planner.engine.explain.answer import answer_of
from planner.engine.job.compute_capability import barred
from planner.engine.job.job import Job
from planner.engine.job.layout_checks import check_layout, check_links
from planner.engine.job.resolve import resolve
from planner.engine.memory import memory_of
from planner.engine.performance.disaggregated import asked_of, settled
from planner.engine.performance.operators.chip import Chip, FindChip, fabric_of, joined_by, link_of
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.simulation.queueing import queue_of
from planner.engine.performance.simulation.replicas import demand_of, simulate
from planner.engine.records.layout import NODE_GPUS, Layout, spread
from planner.engine.search.cost import priced
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lengths, Request

FULL_OF_WEIGHTS = 0.8
"""Share of a GPU's memory beyond which weights leave too little for caches."""
SETTLING_STEPS = 12
"""Iterations of Little's law; the time of a request grows slower than the number in flight, so it converges or hits the cache."""
SEEDS, MEASURED = 4, 100
"""Lanes simulated of a candidate and requests in each; how far their percentiles are off: `planner.engine.evaluate.request_rate`."""
WAITED = tuple(name for name in LATENCY_COLUMNS if not name.startswith("tpot"))
"""Latencies that a request's wait for its admission is part of."""
MOST_SEQUENCES = 65536.0
"""In flight on a replica that keeps no cache."""


@dataclass
class _Posed:
    """One request made ready: its record, its chip, its layout and what was assumed for it."""

    position: int
    request: Request
    job: Job
    chip: Chip
    layout: Layout[float]
    assumed: dict[str, object] = field(default_factory=dict)


def estimate(
    requests: Sequence[Request],
    find_gpu: Callable[[str], Gpu],
    find_architecture: Callable[[Request], Architecture],
    chip: FindChip,
) -> list[Answer | UserError]:
    """One answer a request, in order; a request that cannot be used gets the `UserError` that says why."""
    answers: list[Answer | UserError] = [UserError(())] * len(requests)
    by_kind: dict[str, list[_Posed]] = defaultdict(list)
    for position, request in enumerate(requests):
        try:
            gpu = find_gpu(request.gpu)
            job = resolve(request, find_architecture(request), headroom=0.0)
            found = None if barred(gpu, job) else chip(gpu, job.dtype, job.stored)
            if found is None:
                answers[position] = _unsupported(request, gpu, job)
                continue
            found = found if request.fabric is None else joined_by(found, request.fabric)
            layout, assumed = _layout(request, gpu, job)
            kind = "pools" if job.workload.disaggregated else "train" if job.train else "serve" if job.task == "serve" else "fixed"
            by_kind[kind].append(_Posed(position, request, job, found, layout, assumed))
        except UserError as error:
            answers[position] = error
    for posed in by_kind.values():
        for item, answer in zip(posed, _evaluate(posed), strict=True):
            answers[item.position] = answer
    return answers


def _unsupported(request: Request, gpu: Gpu, job: Job) -> Answer:
    known = ", ".join(sorted(gpu.compute_flop_per_s))
    reason = barred(gpu, job) or f"{gpu.name} has no known {job.dtype} rate; it has {known}"
    return Answer(id=request.id, fits=False, reason=reason, bottleneck=None, assumed=dict(job.assumed))


def _evaluate(posed: list[_Posed]) -> list[Answer]:
    index = np.arange(len(posed))
    columns = LayoutColumns.gather([item.layout for item in posed], index)
    candidates = Candidates([p.job for p in posed], index, [p.chip for p in posed], index, columns)
    together = posed[0].job.task == "serve" and not posed[0].job.workload.disaggregated
    if together:
        candidates = replace(candidates, layout=_in_flight(posed, candidates))
    elif posed[0].job.task == "serve":
        candidates = _with_pools(posed, candidates)
    evaluated = evaluate(candidates)
    if together:
        evaluated = _queued(posed, evaluated)
    answers = []
    for row, item in enumerate(posed):
        answer = answer_of(evaluated, row)
        in_flight = float(candidates.layout.sequences[row])
        if together and np.isfinite(item.layout.sequences) and item.layout.sequences > in_flight:
            item.assumed["waiting_per_replica"] = int(item.layout.sequences - in_flight)
        answer = msgspec.structs.replace(answer, id=item.request.id, assumed=answer.assumed | item.assumed)
        answers.append(priced(answer, item.request.price_usd_per_gpu_h))
    return answers


def _queued(posed: list[_Posed], e: Evaluated) -> Evaluated:
    """Latencies of requests that come by themselves or differ in length from simulation; of closed loops with what they wait.

    A closed loop larger than the cache leaves requests waiting, B of c in flight: each waits (c - B) ÷ the rate of the replica
    before it is admitted. Engines that do not reserve outputs hold half of them on average, and so more requests.
    """
    assert e.serve is not None
    job, reserves = e.table.job, e.table.engine.reserves_output
    asked = np.array([item.layout.sequences for item in posed])
    length = job.input_tokens + job.output_tokens
    admitted = e.candidates.layout.sequences * np.where(reserves > 0, 1.0, length / (length - job.output_tokens / 2))
    waiting = np.where(np.isfinite(asked), np.maximum(asked - admitted, 0.0), 0.0)
    wait_s = waiting / e.serve.requests_per_s
    serve = replace(e.serve, **{name: getattr(e.serve, name) + wait_s for name in WAITED})
    alike = np.array([item.job.lockstep > 0 or not _varies(item.job) for item in posed])
    rows = np.flatnonzero(~alike & e.memory.fits)
    if not rows.size:
        return replace(e, serve=serve)
    replicas = np.array([posed[row].layout.dp for row in rows])
    demand = demand_of(
        [posed[row].job for row in rows], replicas, surge=np.array([posed[row].job.workload.targets.burst for row in rows])
    )
    most = np.broadcast_to(e.memory.max_sequences, e.table.rows)[rows]
    found = simulate(e.table.take(rows), most, demand, seeds=SEEDS, measured=MEASURED)
    columns = {name: np.array(getattr(serve, name)) for name in LATENCY_COLUMNS}
    for name, simulated in latencies(found).items():
        known = ~found.saturated & np.isfinite(simulated)
        columns[name][rows[known]] = simulated[known]
    return replace(e, queue=queue_of(found, demand.rate_per_s * replicas, rows, e.table.rows), serve=replace(serve, **columns))  # type: ignore[arg-type]  # the names are those of such columns


def _varies(job: Job) -> bool:
    """Whether requests come at a rate of their own, or are of different lengths."""
    lengths = (job.workload.input_tokens, job.workload.output_tokens)
    return bool(job.request_rate_per_s) or any(isinstance(given, Lengths) for given in lengths)


def _in_flight(posed: list[_Posed], candidates: Candidates) -> LayoutColumns:
    """Layouts with the sequences really in flight on a replica: what was asked, what the cache holds, what the rate settles at.

    A rate settles at Little's law, B = rate · time of a request at B; a rate beyond what the replica can do ends at the cache.
    """
    most, table = _room(candidates), candidates.table()
    rate = np.array([item.job.request_rate_per_s / item.layout.dp for item in posed])
    layout = replace(candidates.layout, sequences=np.minimum(candidates.layout.sequences, most))
    if not rate.any():
        return layout
    sequences = np.where(rate > 0, 1.0, layout.sequences)
    for _ in range(SETTLING_STEPS):
        now = replace(table, layout=replace(layout, sequences=sequences))
        seconds = serve_of(now, continuous=True).request_s
        sequences = np.where(rate > 0, np.clip(rate * seconds, 1.0, most), layout.sequences)
    return replace(layout, sequences=sequences)


def _room(candidates: Candidates) -> Floats:
    """Sequences that the cache of a replica holds."""
    table = candidates.table()
    most = np.ones(table.rows)
    for _ in range(2):  # one sequence first, then all its cache would hold: activations and logits grow with them
        found = memory_of(replace(table, layout=replace(candidates.layout, sequences=most))).max_sequences
        most = np.where(np.isfinite(found), np.maximum(found, 1.0), MOST_SEQUENCES)
    return most


def _with_pools(posed: list[_Posed], candidates: Candidates) -> Candidates:
    """With the sequences that decoding replicas have in flight, and the pools that were left open, which count as assumed."""
    layout = settled(candidates.table(), _room(candidates), asked_of(candidates.jobs, candidates.job_index))
    for item, prefill in zip(posed, layout.prefill, strict=True):
        if item.request.prefill_replicas is None:
            item.assumed["prefill_replicas"] = round(float(prefill))
    return replace(candidates, layout=layout)


def _layout(request: Request, gpu: Gpu, job: Job) -> tuple[Layout[float], dict[str, object]]:
    """Layout columns of one request; absent degrees are filled in so that tp·pp·dp·cp = gpus."""
    assumed: dict[str, object] = {}
    tp, pp, dp, cp = _degrees(request, job, gpu)
    gpus = tp * pp * dp * cp
    check_layout(request, job, tp=tp, pp=pp, dp=dp, cp=cp)
    per_node = request.gpus_per_node or min(gpus, NODE_GPUS)
    check_links(request.link, request.fabric)
    link, link_rate = link_of(gpu, request.link, nvlink=None)
    fabric, fabric_rate = fabric_of(gpu, request.fabric, per_node)
    if gpus > 1 and request.link is None:
        assumed["link"] = link
    if gpus > per_node and request.fabric is None:
        assumed["fabric"] = fabric
    if gpus > 1:
        assumed |= {name: chosen for name, chosen in (("tp", tp), ("pp", pp), ("dp", dp)) if getattr(request, name) is None}
    if job.train:
        defaults = {"sharding": "none", "checkpointing": "none", "micro_batch": 1}
        assumed |= {name: value for name, value in defaults.items() if getattr(request, name) is None}
    sequences = _concurrency(job, dp) if job.task == "serve" else max(1.0, job.batch / dp)
    layout = spread(
        tp=tp,
        pp=pp,
        dp=dp,
        cp=cp,
        ep=request.ep or 1,
        virtual_stages=request.virtual_stages or 1,
        gpus_per_node=per_node,
        sharding=request.sharding or "none",
        checkpointing=request.checkpointing or "none",
        micro_batch=job.micro_batch or 1.0,
        sequences=sequences,
        prefill=request.prefill_replicas or 0,
        link=(link, link_rate),
        fabric_bytes_per_s=fabric_rate,
    )
    return layout, assumed


def _degrees(request: Request, job: Job, gpu: Gpu) -> tuple[int, int, int, int]:
    """(tp, pp, dp, cp): what is given stays; the rest of the GPUs become tp for inference and dp for training.

    Tensor parallelism that nobody asked for stays inside a node: more nodes hold replicas, or stages of a model that fills one.
    """
    pp, cp = request.pp or 1, request.cp or 1
    if request.gpus is None:
        return request.tp or 1, pp, request.dp or 1, cp
    if job.engine.layer_split and not job.train and request.pp is None and request.dp is None and (request.tp or 1) == 1:
        return 1, max(1, request.gpus // cp), 1, cp
    rest = max(1, request.gpus // max(1, pp * cp))
    if request.tp is not None and request.dp is not None:
        return request.tp, pp, request.dp, cp
    if request.tp is not None:
        return request.tp, pp, max(1, rest // max(1, request.tp)), cp
    if request.dp is None and job.workload.disaggregated:
        return max(1, rest // 2), pp, min(rest, 2), cp
    if request.dp is not None:
        return max(1, rest // max(1, request.dp)), pp, request.dp, cp
    if job.train:
        return 1, pp, rest, cp
    inside = request.gpus_per_node or NODE_GPUS
    nodes = rest // inside
    if request.pp is not None or nodes * inside != rest or nodes < 2:
        return rest, pp, 1, cp
    filled = job.architecture.total * job.linear_bytes / inside > FULL_OF_WEIGHTS * gpu.memory_bytes
    return (inside, nodes, 1, cp) if filled else (inside, 1, nodes, cp)


def _concurrency(job: Job, dp: int) -> float:
    """Sequences asked for on one replica; infinite: as many as its cache holds, or as its request rate settles at."""
    if job.concurrency:
        return float(np.ceil(job.concurrency / dp)) if np.isfinite(job.concurrency) else float("inf")
    return float("inf")
