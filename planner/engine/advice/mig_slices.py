"""Multi-instance GPUs: which slices fit next to each other, and how few GPUs hold a set of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from planner.engine.advice.observation import MARGIN
from planner.hardware.catalogue.mig import Profile

SLICE_SM_MARGIN = 1.2
"""Margin for multiprocessors: a slice is narrower than the GPU the job was observed on, so kernels that filled it for a moment take longer."""
MEMORY_SLICES = 8
"""Memory slices of one GPU."""


class SliceNeed(NamedTuple):
    """Resources one job needs; shares are of the whole GPU."""

    sm_share: float
    bandwidth_share: float
    memory_bytes: float


def slice_need(sm_active: float | None, dram_bandwidth: float | None, memory_bytes: float) -> SliceNeed:
    """Resources of a slice for a job observed on a whole GPU."""
    return SliceNeed((sm_active or 0.0) * SLICE_SM_MARGIN, (dram_bandwidth or 0.0) * MARGIN, memory_bytes * MARGIN)


def smallest_for(need: SliceNeed, profiles: Sequence[Profile]) -> Profile | None:
    """Smallest profile that has what the job needs; None: no slice has."""
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
    """Number of slices of `profile` that fit on one GPU."""
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

    if sum(profile.memory_slices for profile in profiles) > MEMORY_SLICES:
        return None
    found = next(places(order, frozenset()), None)
    return None if found is None else [found[position] for position in range(len(profiles))]


def pack(jobs: Mapping[str, Profile]) -> list[list[str]]:
    """Jobs of each GPU: the largest first, each on the first GPU where it still fits."""
    gpus: list[list[str]] = []
    with_room: list[list[str]] = []  # GPUs without free memory slices are not examined again
    for name in sorted(jobs, key=lambda job: (-jobs[job].memory_slices, -jobs[job].compute_slices, job)):
        held = next((one for one in with_room if placed([jobs[other] for other in (*one, name)]) is not None), None)
        if held is None:
            held = []
            gpus.append(held)
            with_room.append(held)
        held.append(name)
        if sum(jobs[other].memory_slices for other in held) >= MEMORY_SLICES:
            with_room = [one for one in with_room if one is not held]
    return gpus
