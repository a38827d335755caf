"""Observation of one GPU over a window: the input of right-sizing."""

from __future__ import annotations

import msgspec

from planner.numbers import Reading

MARGIN = 1.1
"""Factor on the observed use, for what another GPU or a slice has to have."""


class Observed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU over a window. Shares are between 0 and 1; values that were not observed are None, with the reason in `reasons`.

    Shares of counters, of clock and of what held it back are means over the readings in which something ran (over all where nothing
    did): they describe the work. `busy` is the share of such readings; power is the mean over all of them.
    """

    gpu: str
    """Catalogue's name, or the driver's where the catalogue does not have it."""
    index: int = 0
    host: str = ""
    """Empty: this machine."""
    uuid: str | None = None
    job: str = ""
    """Name of the work in a cluster's scheduler; empty if it is not known."""
    seconds: Reading
    """Time from the first reading to the last."""
    readings: int
    lost: int = 0
    """Readings in which the GPU did not answer."""

    busy: Reading | None = None
    """Share of readings in which something ran."""
    sm_active: Reading | None = None
    sm_occupancy: Reading | None = None
    tensor_active: Reading | None = None
    dram_bandwidth: Reading | None = None
    fp64_active: Reading | None = None
    fp32_active: Reading | None = None
    fp16_active: Reading | None = None
    kernel_resident: Reading | None = None
    memory_used_bytes: Reading | None = None
    """Largest value of the window."""
    memory_total_bytes: Reading | None = None
    power_w: Reading | None = None
    power_limit_w: Reading | None = None
    sm_clock_hz: Reading | None = None
    max_sm_clock_hz: Reading | None = None
    held_back: dict[str, Reading] = {}
    """Reason -> share of the time that it held the clock back."""
    link_share: Reading | None = None
    """Traffic to other GPUs and the host, as a share of the bandwidth of NVLink or PCIe, whichever is fuller."""
    host_busy: Reading | None = None
    """Share of all the host's processors."""
    host_cores: int | None = None
    slices: list[ObservedSlice] = []
    reasons: dict[str, str] = {}

    @property
    def counted(self) -> bool:
        """True if the hardware counters of multiprocessors and memory traffic were available."""
        return self.sm_active is not None and self.dram_bandwidth is not None

    @property
    def memory_share(self) -> float | None:
        """Largest use of memory, as a share of the total."""
        if self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return self.memory_used_bytes / self.memory_total_bytes

    @property
    def power_share(self) -> float | None:
        """Mean power, as a share of the limit."""
        return self.power_w / self.power_limit_w if self.power_w is not None and self.power_limit_w else None

    @property
    def clock_share(self) -> float | None:
        """Mean clock, as a share of the highest."""
        return self.sm_clock_hz / self.max_sm_clock_hz if self.sm_clock_hz is not None and self.max_sm_clock_hz else None


class ObservedSlice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One MIG slice over a window; its shares are of the slice."""

    profile: str
    uuid: str | None = None
    sm_active: Reading | None = None
    dram_bandwidth: Reading | None = None
    memory_used_bytes: Reading | None = None
    memory_total_bytes: Reading | None = None
