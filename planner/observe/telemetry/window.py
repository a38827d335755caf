"""Summary of a window of readings for right-sizing: one `Observed` for each GPU of this machine or of a fleet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from planner.engine.advice.diagnosis import IDLE
from planner.engine.advice.observation import Observed, ObservedSlice
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
from planner.hardware.catalogue.mig import profiles_of
from planner.observe.machine import match_gpu
from planner.observe.snapshot import NO_HOST, DeviceSnapshot, HostSnapshot, Snapshot

MEANS = {
    "sm_active": "sm_active_fraction",
    "sm_occupancy": "sm_occupancy_fraction",
    "tensor_active": "tensor_active_fraction",
    "dram_bandwidth": "dram_bandwidth_fraction",
    "fp64_active": "fp64_active_fraction",
    "fp32_active": "fp32_active_fraction",
    "fp16_active": "fp16_active_fraction",
    "kernel_resident": "kernel_resident_fraction",
    "sm_clock_hz": "sm_clock_hz",
    "max_sm_clock_hz": "max_sm_clock_hz",
}
"""Field of `Observed` -> field of a snapshot; the mean over the readings in which something ran."""
MEANS_OF_ALL = {"power_w": "drawn_power_w", "power_limit_w": "power_limit_w"}
"""Field of `Observed` -> field of a snapshot; the mean over all readings."""
HARMLESS_REASONS = {"idle", "application clocks"}


@dataclass(slots=True)
class FleetGpu:
    """One GPU over a window."""

    host: str
    device: DeviceSnapshot
    """Means over the window where a snapshot has a reading; memory at its highest."""
    seconds: float
    busy: float | None = None
    readings: int = 0
    job: str = ""
    """Empty if no label names it."""
    held_back: dict[str, float] = field(default_factory=dict)
    """Reason -> share of the time in use."""


def observe(snapshots: Sequence[Snapshot], gpus: GpuCatalogue, host: str = "") -> list[Observed]:
    """Use of each GPU over `snapshots` (of one host, in order of time), by its index. Every reading has the same weight in means."""
    readings: dict[tuple[str, int, str], list[DeviceSnapshot]] = defaultdict(list)
    for snapshot in snapshots:
        for device in snapshot.devices:
            readings[device.host or host, device.index, device.uuid or ""].append(device)
    seconds = snapshots[-1].taken_at_s - snapshots[0].taken_at_s if snapshots else 0.0
    hosts = [snapshot.host for snapshot in snapshots]
    return [observed_of(found, hosts, max(0.0, seconds), gpus, host) for (host, _, _), found in sorted(readings.items())]


def observed_of(
    readings: Sequence[DeviceSnapshot], hosts: Sequence[HostSnapshot], seconds: float, gpus: GpuCatalogue, host: str
) -> Observed:
    """One observation from the readings of one GPU."""
    answered = [one for one in readings if one.state == "ok"]
    name = next((one.name for one in reversed(readings) if one.name), None) or "unknown GPU"
    total = next((one.memory_total_bytes for one in reversed(answered) if one.memory_total_bytes), None)
    gpu = match_gpu(name, total, gpus)
    answered = [summed_over_slices(one, gpu) for one in answered]
    activity = [(one, share) for one in answered if (share := activity_of(one)) is not None]
    working = [one for one, share in activity if share >= IDLE] or answered
    means = {field: _mean_of(working, source) for field, source in MEANS.items()}
    means |= {field: _mean_of(answered, source) for field, source in MEANS_OF_ALL.items()}
    last = answered[-1] if answered else readings[-1]
    return Observed(
        gpu=gpu.name if gpu is not None else name,
        index=last.index,
        host=host,
        uuid=last.uuid,
        job="",
        seconds=seconds,
        readings=len(readings),
        lost=len(readings) - len(answered),
        busy=mean(float(share >= IDLE) for _, share in activity),
        memory_used_bytes=max((one.memory_used_bytes for one in answered if one.memory_used_bytes is not None), default=None),
        memory_total_bytes=total,
        held_back=_held_back(working),
        link_share=_link_share(working, gpu),
        host_busy=mean(one.cpu_busy_fraction for one in hosts),
        host_cores=hosts[-1].cpu_cores,
        slices=_slices(answered),
        reasons={field: last.why(source) for field, source in (MEANS | MEANS_OF_ALL).items() if means[field] is None},
        **means,
    )


def summed_over_slices(device: DeviceSnapshot, gpu: Gpu | None) -> DeviceSnapshot:
    """`device` with the summed counters of its slices where the driver has none of the whole."""
    if gpu is None or not device.mig or device.sm_active_fraction is not None:
        return device
    profiles = {profile.name: profile for profile in profiles_of(gpu)}
    parts = {
        (part.gpu_instance, part.profile): part for part in device.mig
    }.values()  # compute instances share the counters of their GPU instance
    if any(part.profile not in profiles or part.sm_active_fraction is None for part in parts):
        return device

    def total(field: str, share: str) -> float | None:
        shares = [(getattr(part, field), getattr(profiles[part.profile], share)) for part in parts]
        return sum(value * weight for value, weight in shares) if all(value is not None for value, _ in shares) else None

    return msgspec.structs.replace(
        device,
        sm_active_fraction=total("sm_active_fraction", "sm_share"),
        tensor_active_fraction=total("tensor_active_fraction", "sm_share"),
        dram_bandwidth_fraction=total("dram_bandwidth_fraction", "bandwidth_share"),
    )


def activity_of(device: DeviceSnapshot) -> float | None:
    """Activity of a GPU, 0 to 1: the multiprocessors' counter, else the share of time with a kernel."""
    return device.sm_active_fraction if device.sm_active_fraction is not None else device.kernel_resident_fraction


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _mean_of(readings: Sequence[DeviceSnapshot], field: str) -> float | None:
    """Mean of the known values of a field; a plain loop, because a fleet needs a million of them."""
    total, known = 0.0, 0
    for one in readings:
        if (value := getattr(one, field)) is not None:
            total += value
            known += 1
    return total / known if known else None


def _held_back(readings: Sequence[DeviceSnapshot]) -> dict[str, float]:
    """Reason -> share of the time, from the counters of throttled time, else from how often the reason was present."""
    counted: dict[str, list[float]] = defaultdict(list)
    for one in readings:
        for reason, share in (one.throttled_fraction or {}).items():
            counted[reason].append(share)
    if counted:
        return {reason: sum(shares) / len(shares) for reason, shares in sorted(counted.items()) if any(shares)}
    known = [one.event_reasons for one in readings if one.event_reasons is not None]
    often = Counter(reason for reasons in known for reason in reasons if reason not in HARMLESS_REASONS)
    return {reason: count / len(known) for reason, count in sorted(often.items())}


def _link_share(readings: Sequence[DeviceSnapshot], gpu: Gpu | None) -> float | None:
    """Use of the link in both directions together, as in the catalogue's figures."""
    if gpu is None:
        return None
    shares = []
    for kind, most in (("nvlink", gpu.nvlink_bytes_per_s), ("pcie", gpu.pcie_bytes_per_s)):
        sent, received = (_mean_of(readings, f"{kind}_{way}_bytes_per_s") for way in ("tx", "rx"))
        if sent is not None and received is not None and most:
            shares.append((sent + received) / most)
    return max(shares, default=None)


def _slices(readings: Sequence[DeviceSnapshot]) -> list[ObservedSlice]:
    """Slices at the end of the window; a slice that an administrator removed meanwhile is not included."""
    if not readings:
        return []
    found = []
    for last in readings[-1].mig:
        own = [part for one in readings for part in one.mig if (part.uuid, part.gpu_instance) == (last.uuid, last.gpu_instance)]
        used = [part.memory_used_bytes for part in own if part.memory_used_bytes is not None]
        found.append(
            ObservedSlice(
                profile=last.profile,
                uuid=last.uuid,
                sm_active=mean(part.sm_active_fraction for part in own),
                dram_bandwidth=mean(part.dram_bandwidth_fraction for part in own),
                memory_used_bytes=max(used, default=None),
                memory_total_bytes=last.memory_total_bytes,
            )
        )
    return found


def observe_fleet(fleet: Iterable[FleetGpu], gpus: GpuCatalogue) -> list[Observed]:
    """Observations of each GPU of a fleet over its window."""
    found = []
    for one in fleet:
        seen = observed_of([one.device], [NO_HOST], one.seconds, gpus, one.host)
        facts = {"busy": seen.busy if one.busy is None else one.busy, "readings": one.readings or seen.readings}
        found.append(msgspec.structs.replace(seen, **facts, job=one.job, held_back=one.held_back))
    return found
