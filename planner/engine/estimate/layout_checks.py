"""Checks of a candidate given in full before its evaluation: degrees, batches and links that contradict each other."""

from __future__ import annotations

from planner.engine.job.job import Job
from planner.engine.records.layout import ZERO_STAGE
from planner.errors import Problem, Problems, UserError, nearest_names
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.mig import split_name
from planner.workload.tasks import Request

LINKS = ("nvlink", "pcie")
FABRICS = ("infiniband", "ethernet")


def check_layout(request: Request, job: Job, *, tp: int, pp: int, dp: int, cp: int) -> None:
    """Raises `UserError` naming every degree or batch that contradicts the others or the model."""
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
            f"{cp} is not accepted; context parallelism is modelled for decoders only, and {a.family} reads it with an encoder.",
        )
    if pp > 1 and job.train and a.source is not None:
        problems.add(
            "pp",
            f"{pp} is not accepted; pipelines are modelled for a single stack only, and {a.family} has an encoder beside its decoder.",
        )
    sharding, most = job.workload.sharding or "none", job.engine.most_pipelined_zero
    if pp > 1 and ZERO_STAGE[sharding] > most:
        problems.add(
            "sharding", f"{sharding!r} is not accepted with pp = {pp}: pipelines of {job.engine.label} take 'zero{most}' at most."
        )
    if (request.ep or 1) > 1:
        if not a.experts:
            problems.add("ep", f"{request.ep} is not accepted; the model has no experts.")
        elif (gpus // pp) % (request.ep or 1) or (request.ep or 1) > a.experts:
            of_a_stage = f"the {gpus // pp} GPUs" + (f" of each of the {pp} pipeline stages" if pp > 1 else "")
            problems.add("ep", f"{request.ep} has to divide {of_a_stage} and be at most the model's {a.experts} experts.")
    _check_pools(request, dp, problems)
    step = int(job.micro_batch or 1) * dp
    if job.global_batch and job.global_batch % step:
        problems.add("global_batch", f"{job.global_batch:.0f} is not a multiple of micro_batch·dp = {step}.")
    problems.raise_if_any()


def check_slices(gpu: Gpu, job: Job, joined: int, dp: int) -> None:
    """Raises `UserError` for a job over several slices, unless they hold replicas of a service: a process sees one slice only."""
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
    """Raises `UserError` for a link or fabric that is neither a known name nor a positive rate in bytes/s."""
    problems = Problems()
    for key, value, names in (("link", link, LINKS), ("fabric", fabric, FABRICS)):
        if isinstance(value, str) and value not in names:
            problems.add(
                key, f"{value!r} is not accepted; it has to be {' or '.join(names)}, or bytes/s.", nearest_names(value, names)
            )
    problems.raise_if_any()
