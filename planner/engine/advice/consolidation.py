"""Jobs of several GPUs on fewer: as MIG slices where the GPU can be divided, else side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from planner.engine.advice.advice import Action, Saving
from planner.engine.advice.case import Case
from planner.engine.advice.diagnosis import SM_HIGH
from planner.engine.advice.mig_slices import SliceNeed, pack, slice_need, smallest_for
from planner.engine.advice.observation import Observed
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.mig import Profile, profiles_of
from planner.units import HOURS_PER_MONTH

SHARED_LIMIT = 0.85
"""Highest sum of shares of bandwidth, and of memory, for jobs side by side."""


class _Job(msgspec.Struct, frozen=True):
    """One job, on a whole GPU or on a slice; its need is a share of the whole GPU."""

    name: str
    need: SliceNeed


def consolidations(cases: Sequence[Case]) -> list[Action]:
    """Consolidation for each kind of GPU with more than one busy GPU."""
    kinds: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.gpu is not None and case.seen.counted and case.judgement.limiter not in {"idle", "memory capacity"}:
            kinds[case.gpu.name].append(case)
    return [action for found in kinds.values() if (action := _consolidated(found)) is not None]


def _consolidated(cases: Sequence[Case]) -> Action | None:
    gpu = cases[0].gpu
    if gpu is None:
        return None
    profiles = profiles_of(gpu)
    jobs = [job for case in cases for job in _jobs(case.seen, gpu, profiles)]
    sliced = {job.name: profile for job in jobs if (profile := smallest_for(job.need, profiles)) is not None}
    whole = next((one for one in profiles if one.sm_share == 1.0), None)
    if whole is not None:
        sliced |= {job.name: whole for job in jobs if job.name not in sliced}
    groups = pack(sliced) if profiles else _side_by_side(jobs, gpu)
    kept = len(groups)
    if kept >= len(cases):
        return None
    words = [", ".join(f"{name} as {sliced[name].name}" if profiles else name for name in group) for group in groups]
    rents = sorted((case.price.usd_per_h for case in cases if case.price is not None), reverse=True)
    freed = len(cases) - kept
    saves = None
    if len(rents) == len(cases):
        usd_per_h = sum(rents[:freed])
        saves = Saving(
            usd_per_month=usd_per_h * HOURS_PER_MONTH,
            how=f"{freed} of {len(cases)} GPUs given back: {usd_per_h:.2f} $/h × {HOURS_PER_MONTH:.0f} h",
        )
    way = "MIG slices" if profiles else "one process or MPS, without isolation"
    text = f"{len(jobs)} jobs on {kept} × {gpu.name} instead of {len(cases)} ({way})."
    return Action(kind="consolidate", text=text, saves=saves, gpu=gpu.name, checks=words)


def _jobs(seen: Observed, gpu: Gpu, profiles: Sequence[Profile]) -> list[_Job]:
    place = f"{seen.host}:{seen.index}" if seen.host else f"GPU {seen.index}"
    if not seen.slices:
        return [_Job(place, slice_need(seen.sm_active, seen.dram_bandwidth, seen.memory_used_bytes or gpu.memory_bytes))]
    by_name = {profile.name: profile for profile in profiles}
    jobs = []
    for number, part in enumerate(seen.slices):
        profile = by_name.get(part.profile)
        if profile is None or part.memory_used_bytes is None:
            jobs.append(_Job(f"{place} {part.profile} {number}", SliceNeed(1.0, 1.0, gpu.memory_bytes)))
            continue
        sm = (part.sm_active if part.sm_active is not None else 1.0) * profile.sm_share
        bandwidth = (part.dram_bandwidth if part.dram_bandwidth is not None else 1.0) * profile.bandwidth_share
        need = slice_need(sm, bandwidth, part.memory_used_bytes)
        held = SliceNeed(
            min(need.sm_share, profile.sm_share), min(need.bandwidth_share, profile.bandwidth_share), need.memory_bytes
        )
        jobs.append(_Job(f"{place} {part.profile} {number}", held))
    return jobs


def _side_by_side(jobs: Sequence[_Job], gpu: Gpu) -> list[list[str]]:
    """First fit, the largest first, by the sums of what they use."""
    groups: list[list[_Job]] = []
    for job in sorted(jobs, key=lambda one: -one.need.sm_share):
        for held in groups:
            mates = [*held, job]
            if (
                sum(one.need.sm_share for one in mates) <= SM_HIGH
                and sum(one.need.bandwidth_share for one in mates) <= SHARED_LIMIT
                and sum(one.need.memory_bytes for one in mates) <= gpu.memory_bytes * SHARED_LIMIT
            ):
                held.append(job)
                break
        else:
            groups.append([job])
    return [[job.name for job in group] for group in groups]
