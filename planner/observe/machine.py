"""This machine as hardware to plan for: its CPU, and its GPUs matched to the catalogue."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import msgspec

from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue
from planner.hardware.catalogue.mig import profiles_of, slice_of
from planner.observe.cpu import read_cpu
from planner.observe.host import usable_processors
from planner.units import UNKNOWN, bytes_text, si_text

if TYPE_CHECKING:
    from planner.observe.driver.driver import Driver
    from planner.observe.driver.messages import GpuFacts
    from planner.observe.driver.nvml import NvmlState

UNCAPPED = 0.98
"""Share of the vendor's limit above which a limit has no effect: boards round theirs."""


class LocalGpu(msgspec.Struct, frozen=True):
    """One GPU reported by the driver."""

    facts: GpuFacts
    gpu: Gpu | None
    """The GPU in the catalogue; None if it is not there."""

    @property
    def name(self) -> str:
        """The canonical name, or the driver's when the GPU is not in the catalogue."""
        return self.gpu.name if self.gpu else self.facts.nvml_name

    @property
    def devices(self) -> tuple[Gpu, ...]:
        """Devices visible to programs: the GPU, or its slices; none in MIG mode without slices."""
        if self.gpu is None or self.facts.mig_profiles is None:
            return (self.gpu,) if self.gpu else ()
        profiles = {profile.name: profile for profile in profiles_of(self.gpu)}
        return tuple(slice_of(self.gpu, profiles[name]) for name in self.facts.mig_profiles if name in profiles)


class Machine(msgspec.Struct, frozen=True):
    """Devices that this process can use."""

    cpu: Gpu
    """A device of kind "cpu"; its rates follow from its instruction set until they are measured."""
    gpus: tuple[LocalGpu, ...]
    nvml_state: NvmlState
    """'ready', or the reason for having no GPUs: 'no driver', 'not answering', …"""
    nvml_detail: str
    """`nvml_state` in one sentence."""
    driver_version: str | None = None
    cuda_version: str | None = None
    """Newest CUDA version that the driver supports."""

    @property
    def silent(self) -> str:
        """Reason why an installed driver lists no GPU; empty if it answers, and without a driver."""
        return "" if self.nvml_state in {"ready", "no driver"} else self.nvml_detail

    @property
    def devices(self) -> tuple[Gpu, ...]:
        """Distinct devices of this machine that can be planned for: catalogue GPUs or their slices, then the CPU."""
        parts = {device.name: device for local in self.gpus for device in local.devices}
        return (*parts.values(), self.cpu)

    @property
    def power_limits_w(self) -> dict[str, float]:
        """Lowest power limit in force of each whole GPU, by name, where it is below the default."""
        found: dict[str, float] = {}
        for local in self.gpus:
            limit, part = local.facts.power_limit_w, local.gpu
            if part is not None and limit and part.tdp_w and limit < part.tdp_w * UNCAPPED and local.facts.mig_profiles is None:
                found[part.name] = min(limit, found.get(part.name, limit))
        return found

    def describe(self) -> str:
        """Description in a few lines of text."""
        rates = ", ".join(f"{dtype} {si_text(rate, 'FLOP/s')}" for dtype, rate in self.cpu.compute_flop_per_s.items()) or UNKNOWN
        lines = [
            f"{self.cpu.name}: {self.cpu.sm_count} cores, {bytes_text(self.cpu.memory_bytes)}, at most {rates} ({self.cpu.note})"
        ]
        if self.nvml_state != "ready":
            lines.append(self.nvml_detail)
        elif not self.gpus:
            lines.append("The NVIDIA driver reports no GPU")
        for local in self.gpus:
            facts, known = local.facts, "" if local.gpu else ", not in the catalogue"
            slices = "" if facts.mig_profiles is None else f", MIG {' '.join(facts.mig_profiles) or 'without slices'}"
            cuda = f", cuda:{facts.cuda_ordinal}" if facts.cuda_ordinal is not None else ""
            limit = self.power_limits_w.get(local.name)
            cap = f", limited to {limit:.0f} W" if limit else ""
            lines.append(f"GPU {facts.index}: {local.name}, {bytes_text(facts.memory_total_bytes)}{cuda}{slices}{cap}{known}")
        return "\n".join(lines)


def cpu_key(cpu: Gpu) -> str:
    """Beginning of the benchmark's fingerprints of this machine's processor: its name, cores and instruction set."""
    from bench.protocol import machine_key

    cores = usable_processors()
    return machine_key({"device": cpu.name, "cores": len(cores) if cores else os.cpu_count() or 1, "arch": platform.machine()})


def match_gpu(nvml_name: str, memory_total_bytes: float | None, gpus: GpuCatalogue) -> Gpu | None:
    """Catalogue's GPU with exactly the name that a driver reports; None without one.

    None also when the memory differs by more than the driver's own share, because one name may be sold with two memory sizes.
    """
    part = gpus.find_nvml(nvml_name)
    for spelling in (nvml_name, nvml_name.removeprefix("NVIDIA ")):
        if part is None:
            part = gpus.known(spelling)
    if part is None or memory_total_bytes is None:
        return part
    return part if 0.8 <= memory_total_bytes / part.memory_bytes <= 1.1 else None


def read_machine(gpus: GpuCatalogue, started: Driver | None = None) -> Machine:
    """Inspect this machine once. Never fails: without a driver there are no GPUs, and `nvml_detail` is the reason.

    `started`: a driver started earlier, which is closed here.
    """
    from planner.observe.driver.driver import Driver, DriverError

    cpu = read_cpu()
    try:
        with started or Driver.start() as driver:
            driver_facts = driver.facts()
    except DriverError as error:
        return Machine(cpu, (), error.state, error.detail)
    found = tuple(LocalGpu(facts, match_gpu(facts.nvml_name, facts.memory_total_bytes, gpus)) for facts in driver_facts.facts)
    return Machine(cpu, found, driver_facts.state, driver_facts.detail, driver_facts.driver_version, driver_facts.cuda_version)
