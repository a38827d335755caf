"""A model and a GPU in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.units import bytes_text, count_text, si_text, usd_text

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.workload.architecture import Architecture

SPEEDS = ("bf16", "fp16", "fp32")
"""Dtypes whose peak is shown: the first that is known."""


def model_summary(architecture: Architecture) -> str:
    """'70.6 B parameters · 80 layers · context 131,072 tokens · llama'; of experts how many parameters a token passes."""
    active = f", {count_text(architecture.active)} active" if architecture.active != architecture.total else ""
    context = f"context {architecture.max_context:,} tokens" if architecture.max_context else ""
    parts = (f"{count_text(architecture.total)} parameters{active}", f"{architecture.layers} layers", context, architecture.family)
    return " · ".join(part for part in parts if part)


def gpu_summary(gpu: Gpu) -> str:
    """'131 GiB · 4.80 TB/s · 989 TFLOP/s bf16 · 700 W · Hopper'; what is not known is left out."""
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
