"""Layout of a request, with assumptions for the degrees it leaves open, and checks that degrees, batches and links agree."""

from __future__ import annotations

import math

from msgspec.structs import replace

from planner.engine.job.job import Job
from planner.engine.memory.stages import MICRO_BATCHES_OF_A_STAGE
from planner.engine.performance.operators.chip import fabric_of, link_of
from planner.engine.records.layout import ZERO_STAGE, Layout, spread
from planner.errors import Problem, Problems, UserError, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import linked_gpus, usual_fabric
from planner.hardware.catalogue.mig import split_name
from planner.workload.tasks import Request

FULL_OF_WEIGHTS = 0.8
"""Share of a GPU's memory above which weights leave too little for caches."""


def layout_of_request(request: Request, gpu: Gpu, job: Job) -> tuple[Layout[float], dict[str, object]]:
    """Layout, and the assumptions in it; absent degrees are filled in so that tp·pp·dp·cp = gpus.

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


LINKS = ("nvlink", "pcie")
FABRICS = ("infiniband", "ethernet")


def check_layout(request: Request, job: Job, *, tp: int, pp: int, dp: int, cp: int) -> None:
    """Raise `UserError` naming every degree or batch that contradicts the others or the model."""
    problems = Problems()
    a, gpus = job.architecture, tp * pp * dp * cp
    if request.gpus is not None and gpus != request.gpus:
        problems.add("gpus", f"{request.gpus} is not tp·pp·dp·cp = {tp}·{pp}·{dp}·{cp} = {gpus}.")
    if tp > a.heads or (job.train and a.heads % tp):
        problems.add("tp", f"{tp} does not divide the model's {a.heads} attention heads.")
    if pp > a.layers:
        problems.add("pp", f"{pp} stages are more than the model's {a.layers} layers.")
    if cp > 1 and a.source is not None:
        problems.add(
            "cp",
            f"{cp} is not accepted; ranks that share a prompt are known for decoders, and {a.family} reads it with an encoder.",
        )
    if pp > 1 and job.train and a.source is not None:
        problems.add(
            "pp",
            f"{pp} is not accepted; stages of equal layers are known for one stack, and {a.family} has an encoder beside its decoder.",
        )
    sharding, most = job.workload.sharding or "none", job.engine.most_pipelined_zero
    if pp > 1 and ZERO_STAGE[sharding] > most:
        problems.add(
            "sharding", f"{sharding!r} is not accepted with pp = {pp}: pipelines of {job.engine.label} take 'zero{most}' at most."
        )
    if (request.ep or 1) > 1:
        if not a.experts:
            problems.add("ep", f"{request.ep} is not accepted; the model has no experts.")
        elif not job.engine.expert_parallel:
            problems.add("ep", f"{request.ep} is not accepted; {job.engine.label} does not divide experts among GPUs.")
        elif (gpus // pp) % (request.ep or 1) or (request.ep or 1) > a.experts:
            of_a_stage = f"the {gpus // pp} GPUs" + (f" of each of the {pp} pipeline stages" if pp > 1 else "")
            problems.add("ep", f"{request.ep} has to divide {of_a_stage} and be at most the model's {a.experts} experts.")
    _check_pools(request, dp, problems)
    step = int(job.micro_batch or 1) * dp
    if job.global_batch and job.global_batch % step:
        problems.add("global_batch", f"{job.global_batch:.0f} is not a multiple of micro_batch·dp = {step}.")
    problems.raise_if_any()


def check_slices(gpu: Gpu, job: Job, joined: int, dp: int) -> None:
    """Raise `UserError` for a job over several slices, unless they hold replicas of a service: a process sees one slice only."""
    if split_name(gpu.name) is not None and (joined > 1 or (job.train and dp > 1)):
        message = (
            f"{joined * dp} slices cannot share one model: a process sees one slice (MIG User Guide); replicas of a service can."
        )
        raise UserError(Problem("", "gpus", message))


def _check_pools(request: Request, dp: int, problems: Problems) -> None:
    """Check that a disaggregated service has at least one replica for prompts and one for answers."""
    prefill = request.prefill_replicas
    if prefill is not None and not request.disaggregated:
        problems.add("prefill_replicas", f"{prefill} is not accepted; only disaggregated services have them.")
    elif request.disaggregated and dp < 2:
        problems.add("dp", f"{dp} is not accepted; a disaggregated service has at least 2 replicas, for prompts and for answers.")
    elif prefill is not None and not 1 <= prefill < dp:
        problems.add("prefill_replicas", f"{prefill} is not accepted; it has to be at least 1 and below dp = {dp}.")


def check_links(link: str | float | None, fabric: str | float | None) -> None:
    """Raise `UserError` for a link or fabric that is neither a known name nor a positive rate in bytes/s."""
    problems = Problems()
    for key, value, names in (("link", link, LINKS), ("fabric", fabric, FABRICS)):
        if isinstance(value, str) and value not in names:
            problems.add(
                key, f"{value!r} is not accepted; it has to be {' or '.join(names)}, or bytes/s.", nearest_names(value, names)
            )
    problems.raise_if_any()
