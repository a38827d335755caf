"""Multi-instance GPUs: what a slice has, which slices lie beside each other, and how few GPUs hold a set of jobs.

A GPU has 8 memory slices and 7 compute slices (4 and 4 on parts whose largest profile is 4g). Where an instance may begin: NVIDIA
Multi-Instance GPU User Guide, Supported MIG Profiles (possible placements). Multiprocessors: 16 of 132 in 1g on an H100, 14 of 108
on an A100, so 12 % a compute slice is what there is at least.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from planner.engine.advice.observation import MARGIN
from planner.hardware.catalogue.gpus import Gpu

SM_SHARE_OF_SLICE = 0.12
"""Share of the GPU's multiprocessors per compute slice, where there are seven."""
STARTS = {(1, 1): (0, 1, 2, 3, 4, 5, 6), (1, 2): (0, 2, 4, 6), (2, 2): (0, 2, 4), (3, 4): (0, 4), (4, 4): (0,), (7, 8): (0,)}
"""(compute slices, memory slices) -> memory slices at which an instance may begin, of 8."""
STARTS_OF_FOUR = {(1, 1): (0, 1, 2, 3), (2, 2): (0, 2), (4, 4): (0,)}
USABLE_OF_SLICE = 0.975
"""Share of the profile's label that programs can use: 9.75 GiB of 1g.10gb, 19.62 of 1g.20gb, 39.5 of 3g.40gb (`nvidia-smi mig -lgip` on an H100)."""
SLICE_SM_MARGIN = 1.2
"""A slice is narrower than the GPU the job was seen on: kernels that filled it for a moment take longer."""
_NAME = re.compile(r"(\d+)g\.(\d+)gb")


class Profile(NamedTuple):
    """One slice size; shares are of the whole GPU."""

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    sm_share: float
    bandwidth_share: float
    memory_bytes: float


class SliceNeed(NamedTuple):
    """Resources one job needs; shares are of the whole GPU."""

    sm_share: float
    bandwidth_share: float
    memory_bytes: float


def profiles_of(gpu: Gpu) -> tuple[Profile, ...]:
    """The slices `gpu` can be cut into, the smallest first; empty where it cannot."""
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


def slice_need(sm_active: float | None, dram_bandwidth: float | None, memory_bytes: float) -> SliceNeed:
    """Resources of a slice for a job observed on a whole GPU."""
    return SliceNeed((sm_active or 0.0) * SLICE_SM_MARGIN, (dram_bandwidth or 0.0) * MARGIN, memory_bytes * MARGIN)


def smallest_for(need: SliceNeed, profiles: Sequence[Profile]) -> Profile | None:
    """The smallest profile that has what the job needs; None: no slice has."""
    return next(
        (
            profile
            for profile in profiles
            if profile.sm_share >= need.sm_share
            and profile.bandwidth_share >= need.bandwidth_share
            and profile.memory_bytes >= need.memory_bytes
        ),
        None,
    )


def most_of(profile: Profile) -> int:
    """Number of slices of `profile` that one GPU holds."""
    count = 0
    while placed([profile] * (count + 1)) is not None:
        count += 1
    return count


def placed(profiles: Sequence[Profile]) -> list[int] | None:
    """First memory slice of each of `profiles` on one GPU, in their order; None: they do not fit together."""
    order = sorted(range(len(profiles)), key=lambda position: -profiles[position].memory_slices)

    def places(left: Sequence[int], taken: frozenset[int]) -> Iterator[dict[int, int]]:
        if not left:
            yield {}
            return
        profile = profiles[left[0]]
        for start in profile.starts:
            span = frozenset(range(start, start + profile.memory_slices))
            if not span & taken:
                for rest in places(left[1:], taken | span):
                    yield {left[0]: start, **rest}

    if sum(profile.memory_slices for profile in profiles) > 8:
        return None
    found = next(places(order, frozenset()), None)
    return None if found is None else [found[position] for position in range(len(profiles))]


def pack(jobs: Mapping[str, Profile]) -> list[list[str]]:
    """The jobs of each GPU: the largest first, each on the first GPU where it still lies beside the others."""
    gpus: list[list[str]] = []
    for name in sorted(jobs, key=lambda job: (-jobs[job].memory_slices, -jobs[job].compute_slices, job)):
        for held in gpus:
            if placed([jobs[other] for other in (*held, name)]) is not None:
                held.append(name)
                break
        else:
            gpus.append([name])
    return gpus
