"""Diagnosis of an observation: the zone of each share, and what the work waits for.

Zones are those of the right-sizing guide that the program follows. Multiprocessors: below 60 % of their cycles the job is too small or
waits for memory, 60 to 85 % is right, above 85 % saturated. Memory: below 40 % it may be shared or reduced, above 95 % it is about to run
out. Power far below the limit indicates idleness (250 W of an A100's 400 W).
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from planner.engine.advice.observation import Observed
from planner.units import UNKNOWN, bytes_text, counted, percent_text, used_text

Limiter = Literal["idle", "memory capacity", "thermal", "power", "bandwidth", "compute", "link", "launch/host", "unknown"]
ZoneName = Literal["low", "right", "high", "unknown"]

SM_LOW, SM_HIGH = 0.60, 0.85
MEMORY_LOW, MEMORY_HIGH = 0.40, 0.95
POWER_LOW = 250 / 400
IDLE = 0.05
"""Share of cycles, or of time, below which nothing important runs."""
BANDWIDTH_BOUND = 0.60
"""Share of the theoretical bandwidth; copies reach about 0.9."""
COMPUTE_BOUND = 0.50
"""Share of a pipe's cycles; large products keep the matrix pipes at 0.6 to 0.9."""
NEAR_A_ROOF = 0.25
"""Share of every roof below which the counters do not show what the work waits for."""
HELD_BACK = 0.25
"""Share of time above which a held-back clock is the limit, if the clock is low as well."""
CLOCK_LOW = 0.85
LINK_BOUND = 0.50

OFTEN_BUSY = 0.9
"""Share of the time with something running above which pauses are not mentioned."""

HEADLINES: dict[Limiter, str] = {
    "idle": "idle: paid for, but unused",
    "memory capacity": "about to run out of memory",
    "thermal": "too hot: the clock is held back",
    "power": "held back by its power limit",
    "bandwidth": "bound by memory bandwidth: a bigger GPU for more FLOP/s would not help",
    "compute": "well used: bound by arithmetic",
    "link": "waits for other GPUs or the host's bus",
    "launch/host": "waits for the host: kernels are too small, or too few are launched",
    "unknown": "what the work waits for is unknown",
}
GONE = "does not answer: it fell off the bus, or reading it is not permitted"
NO_COUNTERS = (
    "SM, tensor and bandwidth use: no hardware counters are available here, and the share of time with a kernel "
    "(nvidia-smi's GPU-Util) says nothing about how much of the GPU it used."
)
SOME_COUNTERS = "{}: no value, so this may be what the work waits for."
OFFER_BENCHMARK = (
    "Run `gpu-planner bench` and compare your job's own tokens/s with `gpu-planner plan`: that shows what counters would."
)


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """One share with its zone."""

    name: str
    share: float | None
    zone: ZoneName
    text: str
    """Value and the meaning of its zone."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """State of one GPU."""

    limiter: Limiter
    headline: str
    zones: list[Zone]
    because: list[str]
    """Numbers behind the limiter."""
    cannot_know: list[str]


def judge(seen: Observed) -> Judgement:
    """Zones of `seen`, the limiter, and what remains unknown."""
    if seen.readings == seen.lost:
        because = ["no reading was answered"]
        return Judgement(limiter="unknown", headline=GONE, zones=zones_of(seen), because=because, cannot_know=[])
    limiter, because = _limiter(seen)
    unknown = _uncounted(seen)
    if seen.memory_share is not None and seen.memory_share >= MEMORY_LOW:
        unknown.append("Whether the memory is filled or only set aside: engines that reserve a pool (vLLM) always look full.")
    return Judgement(limiter=limiter, headline=_headline(seen, limiter), zones=zones_of(seen), because=because, cannot_know=unknown)


def _uncounted(seen: Observed) -> list[str]:
    """Sentences about missing hardware counters, and the way to get the figures without them."""
    if seen.counted:
        return []
    if seen.sm_active is None:
        return [NO_COUNTERS, OFFER_BENCHMARK]
    missing = [name for name, share in (("tensor", seen.tensor_active), ("DRAM traffic", seen.dram_bandwidth)) if share is None]
    return [SOME_COUNTERS.format(" and ".join(missing)), OFFER_BENCHMARK]


def zones_of(seen: Observed) -> list[Zone]:
    """Every share that has zones, the most informative first."""
    memory = used_text(seen.memory_used_bytes, seen.memory_total_bytes)
    power = UNKNOWN if seen.power_w is None else f"{seen.power_w:.0f} of {seen.power_limit_w or 0:.0f} W"
    pauses = seen.busy is not None and IDLE < seen.busy < OFTEN_BUSY
    return [
        *(
            [_zone("busy", seen.busy, OFTEN_BUSY, 1.0, "nothing ran in between; the shares below refer to the rest", "", "")]
            if pauses
            else []
        ),
        _zone("SM active", seen.sm_active, SM_LOW, SM_HIGH, "too small a job, or waiting", "right", "saturated"),
        _zone("tensor", seen.tensor_active, NEAR_A_ROOF, COMPUTE_BOUND, "few matrix products", "some", "many"),
        _zone("DRAM traffic", seen.dram_bandwidth, NEAR_A_ROOF, BANDWIDTH_BOUND, "far from its roof", "some", "near its roof"),
        _zone("memory", seen.memory_share, MEMORY_LOW, MEMORY_HIGH, "share it or shrink", "right", "about to run out", memory),
        _zone(
            "power",
            seen.power_share,
            0.0 if _works(seen) else POWER_LOW,
            1.01,
            "as if idle, or waiting",
            _power_words(seen),
            "",
            power,
        ),
    ]


def _works(seen: Observed) -> bool:
    """True if a counter shows that much of the GPU is in use, whatever its power: reading memory draws less than arithmetic."""
    bounds = ((seen.sm_active, SM_LOW), (seen.tensor_active, COMPUTE_BOUND), (seen.dram_bandwidth, BANDWIDTH_BOUND))
    return any(share is not None and share >= bound for share, bound in bounds)


def _power_words(seen: Observed) -> str:
    return "at work" if (seen.power_share or 0.0) >= POWER_LOW else "at work, far below its limit"


def _zone(name: str, share: float | None, low: float, high: float, below: str, within: str, above: str, value: str = "") -> Zone:
    if share is None:
        return Zone(name=name, share=None, zone="unknown", text=f"{UNKNOWN} not known")
    zone: ZoneName = "low" if share < low else "high" if share > high else "right"
    words = {"low": below, "right": within, "high": above}[zone]
    return Zone(name=name, share=share, zone=zone, text=f"{value or percent_text(share)}: {words}")


def _headline(seen: Observed, limiter: Limiter) -> str:
    if limiter == "compute" and seen.sm_active is not None and seen.sm_active > SM_HIGH:
        return "saturated and well used: bound by arithmetic"
    if limiter == "bandwidth" and seen.memory_share is not None and seen.memory_share > MEMORY_HIGH:
        return HEADLINES["bandwidth"] + "; its memory is nearly full as well"
    return HEADLINES[limiter]


def _limiter(seen: Observed) -> tuple[Limiter, list[str]]:
    """First limit, with its numbers; waste and danger come before speed."""
    for test in (_idle, _capacity, _held_back, _roofs, _waiting):
        found = test(seen)
        if found is not None:
            return found
    return "unknown", [f"{reason} ({counted(many, 'figure')})" for reason, many in Counter(seen.reasons.values()).most_common(2)]


def _idle(seen: Observed) -> tuple[Limiter, list[str]] | None:
    activity = seen.sm_active if seen.sm_active is not None else seen.kernel_resident
    if activity is None or activity >= IDLE:
        return None
    name = "SM active" if seen.sm_active is not None else "a kernel was resident"
    because = [f"{name} {percent_text(activity)} of the time observed"]
    if seen.power_share is not None:
        because.append(f"power {percent_text(seen.power_share)} of the limit")
    return "idle", because


def _capacity(seen: Observed) -> tuple[Limiter, list[str]] | None:
    share = seen.memory_share
    if share is None or share <= MEMORY_HIGH:
        return None
    return "memory capacity", [f"memory {percent_text(share)}: {bytes_text((seen.memory_total_bytes or 0) * (1 - share))} left"]


def _held_back(seen: Observed) -> tuple[Limiter, list[str]] | None:
    clock = seen.clock_share
    if clock is None or clock >= CLOCK_LOW:
        return None
    thermal = sum(share for reason, share in seen.held_back.items() if "thermal" in reason)
    capped = sum(share for reason, share in seen.held_back.items() if "power" in reason)
    name: Limiter
    share, name = max((thermal, "thermal"), (capped, "power"))  # type: ignore[assignment]  # mypy widens the literals to str
    if share < HELD_BACK:
        return None
    return name, [f"held back {percent_text(share)} of the time", f"clock {percent_text(clock)} of its highest"]


def _roofs(seen: Observed) -> tuple[Limiter, list[str]] | None:
    """Roof that the work is closest to, if it is close to one."""
    pipes = [share for share in (seen.tensor_active, seen.fp64_active, seen.fp32_active, seen.fp16_active) if share is not None]
    compute, bandwidth = max(pipes, default=0.0), seen.dram_bandwidth or 0.0
    because = [
        f"{name} {percent_text(share)}"
        for name, share in (("SM active", seen.sm_active), ("DRAM traffic", seen.dram_bandwidth), ("tensor", seen.tensor_active))
        if share is not None
    ]
    near = max((bandwidth / BANDWIDTH_BOUND, "bandwidth"), (compute / COMPUTE_BOUND, "compute"))
    saturated = seen.sm_active is not None and seen.sm_active >= SM_LOW
    if near[0] >= 1 or (saturated and near[0] >= NEAR_A_ROOF / COMPUTE_BOUND):
        return ("bandwidth" if near[1] == "bandwidth" else "compute"), because
    return None


def _waiting(seen: Observed) -> tuple[Limiter, list[str]] | None:
    if seen.sm_active is None:
        return None
    if seen.link_share is not None and seen.link_share >= LINK_BOUND:
        return "link", [f"NVLink or PCIe at {percent_text(seen.link_share)} of its bandwidth"]
    if seen.sm_active >= SM_LOW:
        return None
    because = [f"SM active {percent_text(seen.sm_active)}"]
    if seen.kernel_resident is not None:
        because.append(f"a kernel resident {percent_text(seen.kernel_resident)} of the time")
    if seen.dram_bandwidth is not None:
        because.append(f"DRAM traffic {percent_text(seen.dram_bandwidth)}")
    if seen.host_busy is not None and seen.host_cores:
        because.append(f"{seen.host_busy * seen.host_cores:.1f} of {seen.host_cores} host processors busy")
    return "launch/host", because
