"""`gpu-planner bench --emit`: a job that measures GPUs elsewhere and brings the results back as one JSON file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from planner.cli.emit import manifests, nodes, operators
from planner.cli.emit.names import accelerators, site_name
from planner.errors import Problem, UserError

Form = Literal["sky", "slurm", "docker", "kubernetes", "jobset", "kueue", "ray"]
FORMS: tuple[Form, ...] = get_args(Form)
RESULT = "gpu-planner-result.json"
LIMIT_MIN = 30
"""A job ends itself: installing, ten minutes of the standard suite, and some air."""
PYTHON = "3.12"
IMAGE = "gpu-planner-bench"
NAME = "gpu-planner"


class Job(msgspec.Struct, frozen=True):
    """A job that measures."""

    gpus: tuple[str, ...]
    """Canonical names, the most wanted first."""
    suite: str
    model: str | None = None
    count: int = 1
    """GPUs of a machine; two or more measure collectives too."""
    nodes: int = 1
    """Machines of one job; two or more measure what they do together."""
    vendor: str = "NVIDIA"
    products: tuple[str, ...] = ()
    """Names that drivers give `gpus`."""

    @property
    def bench(self) -> str:
        """The command that measures, as a line of shell."""
        words = ["gpu-planner", "--state", "$STATE", "bench", "--suite", self.suite, "--device", "cuda:0"]
        words += ["--model", shlex.quote(self.model)] if self.model else []
        line = " ".join(['"$STATE"' if word == "$STATE" else word for word in words])
        return nodes.torchrun(self.count, f"--no-python {line}") if self.nodes > 1 else line

    @property
    def amount(self) -> str:
        """'2 nodes of 8 × L40S, H100', for people."""
        names = ", ".join(self.gpus)
        return names if self.nodes == 1 else f"what {self.nodes} nodes of {self.count} × {names} do together"


def written(form: Form, job: Job) -> str:
    """The job as a file of `form`; raises `UserError` for a GPU that SkyPilot has no name for, and for nodes of an image."""
    forms = {"sky": _sky, "slurm": _slurm, "docker": _docker, "ray": _ray}
    return forms[form](job) if form in forms else _kubernetes(job, form)


def _measuring(job: Job, export: str) -> list[str]:
    """Lines of shell that end with `export`, of the first node, also when the suite was cut short."""
    keep = f'gpu-planner --state "$STATE" measurements export{export}'
    head = [f'if [ "$NODE_RANK" = 0 ]; then {keep}; fi'] if job.nodes > 1 else [keep]
    return ['STATE="$(mktemp -d)"', f"{job.bench} || true", *head]


def _sky(job: Job) -> str:
    names = accelerators(job.gpus)
    several = " ".join(names)
    machines = "Machines stop themselves when they have" if job.nodes > 1 else "The machine stops itself when it has"
    lines = [
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
        "name: gpu-planner",
        "workdir: .",
        f"num_nodes: {job.nodes}",
        "resources:",
        f"  accelerators: {{{names[0]}: {job.count}}}",
        "  disk_size: 64",
        *(["  # network_tier: best   # adapters of the GPUs' own, on the clouds that have them"] if job.nodes > 1 else []),
        "  autostop:",
        "    idle_minutes: 10",
        "    down: true",
        "envs:",
        "  GPU_PLANNER: '.[bench]'",
        "setup: |",
        "  set -e",
        "  python3 -m venv ~/gpu-planner-venv",
        '  ~/gpu-planner-venv/bin/pip install --quiet "$GPU_PLANNER"',
        "run: |",
        "  set -e",
        '  export PATH="$HOME/gpu-planner-venv/bin:$PATH"',
        *(f"  {line}" for line in (nodes.SKY if job.nodes > 1 else ())),
        *(f"  {line}" for line in _measuring(job, f" --out ~/{RESULT}")),
    ]
    return manifests.lines_text(lines)


def _slurm(job: Job) -> str:
    result = ' --out "${SLURM_SUBMIT_DIR:-.}/gpu-planner-${SLURM_JOB_ID:-0}.json"'
    lines = [
        "#!/bin/bash",
        f"# Measures {job.amount} on a cluster. What your site calls them is its own:",
        *(f"#   sbatch --gres=gpu:{site_name(name)}:{job.count} gpu-planner.sbatch   # {name}" for name in job.gpus),
        "# Each job leaves gpu-planner-JOBID.json where it was submitted: gpu-planner measurements import gpu-planner-*.json",
        *slurm_directives(NAME, job.count, job.nodes, f"00:{LIMIT_MIN}:00"),
        "set -eu",
        "# What pip installs: a clone (this folder), an archive or a URL. On nodes without a network, install it into VENV beforehand.",
        'GPU_PLANNER="${GPU_PLANNER:-.[bench]}"',
        'VENV="${VENV:-$HOME/.cache/gpu-planner-venv}"',
        'if [ ! -x "$VENV/bin/gpu-planner" ]; then',
        '  python3 -m venv "$VENV"',
        '  "$VENV/bin/pip" install --quiet "$GPU_PLANNER"',
        "fi",
        'export PATH="$VENV/bin:$PATH"',
        *(on_every_node(_measuring(job, result)) if job.nodes > 1 else _measuring(job, result)),
    ]
    return manifests.lines_text(lines)


def slurm_directives(name: str, gpus: int, count: int, limit: str | None) -> list[str]:
    """The directives of a job on `count` nodes of `gpus` GPUs, one task a node; `limit`: its time, None for the site's own."""
    return [
        f"#SBATCH --job-name={name}",
        f"#SBATCH --gres=gpu:{gpus}",
        f"#SBATCH --nodes={count}",
        *([f"#SBATCH --ntasks={count}", "#SBATCH --ntasks-per-node=1"] if count > 1 else ["#SBATCH --ntasks=1"]),
        f"#SBATCH --cpus-per-task={max(8, 4 * gpus)}",
        f"#SBATCH --mem={max(32, 16 * gpus)}G",
        *([f"#SBATCH --time={limit}"] if limit else []),
        f"#SBATCH --output={name}-%j.log",
    ]


def on_every_node(lines: Sequence[str]) -> list[str]:
    """`lines` of shell on each node of the job."""
    return [
        *nodes.SLURM_JOB,
        "read -r -d '' NODE <<'EOF' || true",
        *nodes.SLURM_NODE,
        *lines,
        "EOF",
        # srun asks for as many cores as the job has, which it does not do by itself since Slurm 22.05
        'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" bash -euc "$NODE"',
    ]


def _docker(job: Job) -> str:
    if job.nodes > 1:
        only = "a Dockerfile is of one machine; sky, slurm and kubernetes write jobs over several nodes."
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
    return manifests.lines_text(lines)


def _ray(job: Job) -> str:
    """A job for a cluster of Ray (docs.ray.io/en/latest/cluster/running-applications/job-submission, read 2026-11-22)."""
    if job.nodes > 1:
        only = "a job of Ray starts on one machine; sky, slurm, kubernetes and jobset write jobs over several nodes."
        raise UserError(Problem("--emit", "ray", only))
    steps = "; ".join(_measuring(job, ""))
    environment = json.dumps({"working_dir": ".", "pip": [".[bench]"], "excludes": [".git", ".venv"]})
    lines = [
        "#!/bin/bash",
        f"# Measures {job.amount} on a cluster of Ray. In a clone of gpu-planner, with RAY_ADDRESS set to the cluster's:",
        "#   bash gpu-planner.ray.sh",
        f"#   gpu-planner measurements import {RESULT}",
        "# GPU_TYPE is a label of ray.util.accelerators, such as H100; without it any GPU of the cluster is measured.",
        "set -euo pipefail",
        'RESOURCES="{}"; if [ -n "${GPU_TYPE:-}" ]; then RESOURCES="{\\"accelerator_type:$GPU_TYPE\\": 0.001}"; fi',
        f'ray job submit --entrypoint-num-gpus {job.count} --entrypoint-resources "$RESOURCES" \\',
        f"  --runtime-env-json {shlex.quote(environment)} -- bash -c {shlex.quote(steps)} \\",
        f"  | sed -n '/^{{$/,/^}}$/p' > {RESULT}",
    ]
    return manifests.lines_text(lines)


def _kubernetes(job: Job, form: Form) -> str:
    """An Indexed Job, a JobSet, or a Job that Kueue admits: a pod a node, of which the first prints the result."""
    several = job.nodes > 1
    if form == "jobset":
        who = operators.jobset_nodes(NAME, job.nodes) if several else ()
    else:
        who = nodes.kubernetes(job.nodes, nodes.JOB_INDEX, f"{NAME}-0.{NAME}") if several else ()
    script = [*who, *_measuring(job, "")]
    pod = manifests.Pod(
        name=NAME, image=IMAGE, script=script, gpus=job.count, vendor=job.vendor, products=job.products, environment={}
    )
    kind, first = ("job", f"job-name={NAME}") if form != "jobset" else ("jobset", f"jobset.sigs.k8s.io/jobset-name={NAME}")
    done = "completed" if form == "jobset" else "complete"
    head = [
        f"# Measures {job.amount} in a cluster (Kubernetes 1.28 or later).",
        *([f"# {operators.NEEDED[form]}"] if form in operators.NEEDED else []),
        f"# Its image is that of gpu-planner bench --emit docker, in a registry of yours: put its name for {IMAGE}. Then:",
        "#   kubectl apply --filename gpu-planner.k8s.yaml",
        f"#   kubectl wait --for=condition={done} --timeout={LIMIT_MIN}m {kind}/{NAME}",
        f"#   kubectl logs --tail=-1 --selector {first},batch.kubernetes.io/job-completion-index=0 | sed -n '/^{{$/,$p' > {RESULT}",
        f"#   gpu-planner measurements import {RESULT} && kubectl delete --filename gpu-planner.k8s.yaml",
        *(["# Adapters of the GPUs reach a pod by their own device plugin: add its resource to the limits."] if several else []),
    ]
    if form == "jobset":
        return manifests.lines_text(head) + manifests.text_of([operators.jobset(pod, job.nodes, limit_s=LIMIT_MIN * 60)])
    found = manifests.indexed_job(pod, job.nodes, limit_s=LIMIT_MIN * 60)
    service = [manifests.headless(NAME, {"job-name": NAME})] if several else []
    return manifests.lines_text(head) + manifests.text_of([*service, operators.queued(found) if form == "kueue" else found])
