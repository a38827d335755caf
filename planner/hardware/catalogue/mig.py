"""Slices of multi-instance GPUs, and shares of uncut GPUs that several programs use in turn, each as a separate part.

A GPU has 8 memory slices and 7 compute slices (4 and 4 on GPUs whose largest profile is 4g). Possible placements of an instance: NVIDIA
Multi-Instance GPU User Guide, Supported MIG Profiles. Multiprocessors: 16 of 132 in 1g on an H100, 14 of 108 on an A100, so at least 12 %
per compute slice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpu import Gpu

DIVISORS = (2, 4, 8)
"""Shares are a half, a quarter and an eighth, because any set of these that adds up to whole GPUs fits on that many GPUs."""


def share_of(gpu: Gpu, divisor: int) -> Gpu:
    """One of `divisor` equal shares of `gpu` as a separate part: 'L40S 1/4' has a quarter of the memory and of the time.

    Rates hold while all other shares are busy.
    """
    part = part_of(gpu, f"1/{divisor}", divisor, memory=1 / divisor, compute=1 / divisor)
    return msgspec.structs.replace(part, usable_memory_bytes=gpu.usable_memory_bytes and gpu.usable_memory_bytes / divisor)


def part_of(gpu: Gpu, name: str, of_whole: int, *, memory: float, compute: float) -> Gpu:
    """One of `of_whole` parts of `gpu`, with these shares of its memory and of its arithmetic, and an equal share of power and price."""
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


SM_SHARE_OF_SLICE = 0.12
"""Share of the GPU's multiprocessors per compute slice, where there are seven."""
STARTS = {(1, 1): (0, 1, 2, 3, 4, 5, 6), (1, 2): (0, 2, 4, 6), (2, 2): (0, 2, 4), (3, 4): (0, 4), (4, 4): (0,), (7, 8): (0,)}
"""(compute slices, memory slices) -> memory slices at which an instance may begin, of 8."""
STARTS_OF_FOUR = {(1, 1): (0, 1, 2, 3), (2, 2): (0, 2), (4, 4): (0,)}
USABLE_OF_SLICE = 0.975
"""Usable share of the memory in a profile's name: 9.75 GiB of 1g.10gb, 39.5 of 3g.40gb (`nvidia-smi mig -lgip` on an H100)."""
_NAME = re.compile(r"(\d+)g\.(\d+)gb")
_PART = re.compile(rf"{_NAME.pattern}|1/[248]")
"""A profile, or a share."""


class Profile(NamedTuple):
    """One slice size; shares are of the whole GPU."""

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    sm_share: float
    bandwidth_share: float
    memory_bytes: float


def profiles_of(gpu: Gpu) -> tuple[Profile, ...]:
    """Slices into which `gpu` can be divided, the smallest first; empty if it cannot."""
    found = [_NAME.fullmatch(profile.name) for profile in gpu.mig]
    sizes = [(int(match[1]), int(match[2]), match[0]) for match in found if match is not None]
    if not sizes:
        return ()
    most, label, _ = max(sizes)
    slots = 8 if most == 7 else most
    starts = STARTS if most == 7 else STARTS_OF_FOUR
    profiles = []
    for compute, gigabytes, name in sizes:
        memory = max(1, round(gigabytes * slots / label))
        if (compute, memory) in starts:
            sm_share = 1.0 if compute == most else SM_SHARE_OF_SLICE * compute if most == 7 else compute / most
            usable = gpu.memory_bytes * (memory / slots) * USABLE_OF_SLICE
            profiles.append(Profile(name, compute, memory, starts[compute, memory], sm_share, memory / slots, usable))
    return tuple(sorted(profiles, key=lambda profile: (profile.memory_slices, profile.compute_slices)))


def split_name(name: str) -> tuple[str, str] | None:
    """('H100 PCIe', '3g.40gb') of 'H100 PCIe 3g.40gb', ('L40S', '1/4') of 'L40S 1/4'; None if `name` ends with neither."""
    whole, _, profile = name.strip().rpartition(" ")
    return (whole, profile.casefold()) if whole and _PART.fullmatch(profile.casefold()) else None


def slice_of(gpu: Gpu, profile: Profile) -> Gpu:
    """One slice of `gpu` as a separate part, named after the GPU and the profile.

    Rates are the slice's share; price and power are the GPU's divided by the number of such slices. Slices have no peer-to-peer
    link (MIG User Guide).
    """
    part = part_of(gpu, profile.name, len(profile.starts), memory=profile.bandwidth_share, compute=profile.sm_share)
    return msgspec.structs.replace(
        part,
        usable_memory_bytes=profile.memory_bytes,
        sm_count=max(1, int(gpu.sm_count * profile.sm_share)) if gpu.sm_count else None,
        l2_bytes=gpu.l2_bytes * profile.bandwidth_share if gpu.l2_bytes else None,
        note=f"a slice of {gpu.name}",
    )
