"""`gpu-planner bench --emit`: a job that measures GPUs elsewhere and brings the results back as one JSON file."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Literal, get_args

import click
import msgspec

from planner.cli.emit import frames, manifests
from planner.cli.emit.frames import accelerators, site_name, sky_names
from planner.cli.exits import ExitCode
from planner.cli.terminal.streams import say
from planner.errors import Problem, UserError
from planner.paths import DEFAULT_PRESET
from planner.session import Session

Form = Literal["sky", "slurm", "docker", "kubernetes", "jobset", "kueue", "ray"]
FORMS: tuple[Form, ...] = get_args(Form)
RESULT = "gpu-planner-result.json"
LIMIT_MIN = 30
"""Time limit of a job in minutes: installation, ten minutes of the standard suite, and a margin."""
PYTHON = "3.12"
IMAGE = "gpu-planner-bench"
NAME = "gpu-planner"


class Job(msgspec.Struct, frozen=True):
    """A benchmark job."""

    gpus: tuple[str, ...]
    """Canonical names of GPUs, in order of preference."""
    suite: str
    model: str | None = None
    count: int = 1
    """GPUs of each machine; with two or more, collectives are measured too."""
    nodes: int = 1
    """Machines of the job; with two or more, communication between them is measured."""
    vendor: str = "NVIDIA"
    products: tuple[str, ...] = ()
    """Names of `gpus` in their drivers."""

    @property
    def bench(self) -> str:
        """Shell command that measures."""
        words = ["gpu-planner", "--state", "$STATE", "bench", "--suite", self.suite, "--device", "cuda:0"]
        words += ["--model", shlex.quote(self.model)] if self.model else []
        line = " ".join(['"$STATE"' if word == "$STATE" else word for word in words])
        return frames.torchrun(self.count, f"--no-python {line}") if self.nodes > 1 else line

    @property
    def amount(self) -> str:
        """Description of what is measured, such as 'L40S, H100'."""
        names = ", ".join(self.gpus)
        return names if self.nodes == 1 else f"communication between {self.nodes} nodes of {self.count} × {names}"


def written(form: Form, job: Job) -> str:
    """Text of the job in `form`; raises `UserError` for a GPU unknown to SkyPilot, and for several nodes in a form for one machine."""
    forms = {"sky": _sky, "slurm": _slurm, "docker": _docker, "ray": _ray}
    return forms[form](job) if form in forms else _kubernetes(job, form)


def _measuring(job: Job, export: str) -> list[str]:
    """Lines of shell that measure and then export the results on the first node, even if the suite was cut short."""
    keep = f'gpu-planner --state "$STATE" measurements export{export}'
    head = [f'if [ "$NODE_RANK" = 0 ]; then {keep}; fi'] if job.nodes > 1 else [keep]
    return ['STATE="$(mktemp -d)"', f"{job.bench} || true", *head]


def _sky(job: Job) -> str:
    names = accelerators(job.gpus)
    several = " ".join(names)
    machines = "Machines stop themselves after they have" if job.nodes > 1 else "The machine stops itself after it has"
    head = [
        f"# Measures {job.amount} on rented machines, one after the other, and brings the results back.",
        "# Save it as gpu-planner.yaml in a clone of gpu-planner, then:",
        "#",
        f"#   for gpu in {several}; do",
        '#     name="gpu-planner-$(echo "$gpu" | tr "[:upper:]" "[:lower:]")"',
        f'#     sky launch --yes --cluster "$name" --gpus "$gpu:{job.count}" gpu-planner.yaml &&',
        f'#     scp "$name:{RESULT}" "$name.json" && gpu-planner measurements import "$name.json"',
        '#     sky down --yes "$name"',
        "#   done",
        "#",
        f"# {machines} been idle for ten minutes, whatever happens to this terminal.",
    ]
    return frames.sky_task(
        head,
        frames.Machines(NAME, job.nodes, job.count),
        names[0],
        top=["workdir: ."],
        resources=["disk_size: 64"],
        more_resources=["autostop:", "  idle_minutes: 10", "  down: true"],
        variable="GPU_PLANNER: '.[bench]'",
        venv="gpu-planner-venv",
        setup=["python3 -m venv ~/gpu-planner-venv", '~/gpu-planner-venv/bin/pip install --quiet "$GPU_PLANNER"'],
        lines=_measuring(job, f" --out ~/{RESULT}"),
    )


def _slurm(job: Job) -> str:
    head = [
        f"# Measures {job.amount} on a cluster. The name of a GPU depends on your site:",
        *(f"#   sbatch --gres=gpu:{site_name(name)}:{job.count} gpu-planner.sbatch   # {name}" for name in job.gpus),
        "# Each job leaves gpu-planner-JOBID.json where it was submitted: gpu-planner measurements import gpu-planner-*.json",
    ]
    return frames.slurm_script(
        head,
        frames.Machines(NAME, job.nodes, job.count),
        f"00:{LIMIT_MIN}:00",
        begin=[
            "# What pip installs: a clone (this folder), an archive or a URL. On nodes without a network, install it into VENV beforehand.",
            'GPU_PLANNER="${GPU_PLANNER:-.[bench]}"',
            'VENV="${VENV:-$HOME/.cache/gpu-planner-venv}"',
        ],
        missing='! -x "$VENV/bin/gpu-planner"',
        install=['python3 -m venv "$VENV"', '"$VENV/bin/pip" install --quiet "$GPU_PLANNER"'],
        lines=_measuring(job, ' --out "${SLURM_SUBMIT_DIR:-.}/gpu-planner-${SLURM_JOB_ID:-0}.json"'),
    )


def _docker(job: Job) -> str:
    if job.nodes > 1:
        only = "a Dockerfile is for one machine; sky, slurm and kubernetes write jobs over several nodes."
        raise UserError(Problem("--emit", "docker", only))
    steps = "; ".join(_measuring(job, f" --out /out/{RESULT}"))
    lines = [
        f"# Measures the GPU of the machine it runs on ({', '.join(job.gpus)} were asked for). In a clone of gpu-planner:",
        f"#   docker build --file gpu-planner.Dockerfile --tag {IMAGE} .",
        f'#   docker run --rm --gpus all --shm-size 1g --volume "$PWD:/out" {IMAGE}',
        f"#   gpu-planner measurements import {RESULT}",
        f"FROM python:{PYTHON}-slim",
        "WORKDIR /src",
        "COPY . .",
        "RUN pip install --no-cache-dir '.[bench]'",
        "WORKDIR /",
        "VOLUME /out",
        f'CMD ["sh", "-c", {json.dumps(steps)}]',
    ]
    return frames.lines_text(lines)


def _ray(job: Job) -> str:
    """A job for a Ray cluster (docs.ray.io/en/latest/cluster/running-applications/job-submission, read 2026-11-22)."""
    if job.nodes > 1:
        only = "a job of Ray starts on one machine; sky, slurm, kubernetes and jobset write jobs over several nodes."
        raise UserError(Problem("--emit", "ray", only))
    steps = "; ".join(_measuring(job, ""))
    environment = json.dumps({"working_dir": ".", "pip": [".[bench]"], "excludes": [".git", ".venv"]})
    lines = [
        "#!/bin/bash",
        f"# Measures {job.amount} on a Ray cluster. In a clone of gpu-planner, with RAY_ADDRESS set to the cluster's:",
        "#   bash gpu-planner.ray.sh",
        f"#   gpu-planner measurements import {RESULT}",
        "# GPU_TYPE is a label of ray.util.accelerators, such as H100; without it any GPU of the cluster is measured.",
        "set -euo pipefail",
        'RESOURCES="{}"; if [ -n "${GPU_TYPE:-}" ]; then RESOURCES="{\\"accelerator_type:$GPU_TYPE\\": 0.001}"; fi',
        f'ray job submit --entrypoint-num-gpus {job.count} --entrypoint-resources "$RESOURCES" \\',
        f"  --runtime-env-json {shlex.quote(environment)} -- bash -c {shlex.quote(steps)} \\",
        f"  | sed -n '/^{{$/,/^}}$/p' > {RESULT}",
    ]
    return frames.lines_text(lines)


def _kubernetes(job: Job, form: Form) -> str:
    """An Indexed Job, a JobSet, or a Job queued by Kueue, with one pod per node, of which the first prints the result."""
    script = [*manifests.job_nodes(form, NAME, job.nodes), *_measuring(job, "")]
    pod = manifests.Pod(name=NAME, image=IMAGE, script=script, gpus=job.count, vendor=job.vendor, products=job.products)
    kind, first = ("job", f"job-name={NAME}") if form != "jobset" else ("jobset", f"jobset.sigs.k8s.io/jobset-name={NAME}")
    done = "completed" if form == "jobset" else "complete"
    head = [
        f"# Measures {job.amount} in a cluster (Kubernetes 1.28 or later).",
        *([f"# {manifests.NEEDED[form]}"] if form in manifests.NEEDED else []),
        f"# Build the image with gpu-planner bench --emit docker, push it to your registry, and replace {IMAGE} by its name. Then:",
        "#   kubectl apply --filename gpu-planner.k8s.yaml",
        f"#   kubectl wait --for=condition={done} --timeout={LIMIT_MIN}m {kind}/{NAME}",
        f"#   kubectl logs --tail=-1 --selector {first},batch.kubernetes.io/job-completion-index=0 | sed -n '/^{{$/,$p' > {RESULT}",
        f"#   gpu-planner measurements import {RESULT} && kubectl delete --filename gpu-planner.k8s.yaml",
        *([frames.ADAPTERS] if job.nodes > 1 else []),
    ]
    objects = manifests.job_objects(form, pod, job.nodes, limit_s=LIMIT_MIN * 60)
    return frames.lines_text(head) + manifests.text_of(objects)


FIRST_GPUS = 3
"""Number of GPUs that are measured if none is named: the best ones of the plan."""


def suite_elsewhere(chosen: str | None, *, over: bool) -> str:
    """Suite of a job for other machines; `over` several nodes only `collectives` is possible, others raise `UsageError`."""
    if over and chosen not in (None, "collectives"):
        raise click.UsageError(f"--nodes measures communication between nodes: it needs the suite collectives, not {chosen}.")
    return chosen or ("collectives" if over else "standard")


def write_job(
    session: Session, form: Form, suite: str, gpus: tuple[str, ...], preset: str | None, model: str | None, spread: tuple[int, int]
) -> int:
    """Write a job for the named GPUs, or the best ones of the plan, to stdout; `spread`: (GPUs of a node, nodes)."""
    if model is not None:
        session.architecture(model)
    named = [session.gpus.find(name).name for name in gpus]
    if not named:
        found = session.plan(session.presets.load(preset or DEFAULT_PRESET).workload, levers=False)
        rented = [row.gpu for row in found.rows if row.rank and not row.here]
        named = [name for name in dict.fromkeys(rented) if form != "sky" or name in sky_names()][:FIRST_GPUS]
    if not named:
        say("nothing in the plan to rent: name a GPU with --gpu")
        return ExitCode.NOTHING_FOUND
    parts = [session.gpus.find(name) for name in named]
    like = [part for part in parts if part.vendor == parts[0].vendor] if form in {"kubernetes", "jobset", "kueue"} else parts
    if len(like) < len(parts):
        say(f"left out, of another vendor than {parts[0].name}: {', '.join(p.name for p in parts if p not in like)}")
    drivers = tuple(name for part in like for name in part.nvml_names)
    job = Job(tuple(part.name for part in like), suite, model, *spread, vendor=parts[0].vendor, products=drivers)
    sys.stdout.write(written(form, job))
    return ExitCode.ANSWERED
