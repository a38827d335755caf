"""`gpu-planner plan --emit`: the first row of a plan as a job: a training program under torchrun, or a service."""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from planner.cli.emit import Form, frames, manifests
from planner.cli.emit.frames import accelerators, site_name
from planner.cli.emit.services import SERVICES, spread_of
from planner.engine.answers.plan import OfferAnswer, PlanRow
from planner.errors import Problem, UserError
from planner.present.prices import offer_sentence
from planner.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.engine.answers.answer import LayoutAnswer
    from planner.engine.job.job import Job
    from planner.hardware.catalogue.gpus import Gpu

TRAINING_IMAGE = "pytorch/pytorch:latest"
PROGRAM = '"${TRAIN:-train.py}"'


class Running(msgspec.Struct, frozen=True):
    """A job: its machines, and the commands that each of them runs."""

    name: str
    """Name of the job: letters, digits and dashes."""
    comments: tuple[str, ...]
    """Lines that describe the job to its reader."""
    gpu: Gpu
    gpus: int
    """GPUs of one machine."""
    nodes: int
    """Machines over which one copy of the job is spread."""
    replicas: int
    """Copies of the job; several are behind a load balancer."""
    lines: tuple[str, ...]
    """Lines of shell for each machine; several find each other by NODES, NODE_RANK, HEAD and PORT."""
    installed: tuple[str, ...]
    """Packages that pip installs."""
    image: str
    server: str = ""
    """Engine of a service."""
    port: int | None = None
    """Port of a service; None for training."""
    limit_s: float | None = None
    offer: OfferAnswer | None = None
    """Offer whose price the plan uses."""

    @property
    def head(self) -> list[str]:
        """Description as comments."""
        return [f"# {line}" for line in self.comments]

    @property
    def rented_head(self) -> list[str]:
        """Description with the offer, for tools that rent the machines."""
        return [*self.head, *([f"# {one_line(offer_sentence(self.offer))}"] if self.offer else [])]

    @property
    def spot(self) -> bool:
        """True if the plan uses a spot price, so the machines may be interrupted."""
        return self.offer is not None and self.offer.market == "spot"

    @property
    def machines(self) -> frames.Machines:
        """Machines of one copy of the job."""
        return frames.Machines(self.name, self.nodes, self.gpus)


def written(form: Form, plan_name: str, row: PlanRow, job: Job, gpu: Gpu, hub_id: str) -> str:
    """Text of the job of `row` in `form`; raises `UserError` that lists what cannot be expressed. `hub_id`: '' if the model has none."""
    name = _job_name(plan_name)
    assert row.answer.layout is not None
    running = _training(name, row, job, gpu) if job.train else _service(name, row, job, gpu, hub_id, groups=form == "lws")
    if form in {"jobset", "kueue"} and running.port is not None:
        raise _not_written(f"{form} is for jobs that end, and this is a service; kubernetes, lws and kserve are for services")
    if form in {"lws", "kserve"} and running.port is None:
        raise _not_written(f"{form} is for services, and this is training; kubernetes, jobset and kueue are for jobs that end")
    running = msgspec.structs.replace(running, offer=row.offer)
    forms = {"sky": _sky, "slurm": _slurm, "dstack": _dstack}
    return forms[form](running) if form in forms else _kubernetes(running, form)


def _job_name(plan_name: str) -> str:
    """A name that all tools accept: a letter, then lower-case letters, digits and dashes."""
    plain = re.sub(r"[^a-z0-9]+", "-", plan_name.casefold()).strip("-")[:40].strip("-")
    return plain if plain[:1].isalpha() else f"plan-{plain}".strip("-")


def _heading(name: str, row: PlanRow, gpu: Gpu) -> tuple[str, ...]:
    layout = row.answer.layout
    assert layout is not None
    machines = f"{layout.nodes} nodes of {layout.gpus_per_node}" if layout.nodes > 1 else f"{layout.gpus}"
    return (f"{name}: rank {row.rank} of the plan, {machines} × {gpu.name}, layout {layout.text}.",)


def _training(name: str, row: PlanRow, job: Job, gpu: Gpu) -> Running:
    layout = row.answer.layout
    assert layout is not None
    per_node = layout.gpus // layout.nodes
    if per_node * layout.nodes != layout.gpus:
        raise _not_written(f"{layout.gpus} GPUs do not fill {layout.nodes} nodes evenly")
    start = (
        frames.torchrun(per_node, PROGRAM) if layout.nodes > 1 else f"torchrun --standalone --nproc-per-node {per_node} {PROGRAM}"
    )
    comments = (
        *_heading(name, row, gpu),
        "TRAIN names your program (train.py). GPU_PLANNER_LAYOUT contains the settings that it has to use for the plan to be valid.",
    )
    wanted = row.job_h.high * 3600 if row.job_h else None
    export = f"export GPU_PLANNER_LAYOUT={shlex.quote(_layout_text(layout, job))}"
    lines = (export, start)
    return Running(name, comments, gpu, per_node, layout.nodes, 1, lines, ("torch",), TRAINING_IMAGE, limit_s=wanted)


def _layout_text(layout: LayoutAnswer, job: Job) -> str:
    degrees = {name: getattr(layout, name) for name in ("tp", "pp", "dp", "cp", "ep", "virtual_stages")}
    steps = {"micro_batch": layout.micro_batch, "global_batch": int(job.global_batch) or None, "sequence": int(job.sequence)}
    ways = {"sharding": layout.sharding, "checkpointing": layout.checkpointing, "dtype": job.dtype, "weights": job.stored}
    return json.dumps(degrees | steps | ways | _data(job))


def _data(job: Job) -> dict[str, Any]:
    """Settings of the workload, if it has them: training state, adapters, packing of documents, and tokens generated before each update."""
    w = job.workload
    state = {name: getattr(w, name) or job.assumed.get(name) for name in ("recipe", "optimizer")}
    packing = {"packing": w.packing or job.assumed.get("packing")} if w.document_tokens else {}
    rest = {name: msgspec.to_builtins(given) for name in ("lora", "rollout") if (given := getattr(w, name))}
    return {name: value for name, value in state.items() if value} | packing | rest


def _service(name: str, row: PlanRow, job: Job, gpu: Gpu, hub_id: str, *, groups: bool = False) -> Running:
    layout = row.answer.layout
    assert layout is not None
    service = SERVICES.get(job.engine.name)
    if reasons := [*_left_out(job, layout), *(service.left_out(job, layout, hub_id) if service else ())]:
        raise _not_written("; ".join(reasons))
    assert service is not None  # ensured by `_left_out`
    spread = spread_of(job, layout, groups=groups)
    if spread is None:
        replica = layout.tp * layout.pp
        raise _not_written(
            f"{layout.dp} replicas of {replica} GPUs each, which span several nodes or do not fill their nodes; "
            "only one replica can span nodes (targets or max_gpus that leave dp = 1); lws can have several"
        )
    comments = (*_heading(name, row, gpu), *service.notes(job))
    lines = tuple(service.lines(job, row, spread, hub_id))
    image = service.images.get(gpu.vendor, "")
    installed = (service.installed,) if gpu.vendor == "NVIDIA" else ()
    server = job.engine.label
    return Running(
        name, comments, gpu, spread.gpus, spread.nodes, spread.replicas, lines, installed, image, server=server, port=service.port
    )


def _left_out(job: Job, layout: LayoutAnswer) -> Iterator[str]:
    """Reasons why a service cannot be written as a job, without full stops."""
    asked = job.workload
    if job.task != "serve":
        yield f"the task {job.task!r} cannot be written as a job; train, finetune and serve can"
    if job.engine.name not in SERVICES:
        yield f"the engine is {job.engine.name}; jobs can be written for {', '.join(SERVICES)}"
    if layout.prefill_replicas:
        yield "replicas that only read prompts cannot be written"
    if asked.companions:
        yield "companions cannot be written"
    if asked.offload not in {None, "none"}:
        yield f"offload = {asked.offload!r} cannot be written"


def _not_written(why: str) -> UserError:
    return UserError(Problem("--emit", "", f"this plan cannot be written as a job: {why}."))


def _sky(run: Running) -> str:
    (accelerator,) = accelerators([run.gpu.name])
    served = run.port is not None
    balanced = served and run.replicas > 1
    start = (
        f"sky serve up --service-name {run.name} {run.name}.yaml"
        if balanced
        else f"sky launch --cluster {run.name} {run.name}.yaml"
    )
    end = f"sky serve down {run.name}" if balanced else f"sky down {run.name}"
    probe = ["service:", "  readiness_probe: /v1/models", f"  replicas: {run.replicas}"] if balanced else []
    head = [
        *run.rented_head,
        f"# Save this as {run.name}.yaml next to the program, then: {start}{' --env HF_TOKEN' if served else ''}",
        f"# The machines cost money until you run: {end}",
    ]
    return frames.sky_task(
        head,
        run.machines,
        accelerator,
        top=[*([] if served else ["workdir: ."]), *probe],
        resources=["disk_size: 512", *([f"ports: {run.port}"] if served else []), *(["use_spot: true"] if run.spot else [])],
        variable="HF_TOKEN: ''" if served else "TRAIN: train.py",
        venv="job-venv",
        setup=_installing(run, "~/job-venv"),
        lines=run.lines,
    )


def _installing(run: Running, folder: str) -> list[str]:
    """Lines of shell that install the packages; raises `UserError` if pip's package does not support the GPU's vendor."""
    if not run.installed:
        raise _not_written(
            f"the pip package of {run.server} is for NVIDIA GPUs, not {run.gpu.vendor}; kubernetes has an image for AMD"
        )
    extra = [f"if [ -f requirements.txt ]; then {folder}/bin/pip install --quiet --requirement requirements.txt; fi"]
    install = f"{folder}/bin/pip install --quiet {shlex.join(run.installed)}"
    return [f"python3 -m venv {folder}", install, *(extra if run.port is None else [])]


def _slurm(run: Running) -> str:
    if run.replicas > 1:
        raise _not_written(f"{run.replicas} replicas need a load balancer, which Slurm does not have; sky and kubernetes have one")
    site = f"# The name of the GPU depends on your site: sbatch --gres=gpu:{site_name(run.gpu.name)}:{run.gpus} {run.name}.sbatch"
    return frames.slurm_script(
        [*run.head, site],
        run.machines,
        _limit(run.limit_s),
        begin=[f'VENV="${{VENV:-$HOME/.cache/{run.name}-venv}}"'],
        missing='! -d "$VENV"',
        install=_installing(run, '"$VENV"'),
        lines=run.lines,
    )


def _limit(seconds: float | None) -> str | None:
    """Time limit for Slurm, rounded up to hours, such as '2-06:00:00'; None for the site's default."""
    if seconds is None or not math.isfinite(seconds):
        return None
    days, hours = divmod(max(1, math.ceil(seconds / 3600)), 24)
    return f"{days}-{hours:02d}:00:00"


def _dstack(run: Running) -> str:
    """A task or a service of dstack (dstack.ai/docs/reference/dstack.yml, read 2026-11-22)."""
    served = run.port is not None
    if served and run.nodes > 1:
        raise _not_written(
            "dstack runs a replica of a service on one machine; sky, slurm, kubernetes and lws can spread it over nodes"
        )
    (accelerator,) = accelerators([run.gpu.name])
    name, _, memory = accelerator.partition("-")
    gpu = f"{name}:{memory}:{run.gpus}" if memory[:1].isdigit() else f"{name}:{run.gpus}"
    way: dict[str, object] = {"image": run.image} if served and run.image else {"python": "3.12"}
    setup = [] if served and run.image else [*_installing(run, "~/job-venv"), 'export PATH="$HOME/job-venv/bin:$PATH"']
    document: dict[str, object] = {"type": "service" if served else "task", "name": run.name, **way}
    document |= {"port": run.port, "replicas": run.replicas} if served else {"nodes": run.nodes}
    document |= {"env": ["HF_TOKEN"] if served else ["TRAIN=train.py"]}
    document |= {"commands": ["\n".join([*setup, *(frames.DSTACK if run.nodes > 1 else ()), *run.lines]) + "\n"]}
    document |= {"spot_policy": "spot"} if run.spot else {}
    document |= {"resources": {"gpu": gpu, "shm_size": "16GB", "disk": "512GB"}}
    head = [
        *run.rented_head,
        f"# dstack apply --file {run.name}.dstack.yml; the machines cost money until you run: dstack stop {run.name}",
    ]
    return frames.lines_text(head) + manifests.text_of([document])


def _kubernetes(run: Running, form: Form = "kubernetes") -> str:
    several, served = run.nodes > 1, run.port is not None
    if served and not run.image:
        raise _not_written(f"no image of {run.server} for GPUs of {run.gpu.vendor} is known")
    if form == "kserve" and several:
        raise _not_written("a KServe predictor is written as one pod; kubernetes and lws can write a service over nodes")
    peers = f"{run.name}-peers" if served else run.name
    pod = manifests.Pod(
        name=run.name,
        image=run.image,
        script=[*_who(run, form, peers), *run.lines],
        gpus=run.gpus,
        vendor=run.gpu.vendor,
        products=run.gpu.nvml_names,
        port=run.port,
        token=served,
    )
    return frames.lines_text(_kubernetes_head(run, form)) + manifests.text_of(_objects(run, pod, peers, form))


def _who(run: Running, form: Form, peers: str) -> Sequence[str]:
    """Lines of shell by which the pods of several nodes find each other."""
    if run.nodes == 1:
        return ()
    if form == "lws":
        return manifests.group_nodes()
    if run.port is None:
        return manifests.job_nodes(form, run.name, run.nodes)
    return frames.kubernetes(run.nodes, '"${HOSTNAME##*-}"', f"{run.name}-0.{peers}")


def _kubernetes_head(run: Running, form: Form) -> list[str]:
    head = [*run.head, *([f"# {manifests.NEEDED[form]}"] if form in manifests.NEEDED else [])]
    head.append(f"# kubectl apply --filename {run.name}.k8s.yaml")
    if run.port is None:
        head.append(f"# The image has to contain the program in its working folder: replace {run.image} by its name.")
    else:
        head.append("# For a model that needs a token: kubectl create secret generic hugging-face --from-literal=token=hf_…")
    if run.nodes > 1:
        head.append(frames.ADAPTERS)
    return head


def _objects(run: Running, pod: manifests.Pod, peers: str, form: Form) -> list[dict[str, object]]:
    if run.port is None:
        return manifests.job_objects(form, pod, run.nodes)
    if form == "lws":
        balanced = manifests.balanced(run.name, manifests.leaders(run.name), run.port)
        return [balanced, manifests.leader_worker_set(pod, run.nodes, run.replicas)]
    if form == "kserve":
        return [manifests.inference_service(pod, run.replicas)]
    if run.nodes > 1:
        first = {"statefulset.kubernetes.io/pod-name": f"{run.name}-0"}
        named = manifests.headless(peers, {"app": run.name})
        return [named, manifests.balanced(run.name, first, run.port), manifests.stateful_set(pod, run.nodes, peers)]
    return [manifests.balanced(run.name, {"app": run.name}, run.port), manifests.deployment(pod, run.replicas)]
