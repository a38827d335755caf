"""`gpu-planner bench --emit`: a job that measures GPUs elsewhere and brings the results back as one JSON file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from planner.errors import Problem, UserError

Form = Literal["sky", "slurm", "docker"]
FORMS: tuple[Form, ...] = ("sky", "slurm", "docker")
SKY_NAMES = {
    "A10": "A10",
    "A10G": "A10G",
    "A100 40GB PCIe": "A100",
    "A100 40GB SXM": "A100",
    "A100 80GB PCIe": "A100-80GB",
    "A100 80GB SXM": "A100-80GB-SXM",
    "A16 (per GPU)": "A16",
    "A30": "A30",
    "A40": "A40",
    "B200 SXM": "B200",
    "B300 SXM": "B300",
    "GB200": "GB200",
    "GB300": "GB300",
    "GH200 96GB": "GH200",
    "H100 NVL": "H100-NVL",
    "H100 PCIe": "H100",
    "H100 SXM5 80GB": "H100",
    "H200 NVL": "H200-NVL",
    "H200 SXM": "H200",
    "L4": "L4",
    "L40": "L40",
    "L40S": "L40S",
    "MI300X": "MI300X",
    "P100 PCIe 16GB": "P100",
    "P100 SXM2 16GB": "P100",
    "P40": "P40",
    "RTX 3080 10GB": "RTX3080",
    "RTX 3090": "RTX3090",
    "RTX 4080": "RTX4080",
    "RTX 4090": "RTX4090",
    "RTX 5080": "RTX5080",
    "RTX 5090": "RTX5090",
    "RTX 6000 Ada": "RTX6000-Ada",
    "RTX A4000": "A4000",
    "RTX A5000": "A5000",
    "RTX A6000": "A6000",
    "RTX PRO 6000 Blackwell Server": "RTXPRO6000",
    "T4": "T4",
    "V100 PCIe 16GB": "V100",
    "V100 PCIe 32GB": "V100-32GB",
    "V100 SXM2 16GB": "V100",
    "V100 SXM2 32GB": "V100-32GB",
}
"""Canonical name -> accelerator of SkyPilot's catalogues (`sky gpus list --all`, docs.skypilot.co/en/stable/compute/gpus.html, and
the names its release 0.14 knows). One of theirs may stand for several forms of a part: what was rented is told by its driver."""
RESULT = "gpu-planner-result.json"
LIMIT_MIN = 30
"""A job ends itself: installing, ten minutes of the standard suite, and some air."""
PYTHON = "3.12"


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure there."""

    gpus: tuple[str, ...]
    """Canonical names, the most wanted first."""
    suite: str
    model: str | None = None
    count: int = 1
    """GPUs of one machine; two or more measure collectives too."""

    @property
    def bench(self) -> str:
        """The command that measures, as a line of shell."""
        words = ["gpu-planner", "--state", "$STATE", "bench", "--suite", self.suite, "--device", "cuda:0"]
        words += ["--model", shlex.quote(self.model)] if self.model else []
        return " ".join(['"$STATE"' if word == "$STATE" else word for word in words])


def written(form: Form, job: Job) -> str:
    """The job as a file of `form`; raises `UserError` for a GPU that SkyPilot has no name for."""
    return {"sky": _sky, "slurm": _slurm, "docker": _docker}[form](job)


def accelerators(gpus: Sequence[str]) -> tuple[str, ...]:
    """SkyPilot's names, each once; raises `UserError` with every GPU that has none."""
    missing = [name for name in gpus if name not in SKY_NAMES]
    if missing:
        have = ", ".join(SKY_NAMES)
        raise UserError([Problem("--gpu", "", f"SkyPilot has no name for {name}; it has one for {have}.") for name in missing])
    return tuple(dict.fromkeys(SKY_NAMES[name] for name in gpus))


def _measuring(job: Job, result: str) -> list[str]:
    """Lines of shell that leave the result at `result`, also when the suite was cut short."""
    return [
        'STATE="$(mktemp -d)"',
        f"{job.bench} || true",
        f'gpu-planner --state "$STATE" measurements export --out {result}',
    ]


def _sky(job: Job) -> str:
    names = accelerators(job.gpus)
    several = " ".join(names)
    lines = [
        f"# Measures {', '.join(job.gpus)} on rented machines, one after the other, and brings the results back.",
        "# Save it as gpu-planner.yaml in a clone of gpu-planner, then:",
        "#",
        f"#   for gpu in {several}; do",
        '#     name="gpu-planner-$(echo "$gpu" | tr "[:upper:]" "[:lower:]")"',
        f'#     sky launch --yes --cluster "$name" --gpus "$gpu:{job.count}" gpu-planner.yaml &&',
        f'#     scp "$name:{RESULT}" "$name.json" && gpu-planner measurements import "$name.json"',
        '#     sky down --yes "$name"',
        "#   done",
        "#",
        "# The machine stops itself when it has been idle for ten minutes, whatever happens to this terminal.",
        "name: gpu-planner",
        "workdir: .",
        "num_nodes: 1",
        "resources:",
        f"  accelerators: {{{names[0]}: {job.count}}}",
        "  disk_size: 64",
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
        *(f"  {line}" for line in _measuring(job, f"~/{RESULT}")),
    ]
    return "\n".join(lines) + "\n"


def _slurm(job: Job) -> str:
    lines = [
        "#!/bin/bash",
        f"# Measures {', '.join(job.gpus)} on a cluster. What your site calls them is its own:",
        *(f"#   sbatch --gres=gpu:{_site_name(name)}:{job.count} gpu-planner.sbatch   # {name}" for name in job.gpus),
        "# Each job leaves gpu-planner-JOBID.json where it was submitted: gpu-planner measurements import gpu-planner-*.json",
        "#SBATCH --job-name=gpu-planner",
        f"#SBATCH --gres=gpu:{job.count}",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=32G",
        f"#SBATCH --time=00:{LIMIT_MIN}:00",
        "#SBATCH --output=gpu-planner-%j.log",
        "set -eu",
        "# What pip installs: a clone (this folder), an archive or a URL. On nodes without a network, install it into VENV beforehand.",
        'GPU_PLANNER="${GPU_PLANNER:-.[bench]}"',
        'VENV="${VENV:-$HOME/.cache/gpu-planner-venv}"',
        'if [ ! -x "$VENV/bin/gpu-planner" ]; then',
        '  python3 -m venv "$VENV"',
        '  "$VENV/bin/pip" install --quiet "$GPU_PLANNER"',
        "fi",
        'export PATH="$VENV/bin:$PATH"',
        *_measuring(job, '"${SLURM_SUBMIT_DIR:-.}/gpu-planner-${SLURM_JOB_ID:-0}.json"'),
    ]
    return "\n".join(lines) + "\n"


def _docker(job: Job) -> str:
    steps = "; ".join(_measuring(job, f"/out/{RESULT}"))
    lines = [
        f"# Measures the GPU of the machine it runs on ({', '.join(job.gpus)} were asked for). In a clone of gpu-planner:",
        "#   docker build --file gpu-planner.Dockerfile --tag gpu-planner-bench .",
        '#   docker run --rm --gpus all --shm-size 1g --volume "$PWD:/out" gpu-planner-bench',
        f"#   gpu-planner measurements import {RESULT}",
        f"FROM python:{PYTHON}-slim",
        "WORKDIR /src",
        "COPY . .",
        "RUN pip install --no-cache-dir '.[bench]'",
        "WORKDIR /",
        "VOLUME /out",
        f'CMD ["sh", "-c", {_json_text(steps)}]',
    ]
    return "\n".join(lines) + "\n"


def _json_text(text: str) -> str:
    import json

    return json.dumps(text)


def _site_name(name: str) -> str:
    """A guess at what a cluster calls it: 'H100 SXM5 80GB' -> 'h100'."""
    first = name.split(maxsplit=1)[0].lower()
    return first if first not in {"rtx", "quadro"} else "".join(name.lower().split()[:2])
