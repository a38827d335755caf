"""Plans of the shipped presets at every task: what the tests of details, of memory and of time, go through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from engine_sample import session, workload

from planner.engine.answers.plan import Plan
from planner.workload.tasks import Workload

PRESETS = session().presets.names()
AS_IT_SHIPS = "as it ships"
MODEL_ONLY = ("model", "max_gpus", "objective")
TASKS: Mapping[str, Mapping[str, Any]] = {
    AS_IT_SHIPS: {},
    "train": {"task": "train", "recipe": "amp", "micro_batch": 2, "checkpointing": "full"},
    "lora": {"task": "finetune", "recipe": "bf16", "lora": {"rank": 8, "base": "nf4"}, "checkpointing": "selective"},
    "prefill": {"task": "prefill", "batch": 2, "input_tokens": 3000},
    "generate": {"task": "generate", "batch": 4, "engine": "transformers"},
    "serve": {"task": "serve", "kv_dtype": "fp8"},
}


@cache
def asked(preset: str, task: str) -> tuple[Workload, Plan]:
    """A shipped preset, or its model at another task."""
    whole = workload(preset)
    if task != AS_IT_SHIPS:
        kept = {name: getattr(whole, name) for name in MODEL_ONLY}
        whole = session().workload({**kept, **TASKS[task]}, "test")
    return whole, session().plan(whole, basis="spec", levers=False)
