"""Values of a plan that the user did not give: those chosen by the planner, and those of a preset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from planner.units import number_text

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan

LISTED = (
    "input_tokens",
    "output_tokens",
    "sequence",
    "weight_dtype",
    "kv_dtype",
    "optimizer",
    "engine",
)
"""Keys with the largest effect on an answer, in the order of the list; reports and the page of a row list all keys."""
OF_PRESETS = (
    "request_rate_per_s",
    "daily_users",
    "concurrency",
    "requests",
    "input_tokens",
    "output_tokens",
    "batch",
    "sequence",
    "global_batch",
    "train_tokens",
    "lora.rank",
    "weight_dtype",
    "kv_dtype",
    "recipe",
    "optimizer",
    "engine",
    "max_gpus",
)
"""Keys that are named, in addition to targets, if they stay when the model of a preset is replaced."""
LATENCIES = ("request_s", "ttft_s", "tpot_s")


def chosen_text(plan: Plan) -> str:
    """List of chosen values: 'chosen for you: input_tokens 512, weight_dtype bf16; no limit on latency'; empty if all were given.

    Values are those of the first row, because others may need another dtype.
    """
    if not plan.rows:
        return ""
    assumed, task = (plan.best or plan.rows[0]).answer.assumed, plan.task
    values = [f"{key} {_text(assumed[key])}" for key in LISTED if key in assumed]
    parts = [f"chosen for you: {', '.join(values)}"] if values else []
    if task.get("task") == "serve":
        if "people" in assumed:
            parts.append(f"{assumed['people']} (people.messages_per_day, people.peak_factor)")
        if "concurrency" in assumed and not task.get("request_rate_per_s") and not task.get("requests"):
            parts.append("no load: each row at its best number of requests at once")
        if not any(key.endswith(LATENCIES) for key in task.get("targets", ())):
            parts.append("no limit on latency")
    return "; ".join(parts)


def preset_values(fields: Mapping[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Keys of the workload `fields` with a large effect on the answer that come from its preset and are not `given`, with their values."""
    tables = {f"{table}.{key}": value for table in ("lora", "targets") for key, value in (fields.get(table) or {}).items()}
    names = (*OF_PRESETS, *(key for key in tables if key.startswith("targets.")))
    found = {key: tables.get(key, fields.get(key)) for key in names if key not in given}
    return {key: value for key, value in found.items() if value is not None}


def _text(value: object) -> str:
    return number_text(value) if isinstance(value, (int, float)) else str(value)
