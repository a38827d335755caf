"""Observation of one GPU over a window: the input of right-sizing."""

from __future__ import annotations

import msgspec

from planner.numbers import Reading

MARGIN = 1.1
"""Factor on top of what was seen to be used, for what another GPU or a slice has to have."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU over a window. Shares are of 0 to 1; what was not seen is None, with its reason in `reasons`.

    Shares of counters, clock and what held it back are means over the readings in which something ran (over all where nothing
    did): they describe the work. `busy` says how much of the time that was; power is the mean over all of it.
    """

    gpu: str
    """The catalogue's name, or the driver's where the catalogue does not have it."""
    index: int = 0
    host: str = ""
    """Empty: this machine."""
    uuid: str | None = None
    job: str = ""
    """Name of the work by a cluster's scheduler; empty where it is not known."""
    seconds: Reading
    """Time from the first reading to the last."""
    readings: int
    lost: int = 0
    """Readings in which the GPU did not answer."""

    busy: Reading | None = None
    """Readings in which something ran, of all."""
    sm_active: Reading | None = None
    sm_occupancy: Reading | None = None
    tensor_active: Reading | None = None
    dram_bandwidth: Reading | None = None
    fp64_active: Reading | None = None
    fp32_active: Reading | None = None
    fp16_active: Reading | None = None
    kernel_resident: Reading | None = None
    memory_used_bytes: Reading | None = None
    """The most there was."""
    memory_total_bytes: Reading | None = None
    power_w: Reading | None = None
    power_limit_w: Reading | None = None
    sm_clock_hz: Reading | None = None
    max_sm_clock_hz: Reading | None = None
    held_back: dict[str, Reading] = {}
    """Reason -> share of the time that it held the clock back."""
    link_share: Reading | None = None
    """Traffic to other GPUs and the host, of NVLink's or PCIe's bandwidth, whichever is fuller."""
    host_busy: Reading | None = None
    """Share of all the host's processors."""
    host_cores: int | None = None
    slices: list[ObservedSlice] = []
    reasons: dict[str, str] = {}

    @property
    def counted(self) -> bool:
        """Whether the hardware counters were there: multiprocessors and memory traffic."""
        return self.sm_active is not None and self.dram_bandwidth is not None

    @property
    def memory_share(self) -> float | None:
        """The most memory in use, of the total."""
        if self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return self.memory_used_bytes / self.memory_total_bytes

    @property
    def power_share(self) -> float | None:
        """Mean power, of the limit."""
        return self.power_w / self.power_limit_w if self.power_w is not None and self.power_limit_w else None

    @property
    def clock_share(self) -> float | None:
        """Mean clock, of the highest."""
        return self.sm_clock_hz / self.max_sm_clock_hz if self.sm_clock_hz is not None and self.max_sm_clock_hz else None


class ObservedSlice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One MIG slice over a window; its shares are of the slice."""

    profile: str
    uuid: str | None = None
    sm_active: Reading | None = None
    dram_bandwidth: Reading | None = None
    memory_used_bytes: Reading | None = None
    memory_total_bytes: Reading | None = None
