"""A service of vLLM by its command line (docs.vllm.ai: serving/parallelism_scaling, cli/serve)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.units import digits

if TYPE_CHECKING:
    from planner.cli.emit.spread import Spread
    from planner.engine.answers.layout import LayoutAnswer
    from planner.engine.answers.plan import PlanRow
    from planner.engine.job.job import Job

INSTALLED = "vllm>=0.13"
"""From 0.13 on its manual has services over nodes without Ray: --nnodes, --node-rank, --master-addr."""
PORT = 8000
IMAGES = {"NVIDIA": "vllm/vllm-openai:latest", "AMD": "rocm/vllm:latest"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
ROUNDED = {"fp8": "fp8", "nf4": "bitsandbytes"}
"""Storage format -> what vLLM rounds weights of 16 bits to as it loads them; the others have to be in the checkpoint."""
CACHES = {"bf16": "auto", "fp16": "auto", "fp8": "fp8"}


def left_out(job: Job, layout: LayoutAnswer, hub_id: str) -> Iterator[str]:
    """What of a service vLLM's command line cannot say; each a sentence without its end."""
    if layout.cp > 1:
        yield "vLLM has no context parallelism in this form"
    if layout.ep > 1 and layout.ep != layout.tp:
        yield f"vLLM's experts are spread over tp = {layout.tp} GPUs, not over ep = {layout.ep}"
    if (job.workload.kv_dtype or "bf16") not in CACHES:
        yield f"vLLM has no cache of {job.workload.kv_dtype}"
    if not hub_id:
        yield "the model has no id on the Hugging Face hub, which vLLM loads it by"


def notes(job: Job) -> Iterator[str]:
    """For people, before it is started."""
    if job.stored not in DTYPES and job.stored not in ROUNDED:
        yield f"MODEL has to be a checkpoint whose weights are stored as {job.stored}; the one named here is its original."


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
