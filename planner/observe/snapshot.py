"""One reading of telemetry: frozen records in SI units and fractions; a missing value is None and has a reason."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MOST = 1e18
"""Largest plausible reading, in bytes, joules, hertz or any other unit here."""
Reading = Annotated[float, Meta(ge=-MOST, le=MOST)]
Number = Annotated[int, Meta(ge=-(10**12), le=10**12)]
Total = Annotated[int, Meta(ge=0, le=10**18)]
"""A count of faults since some time."""

CapabilityState = Literal["ok", "not supported", "no permission", "function missing", "stale", "lost", "error"]
"""State of one counter of one device after it was read."""
REASON_TEXTS: dict[CapabilityState, str] = {
    "ok": "no value",
    "not supported": "not supported by this GPU",
    "no permission": "not permitted for this user or container",
    "function missing": "not in this driver version",
    "stale": "the driver did not answer in time",
    "lost": "the GPU is lost: it fell off the bus or needs a reset",
    "error": "the driver reported an error",
}

ListedKind = Literal["compute", "graphics"]
"""Kinds that the driver lists separately."""
ProcessKind = Literal["compute", "graphics", "compute and graphics"]


class HostSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Computer of the GPUs."""

    cpu_name: str
    """Empty: not known (an exporter describes GPUs only)."""
    cpu_cores: Number | None
    """Logical CPUs the system runs."""
    cpu_busy_fraction: Reading | None = None
    """Busy share of all logical CPUs since the previous snapshot."""
    memory_total_bytes: Reading | None = None
    memory_used_bytes: Reading | None = None
    """Total less the memory available to a new program."""
    reasons: dict[str, str] = {}


NO_HOST = HostSnapshot(cpu_name="", cpu_cores=None)
"""Host in readings that only describe GPUs."""


class MigSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slice of a multi-instance GPU."""

    uuid: str | None
    profile: str
    """'1g.10gb', from the name the driver gives it."""
    gpu_instance: Number | None = None
    compute_instance: Number | None = None
    sm_count: Number | None = None
    memory_total_bytes: Reading | None = None
    memory_reserved_bytes: Reading | None = None
    memory_used_bytes: Reading | None = None
    memory_free_bytes: Reading | None = None
    sm_active_fraction: Reading | None = None
    sm_occupancy_fraction: Reading | None = None
    tensor_active_fraction: Reading | None = None
    dram_bandwidth_fraction: Reading | None = None
    graphics_active_fraction: Reading | None = None
    reasons: dict[str, str] = {}


class ProcessSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on a GPU."""

    pid: Number
    """Process number in the driver's count, which is the host's even in a container."""
    kind: ProcessKind
    memory_bytes: Reading | None = None
    """GPU memory it uses."""
    name: str | None = None
    command: str | None = None
    user: str | None = None
    gpu_instance: Number | None = None
    """The slice it runs on."""
    compute_instance: Number | None = None
    reasons: dict[str, str] = {}


class DeviceSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU. Fractions are 0-1; counters of the slow tier are as old as `slow_age_s`."""

    index: Number
    """NVML's index, in PCI order; not CUDA's."""
    host: str | None = None
    """Computer of the GPU, for sources that cover several; their indices may be equal."""
    uuid: str | None = None
    name: str | None = None
    cuda_ordinal: Number | None = None
    """N of 'cuda:N' under this process's environment; None: hidden, or not known."""
    state: str
    """'ok', or why the whole device does not answer: 'lost', 'no permission', …"""

    graphics_active_fraction: Reading | None = None
    sm_active_fraction: Reading | None = None
    """Share of the multiprocessors' cycles with at least one warp."""
    sm_occupancy_fraction: Reading | None = None
    """Active warps ÷ the most possible."""
    tensor_active_fraction: Reading | None = None
    dram_bandwidth_fraction: Reading | None = None
    """Share of the theoretical memory bandwidth."""
    integer_active_fraction: Reading | None = None
    fp64_active_fraction: Reading | None = None
    fp32_active_fraction: Reading | None = None
    fp16_active_fraction: Reading | None = None
    pcie_tx_bytes_per_s: Reading | None = None
    pcie_rx_bytes_per_s: Reading | None = None
    nvlink_rx_bytes_per_s: Reading | None = None
    nvlink_tx_bytes_per_s: Reading | None = None
    counter_window_s: Reading | None = None
    """Time over which the averages above are taken."""

    kernel_resident_fraction: Reading | None = None
    """Share of time with a kernel running (nvidia-smi's GPU-Util), however little of the GPU it used."""
    memory_active_fraction: Reading | None = None
    """Share of time the memory was read or written; neither bandwidth nor capacity."""
    memory_total_bytes: Reading | None = None
    memory_reserved_bytes: Reading | None = None
    """Memory that the driver keeps for itself."""
    memory_used_bytes: Reading | None = None
    memory_free_bytes: Reading | None = None
    power_w: Reading | None = None
    """Instantaneous power."""
    power_average_w: Reading | None = None
    """Mean power over the last second."""
    power_limit_w: Reading | None = None
    energy_j: Reading | None = None
    """Energy since the driver was loaded."""
    sm_clock_hz: Reading | None = None
    max_sm_clock_hz: Reading | None = None
    memory_clock_hz: Reading | None = None
    temperature_c: Reading | None = None
    memory_temperature_c: Reading | None = None
    event_reasons: tuple[str, ...] | None = None
    """Reasons why the clock is below its highest at this moment."""
    throttled_s: dict[str, Reading] | None = None
    """Reason -> time held back since the driver was loaded."""
    throttled_fraction: dict[str, Reading] | None = None
    """Reason -> share of the last slow interval held back."""
    pcie_generation: Number | None = None
    """Present generation, which falls when idle."""
    pcie_width: Number | None = None
    pcie_max_generation: Number | None = None
    pcie_max_width: Number | None = None
    persistence_mode: bool | None = None
    ecc_corrected_volatile: Total | None = None
    """Errors of memory and caches, since the driver was loaded."""
    ecc_uncorrected_volatile: Total | None = None
    ecc_corrected_aggregate: Total | None = None
    """Corrected errors in the GPU's life."""
    ecc_uncorrected_aggregate: Total | None = None
    remapped_rows_correctable: Total | None = None
    """Rows of memory replaced by spare ones, from Ampere on."""
    remapped_rows_uncorrectable: Total | None = None
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    retired_pages_single_bit: Total | None = None
    """Pages taken out of use, before Ampere."""
    retired_pages_double_bit: Total | None = None
    page_retirement_pending: bool | None = None
    health_warnings: tuple[str, ...] = ()
    """Faults of the memory: 'row remap pending', … (`planner.observe.health`)."""
    processes: tuple[ProcessSnapshot, ...] | None = None
    """Who uses it, the largest memory first; None unless processes are listed."""
    mig_enabled: bool | None = None
    mig: tuple[MigSnapshot, ...] = ()
    slow_age_s: Reading | None = None
    reasons: dict[str, str] = {}
    """Field -> why it is None."""

    @property
    def place(self) -> str:
        """'0'; 'node-a 0' where there are several computers."""
        return f"{self.host} {self.index}" if self.host else str(self.index)

    @property
    def drawn_power_w(self) -> float | None:
        """Instantaneous power where the driver gives it, else the average."""
        return self.power_average_w if self.power_w is None else self.power_w

    def why(self, field: str) -> str:
        """Reason why `field` is None."""
        if self.state != "ok":
            return next((text for state, text in REASON_TEXTS.items() if state == self.state), self.state)
        return self.reasons.get(field, "not read yet")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that one tick of the poller read."""

    taken_at: str
    """UTC, ISO 8601, when the tick began; empty for a log that states no date."""
    taken_at_s: Reading
    """Start of the tick on the monotonic clock."""
    collect_s: Reading
    """Duration of the reading."""
    interval_s: Reading
    """Present time from one reading to the next, longer while a benchmark measures; 0 for a single reading."""
    nvml_state: str
    """'ready', or why there are no GPUs ('no driver', …)."""
    nvml_detail: str
    host: HostSnapshot
    devices: tuple[DeviceSnapshot, ...] = ()
    source: str | None = None
    """Source other than this machine at present: 'demo', 'replay FILE', the address of an exporter."""

    @property
    def badge(self) -> str | None:
        """`source` as shown on screen: 'DEMO', 'REPLAY run.jsonl'; None for this machine at present."""
        if self.source is None or self.source.startswith("http"):
            return self.source
        kind, space, rest = self.source.partition(" ")
        return f"{kind.upper()}{space}{rest}"

    def without_processes(self) -> Snapshot:
        """The same snapshot without the processes on the GPUs."""
        if all(device.processes is None for device in self.devices):
            return self
        devices = tuple(msgspec.structs.replace(device, processes=None) for device in self.devices)
        return msgspec.structs.replace(self, devices=devices)

    def age_s(self, now_s: float) -> float:
        """Time since the tick began; `now_s` is the monotonic clock."""
        return max(0.0, now_s - self.taken_at_s)

    def stale_for_s(self, now_s: float) -> float | None:
        """Seconds without an answer beyond two intervals and a half second; None while readings are fresh."""
        age = self.age_s(now_s)
        return age if age > 2 * self.interval_s + 0.5 else None
