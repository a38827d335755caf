"""A service of vLLM by its command line (docs.vllm.ai: serving/parallelism_scaling, cli/serve)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.units import digits

if TYPE_CHECKING:
    from planner.cli.emit.spread import Spread
    from planner.engine.answers.plan import PlanRow
    from planner.engine.job.job import Job

NAME = "vLLM"
INSTALLED = "vllm>=0.13"
"""Requirement of services over nodes: the manual has them without Ray from 0.13 on (--nnodes, --node-rank, --master-addr)."""
PORT = 8000
IMAGES = {"NVIDIA": "vllm/vllm-openai:latest", "AMD": "rocm/vllm:latest"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
ROUNDED = {"fp8": "fp8", "nf4": "bitsandbytes"}
CACHES = {"bf16": "auto", "fp16": "auto", "fp8": "fp8"}


def lines(job: Job, row: PlanRow, spread: Spread, hub_id: str) -> Iterator[str]:
    """Shell that serves until it is stopped."""
    layout = row.answer.layout
    assert layout is not None
    words = ["--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  # inside its own machine or pod
    words += ["--tensor-parallel-size", str(layout.tp), "--pipeline-parallel-size", str(layout.pp)]
    words += ["--data-parallel-size", str(spread.local)] if spread.local > 1 else []
    words += ["--enable-expert-parallel"] if layout.ep > 1 else []
    words += ["--gpu-memory-utilization", digits(job.memory_fraction)]
    words += ["--max-model-len", str(length)] if (length := _longest(job, row)) else []
    words += ["--dtype", DTYPES[job.dtype]] if job.dtype in DTYPES else []
    words += ["--quantization", ROUNDED[job.stored]] if job.stored in ROUNDED else []
    cache = CACHES[job.workload.kv_dtype or "bf16"]
    words += ["--kv-cache-dtype", cache] if cache != "auto" else []
    yield f'MODEL="${{MODEL:-{hub_id}}}"'
    if spread.nodes == 1:
        yield f'exec vllm serve "$MODEL" {shlex.join(words)}'
        return
    yield 'HEADLESS=""; if [ "$NODE_RANK" != 0 ]; then HEADLESS=--headless; fi'
    across = '--nnodes "$NODES" --node-rank "$NODE_RANK" --master-addr "$HEAD" --master-port "$PORT" --distributed-executor-backend mp $HEADLESS'
    yield f'exec vllm serve "$MODEL" {shlex.join(words)} {across}'


def _longest(job: Job, row: PlanRow) -> int | None:
    """Tokens of the longest request where all are alike, else what the cache of a replica can hold; None: the model's own."""
    lengths = (job.workload.prefix_tokens or 0, job.workload.input_tokens, job.workload.output_tokens)
    if all(isinstance(one, int | float) for one in lengths):
        return round(job.input_tokens + job.output_tokens)
    return row.answer.max_context
