"""Shares of an uncut GPU, used by several programs in turn, each in a part of its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpu import Gpu

DIVISORS = (2, 4, 8)
"""Shares are a half, a quarter and an eighth: of these, any that add up to whole GPUs can be placed on as many."""


def share_of(gpu: Gpu, divisor: int) -> Gpu:
    """One of `divisor` equal shares of `gpu` as a separate part: 'L40S 1/4' has a quarter of the memory and of the time.

    Rates hold while all other shares are busy.
    """
    part = part_of(gpu, f"1/{divisor}", divisor, memory=1 / divisor, compute=1 / divisor)
    return msgspec.structs.replace(part, usable_memory_bytes=gpu.usable_memory_bytes and gpu.usable_memory_bytes / divisor)


def part_of(gpu: Gpu, name: str, of_whole: int, *, memory: float, compute: float) -> Gpu:
    """One of `of_whole` parts of `gpu`, with these shares of its memory and of its arithmetic, and an equal one of power and price."""
    return msgspec.structs.replace(
        gpu,
        name=f"{gpu.name} {name}",
        memory_bytes=gpu.memory_bytes * memory,
        memory_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s * memory,
        compute_flop_per_s={dtype: peak * compute for dtype, peak in gpu.compute_flop_per_s.items()},
        tdp_w=gpu.tdp_w / of_whole if gpu.tdp_w else None,
        nvlink_bytes_per_s=None,
        mig=(),
        of_whole=of_whole,
        aliases=(),
        nvml_names=(),
        purchase=gpu.purchase and msgspec.structs.replace(gpu.purchase, price_usd=gpu.purchase.price_usd / of_whole),
        note=f"a share of {gpu.name}",
    )
