"""Names of devices, models, verdicts and components of memory; one-line summaries of a model and a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.units import bytes_text, count_text, si_text, usd_text

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow, Verdict
    from planner.hardware.catalogue.gpus import Gpu
    from planner.workload.architecture import Architecture

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
    """Name of a GPU or processor without marketing words: 'Intel(R) Xeon(R) Processor' -> 'Intel Xeon'."""
    for noise in MARKETING:
        name = name.replace(noise, "")
    return " ".join(name.split())


def row_device(row: PlanRow) -> str:
    """Name of a row's device, marked if it is in this machine: 'RTX 4090, here'."""
    owned = "" if row.owned is None else ", bought" if row.owned.bought else ", own"
    return device_name(row.gpu) + (", here" if row.here else owned)


def row_place(row: PlanRow) -> str:
    """Devices and layout of a row: '4 × H200 SXM as tp4'."""
    layout = row.answer.layout
    if layout is None or layout.gpus == 1:
        return f"1 × {row_device(row)}"
    return f"{layout.gpus:,} × {row_device(row)} as {layout.text}"


def region_text(region: str) -> str:
    """Region of an offer as text; 'any region' if it cannot be chosen."""
    return "any region" if region == "any" else region


def model_name(task: Mapping[str, Any]) -> str:
    """Short name of a workload's model: the last part of its id, the folder of a config.json, or the name in it."""
    model = task.get("model", "")
    if isinstance(model, Mapping):
        return str(model.get("_name_or_path") or model.get("model_type") or "own config")
    *folders, last = str(model).split("/")
    return folders[-1] if last == "config.json" and folders and folders[-1] not in {"", ".", ".."} else last


SPEEDS = ("bf16", "fp16", "fp32")
"""Dtypes of which the first with a known peak is shown."""


def model_summary(architecture: Architecture) -> str:
    """Summary such as '70.6 B parameters · 80 layers · context 131,072 tokens · llama'; with experts, also active parameters."""
    active = f", {count_text(architecture.active)} active" if architecture.active != architecture.total else ""
    context = f"context {architecture.max_context:,} tokens" if architecture.max_context else ""
    parts = (f"{count_text(architecture.total)} parameters{active}", f"{architecture.layers} layers", context, architecture.family)
    return " · ".join(part for part in parts if part)


def gpu_summary(gpu: Gpu) -> str:
    """Summary such as '131 GiB · 4.80 TB/s · 989 TFLOP/s bf16 · 700 W · Hopper', without unknown figures."""
    dtype = next((dtype for dtype in SPEEDS if dtype in gpu.compute_flop_per_s), None)
    parts = (
        bytes_text(gpu.usable_memory_bytes or gpu.memory_bytes),
        si_text(gpu.memory_bandwidth_bytes_per_s, "B/s"),
        f"{si_text(gpu.compute_flop_per_s[dtype], 'FLOP/s')} {dtype}" if dtype else "",
        f"{gpu.tdp_w:.0f} W" if gpu.tdp_w else "",
        gpu.architecture,
        f"bought for about {usd_text(gpu.purchase.price_usd)} $" if gpu.purchase else "",
    )
    return " · ".join(part for part in parts if part)
