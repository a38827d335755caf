"""Names on screen: devices, models, verdicts and components of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow, Verdict

MARKETING = ("(R)", "(TM)", "(tm)", " Processor", " CPU")
VERDICT_SIGNS: Mapping[Verdict, str] = {
    "fits": "✓",
    "may-not-fit": "?",
    "misses-target": "~",
    "does-not-fit": "✗",
    "not-supported": "–",
}
VERDICT_WORDS: Mapping[Verdict, str] = {
    "fits": "a solution",
    "may-not-fit": "a solution that may not fit",
    "misses-target": "fits, but misses a target",
    "does-not-fit": "does not fit",
    "not-supported": "not supported",
}
COMPONENT_NAMES: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "logits": "logits",
    "kv_cache": "KV cache",
    "buffers": "buffers",
    "overhead": "overhead",
}


def device_name(name: str) -> str:
    """A GPU's or processor's name without what marketing adds: 'Intel(R) Xeon(R) Processor' -> 'Intel Xeon'."""
    for noise in MARKETING:
        name = name.replace(noise, "")
    return " ".join(name.split())


def row_device(row: PlanRow) -> str:
    """The name of a row's device, marked when it is in this machine: 'RTX 4090, here'."""
    owned = "" if row.owned is None else ", bought" if row.owned.bought else ", own"
    return device_name(row.gpu) + (", here" if row.here else owned)


def row_place(row: PlanRow) -> str:
    """The devices of a row and how the work is spread over them: '4 × H200 SXM as tp4'."""
    layout = row.answer.layout
    if layout is None or layout.gpus == 1:
        return f"1 × {row_device(row)}"
    return f"{layout.gpus:,} × {row_device(row)} as {layout.text}"


def region_text(region: str) -> str:
    """The region of an offer in words; what is sold without a choice of one has any."""
    return "any region" if region == "any" else region


def model_name(task: Mapping[str, Any]) -> str:
    """The short name of a workload's model: the last part of a path, or what a config.json says of itself."""
    model = task.get("model", "")
    if isinstance(model, Mapping):
        return str(model.get("_name_or_path") or model.get("model_type") or "own config")
    return str(model).rsplit("/", 1)[-1]
