"""Shell that gives each node of a job NODES, NODE_RANK, HEAD and PORT, from the variables of each tool."""

from __future__ import annotations

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
"""Run once, before srun; jobs that share a node get ports of their own."""
SLURM_NODE = ('NODES="$SLURM_NNODES"', 'NODE_RANK="$SLURM_NODEID"')
"""Run on each node, under srun."""


JOB_INDEX = '"$JOB_COMPLETION_INDEX"'
"""Number of a pod of an Indexed Job."""


def kubernetes(nodes: int | str, rank: str, head: str) -> tuple[str, ...]:
    """Lines for a pod of Kubernetes; `rank` and `head` are shell. Pods may start before the first one has an address."""
    wait = 'until getent hosts "$HEAD" > /dev/null; do sleep 1; done'
    return (f"NODES={nodes}", f"NODE_RANK={rank}", f"HEAD={head}", f"PORT={PORT}", wait)


def torchrun(gpus: int, program: str) -> str:
    """One line that starts `program` as a rank for each of the `gpus` GPUs of each node."""
    where = '--nnodes "$NODES" --node-rank "$NODE_RANK" --master-addr "$HEAD" --master-port "$PORT"'
    return f"torchrun {where} --nproc-per-node {gpus} {program}"
