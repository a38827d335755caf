"""The layout of a request, with assumptions for the degrees it leaves open."""

from __future__ import annotations

import math

from msgspec.structs import replace

from planner.engine.estimate.layout_checks import check_layout, check_links, check_slices
from planner.engine.job.job import Job
from planner.engine.memory.stages import MICRO_BATCHES_OF_A_STAGE
from planner.engine.performance.operators.chip import fabric_of, link_of
from planner.engine.records.layout import Layout, spread
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import linked_gpus, usual_fabric
from planner.hardware.catalogue.mig import split_name
from planner.workload.tasks import Request

FULL_OF_WEIGHTS = 0.8
"""Share of a GPU's memory above which weights leave too little for caches."""


def layout_of_request(request: Request, gpu: Gpu, job: Job) -> tuple[Layout[float], dict[str, object]]:
    """The layout, and the assumptions in it; absent degrees are filled in so that tp·pp·dp·cp = gpus.

    Raises `UserError` for degrees, batches or links that contradict each other.
    """
    assumed: dict[str, object] = {}
    tp, pp, dp, cp = _degrees(request, job, gpu)
    gpus = tp * pp * dp * cp
    check_layout(request, job, tp=tp, pp=pp, dp=dp, cp=cp)
    check_slices(gpu, job, tp * pp * cp, dp)
    per_node = request.gpus_per_node or linked_gpus(gpu, gpus)
    check_links(request.link, request.fabric)
    link, link_rate = link_of(gpu, request.link, nvlink=None)
    _, fabric_rate = fabric_of(gpu, request.fabric, per_node)
    if gpus > 1 and request.link is None:
        assumed["link"] = link
    if gpus > per_node and request.fabric is None:
        assumed["fabric"] = usual_fabric(gpu)
    if gpus > 1:
        assumed |= {name: chosen for name, chosen in (("tp", tp), ("pp", pp), ("dp", dp)) if getattr(request, name) is None}
    if job.train:
        defaults = {"sharding": "none", "checkpointing": "none", "micro_batch": 1}
        assumed |= {name: value for name, value in defaults.items() if getattr(request, name) is None}
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
        sequences=_concurrency(job, dp) if job.task == "serve" else max(1.0, math.ceil(job.batch / dp)),
        prefill=request.prefill_replicas or 0,
        link=(link, link_rate),
        fabric_bytes_per_s=fabric_rate,
    )
    return layout, assumed


def divided_batch(job: Job, layout: Layout[float]) -> tuple[Job, Layout[float], dict[str, object]]:
    """(job, layout, assumptions) with the batch of a replica divided over the stages of a pipeline, where its program does so.

    torch.distributed.pipelining: `Schedule1F1B` accepts no fewer micro batches than stages, so a micro batch is at most the batch of a
    replica ÷ the stages (as a mean, where it does not divide evenly). A micro batch without a global one is the batch of a replica, or of
    one that is divided so.
    """
    given, stages = job.micro_batch, layout.pp
    if not job.train or stages == 1:
        return job, layout, {}
    divides = job.engine.torch_pipelines and given
    usual = max(given, stages) if divides else MICRO_BATCHES_OF_A_STAGE * stages * layout.micro_batch
    of_replica = job.global_batch / layout.dp if job.global_batch else usual
    assumed: dict[str, object] = {} if job.global_batch else {"global_batch": round(of_replica * layout.dp)}
    if not divides:
        return job, layout, assumed
    part = min(given, max(1.0, of_replica / stages))
    if part < given:
        words = f"{part:.3g}; {job.engine.label} divides the batch of a replica over the {stages:.0f} stages of a pipeline"
        assumed["micro_batch"] = words
    return replace(job, global_batch=of_replica * layout.dp), replace(layout, micro_batch=part), assumed


def _degrees(request: Request, job: Job, gpu: Gpu) -> tuple[int, int, int, int]:
    """(tp, pp, dp, cp): given degrees stay; the rest of the GPUs become tp for inference and dp for training.

    Assumed tensor parallelism stays inside a node: more nodes hold replicas, or stages of a model that fills one.
    """
    pp, cp = request.pp or 1, request.cp or 1
    if split_name(gpu.name) is not None and request.tp is None and request.dp is None:
        return 1, pp, max(1, (request.gpus or 1) // (pp * cp)), cp
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
    inside = request.gpus_per_node or linked_gpus(gpu, request.gpus)
    nodes = rest // inside
    if request.pp is not None or nodes * inside != rest or nodes < 2:
        return rest, pp, 1, cp
    filled = job.architecture.total * job.linear_bytes / inside > FULL_OF_WEIGHTS * gpu.memory_bytes
    return (inside, nodes, 1, cp) if filled else (inside, 1, nodes, cp)


def _concurrency(job: Job, dp: int) -> float:
    """Sequences wanted on one replica; infinite: limited by its cache, or by its request rate."""
    if not job.concurrency or math.isinf(job.concurrency):
        return math.inf
    return float(math.ceil(job.concurrency / dp))
