"""Common parts of job files: SkyPilot, Slurm, shell that sets NODES, NODE_RANK, HEAD and PORT, other tools' names of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from planner.errors import Problem, UserError
from planner.hardware.prices.catalogue import PriceCatalogue
from planner.paths import read_shipped
from planner.text import one_line

PORT = 29500
"""Port on which the first node listens for the others; torchrun's default."""
SKY = (
    'NODES="$SKYPILOT_NUM_NODES"',
    'NODE_RANK="$SKYPILOT_NODE_RANK"',
    'HEAD="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
    f"PORT={PORT}",
)
"""Variables of docs.skypilot.co/en/stable/running-jobs/distributed-jobs.html."""
DSTACK = ('NODES="$DSTACK_NODES_NUM"', 'NODE_RANK="$DSTACK_NODE_RANK"', 'HEAD="$DSTACK_MASTER_NODE_IP"', f"PORT={PORT}")
"""Variables of dstack.ai/docs/concepts/tasks, distributed tasks."""
SLURM_JOB = (
    'HEAD="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
    f'PORT="$(({PORT} + SLURM_JOB_ID % 10000))"',
    "export HEAD PORT",
)
"""Lines that run once, before srun; jobs that share a node get separate ports."""
SLURM_NODE = ('NODES="$SLURM_NNODES"', 'NODE_RANK="$SLURM_NODEID"')
"""Lines that run on each node, under srun."""
JOB_INDEX = '"$JOB_COMPLETION_INDEX"'
"""Variable with the index of a pod of an Indexed Job."""
ADAPTERS = "# Network adapters reach a pod through their own device plugin: add its resource to the limits."


class Machines(msgspec.Struct, frozen=True):
    """Machines of one job."""

    name: str
    """Name of the job."""
    nodes: int
    gpus: int
    """GPUs of one machine."""


def lines_text(lines: Iterable[str]) -> str:
    """Text of a file; line breaks within a line are removed, so that no name can end a comment, a key or a command."""
    return "".join(f"{one_line(line)}\n" for line in lines)


def kubernetes(nodes: int | str, rank: str, head: str) -> tuple[str, ...]:
    """Lines for a pod of Kubernetes, which wait until the first pod has an address; `rank` and `head` are shell expressions."""
    wait = 'until getent hosts "$HEAD" > /dev/null; do sleep 1; done'
    return (f"NODES={nodes}", f"NODE_RANK={rank}", f"HEAD={head}", f"PORT={PORT}", wait)


def torchrun(gpus: int, program: str) -> str:
    """Command that starts `program` once for each of the `gpus` GPUs of each node."""
    where = '--nnodes "$NODES" --node-rank "$NODE_RANK" --master-addr "$HEAD" --master-port "$PORT"'
    return f"torchrun {where} --nproc-per-node {gpus} {program}"


def sky_task(
    head: Iterable[str],
    job: Machines,
    accelerator: str,
    *,
    top: Iterable[str],
    resources: Iterable[str],
    more_resources: Iterable[str] = (),
    variable: str,
    venv: str,
    setup: Iterable[str],
    lines: Iterable[str],
) -> str:
    """A SkyPilot task: `setup` creates the environment `venv` in the home folder, and `lines` run in it on each node."""
    several = job.nodes > 1
    network = ["# network_tier: best   # fast network adapters, on clouds that have them"] if several else []
    of_resources = [f"accelerators: {{{accelerator}: {job.gpus}}}", *resources, *network, *more_resources]
    steps = ["set -e", f'export PATH="$HOME/{venv}/bin:$PATH"', *(SKY if several else ()), *lines]
    return lines_text(
        [
            *head,
            f"name: {job.name}",
            *top,
            f"num_nodes: {job.nodes}",
            *("resources:", *(f"  {line}" for line in of_resources)),
            *("envs:", f"  {variable}"),
            *("setup: |", "  set -e", *(f"  {line}" for line in setup)),
            *("run: |", *(f"  {line}" for line in steps)),
        ]
    )


def slurm_script(
    head: Iterable[str],
    job: Machines,
    limit: str | None,
    *,
    begin: Iterable[str],
    missing: str,
    install: Iterable[str],
    lines: Sequence[str],
) -> str:
    """A script for sbatch with one task per node: `install` fills VENV if the test `missing` is true, then `lines` run on each node.

    `limit`: time limit of the job, None for the site's default; `begin`: shell commands that run first and set VENV.
    """
    several = job.nodes > 1
    on_every_node = [
        *SLURM_JOB,
        "read -r -d '' NODE <<'EOF' || true",
        *SLURM_NODE,
        *lines,
        "EOF",
        # since Slurm 22.05 srun does not take the number of cores from the job
        'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" bash -euc "$NODE"',
    ]
    return lines_text(
        [
            "#!/bin/bash",
            *head,
            f"#SBATCH --job-name={job.name}",
            f"#SBATCH --gres=gpu:{job.gpus}",
            f"#SBATCH --nodes={job.nodes}",
            *([f"#SBATCH --ntasks={job.nodes}", "#SBATCH --ntasks-per-node=1"] if several else ["#SBATCH --ntasks=1"]),
            f"#SBATCH --cpus-per-task={max(8, 4 * job.gpus)}",
            f"#SBATCH --mem={max(32, 16 * job.gpus)}G",
            *([f"#SBATCH --time={limit}"] if limit else []),
            f"#SBATCH --output={job.name}-%j.log",
            "set -eu",
            *begin,
            f"if [ {missing} ]; then",
            *(f"  {line}" for line in install),
            "fi",
            'export PATH="$VENV/bin:$PATH"',
            *(on_every_node if several else lines),
        ]
    )


@cache
def sky_names() -> dict[str, str]:
    """Canonical name of a GPU -> its name in SkyPilot's catalogues."""
    return read_shipped(PriceCatalogue, "catalogues", "skypilot.toml").asked


def accelerators(gpus: Sequence[str]) -> tuple[str, ...]:
    """SkyPilot's names without duplicates; raises `UserError` with every GPU that has none."""
    known = sky_names()
    missing = [name for name in gpus if name not in known]
    if missing:
        have = ", ".join(known)
        raise UserError([Problem("--gpu", "", f"SkyPilot has no name for {name}; it has one for {have}.") for name in missing])
    return tuple(dict.fromkeys(known[name] for name in gpus))


def site_name(name: str) -> str:
    """Likely name of a GPU on a cluster: 'H100 SXM5 80GB' -> 'h100'."""
    first = name.split(maxsplit=1)[0].lower()
    return first if first not in {"rtx", "quadro"} else "".join(name.lower().split()[:2])
