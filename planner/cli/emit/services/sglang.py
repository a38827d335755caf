"""A service of SGLang by its command line (docs.sglang.io: advanced_features/server_arguments, read 2026-11-22)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.units import digits

if TYPE_CHECKING:
    from planner.cli.emit.spread import Spread
    from planner.engine.answers.plan import PlanRow
    from planner.engine.job.job import Job

NAME = "SGLang"
INSTALLED = "sglang[all]>=0.5"
PORT = 30000
IMAGES = {"NVIDIA": "lmsysorg/sglang:latest"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
ROUNDED = {"fp8": "fp8"}
CACHES = {"bf16": "auto", "fp16": "auto", "fp8": "fp8_e4m3"}


def lines(job: Job, row: PlanRow, spread: Spread, hub_id: str) -> Iterator[str]:
    """Shell that serves until it is stopped."""
    layout = row.answer.layout
    assert layout is not None
    words = ["--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  # inside its own machine or pod
    words += ["--tp-size", str(layout.tp), "--pp-size", str(layout.pp)]
    words += ["--dp-size", str(spread.local)] if spread.local > 1 else []
    words += ["--ep-size", str(layout.ep)] if layout.ep > 1 else []
    words += ["--mem-fraction-static", digits(job.memory_fraction)]
    words += ["--context-length", str(row.answer.max_context)] if row.answer.max_context else []
    words += ["--dtype", DTYPES[job.dtype]] if job.dtype in DTYPES else []
    words += ["--quantization", ROUNDED[job.stored]] if job.stored in ROUNDED else []
    cache = CACHES[job.workload.kv_dtype or "bf16"]
    words += ["--kv-cache-dtype", cache] if cache != "auto" else []
    across = ' --nnodes "$NODES" --node-rank "$NODE_RANK" --dist-init-addr "$HEAD:$PORT"' if spread.nodes > 1 else ""
    yield f'MODEL="${{MODEL:-{hub_id}}}"'
    yield f'exec python3 -m sglang.launch_server --model-path "$MODEL" {shlex.join(words)}{across}'
