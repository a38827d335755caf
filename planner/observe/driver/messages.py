"""Questions to the process that calls the driver, and its answers, each as one line of JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

from planner.observe.driver.nvml import NvmlState
from planner.observe.snapshot import CapabilityState, DeviceSnapshot

ListedProcesses = Literal["as before", "list", "none"]
"""Processes on each GPU in a reading: repeat the last list, list them now, or none."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request: a reading of every GPU, or with `facts` the facts that do not change while the driver runs."""

    facts: bool = False
    slow: bool = False
    """True to read the slow counters too."""
    processes: ListedProcesses = "as before"


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one GPU from the driver."""

    uuid: str
    """Identity of the GPU; indices change between boots."""
    index: int
    """NVML's index, in PCI order."""
    nvml_name: str
    memory_total_bytes: float | None
    """Total memory according to the driver; None on GPUs that share the system's memory."""
    compute_capability: str | None = None
    cuda_ordinal: int | None = None
    """N of 'cuda:N' under this process's environment; None: hidden, or not known."""
    mig_profiles: tuple[str, ...] | None = None
    """Profiles of the present slices: '1g.10gb'; None: not sliced."""
    power_limit_w: float | None = None
    """Power limit in force."""
    gpm_state: CapabilityState = "not supported"
    """'ok' when SM, tensor and bandwidth counters can be read, else the reason."""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer; the first is sent without a question when the driver is open or has refused."""

    state: NvmlState
    detail: str
    devices: tuple[DeviceSnapshot, ...] = ()
    facts: tuple[GpuFacts, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
