"""This machine as hardware that can be planned for: its CPU, and its GPUs matched to the catalogue."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.observe.cpu import read_cpu
from planner.units import UNKNOWN, bytes_text, si_text

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import GpuCatalogue
    from planner.observe.driver.device import NvmlDevice
    from planner.observe.driver.nvml import NvmlState
    from planner.observe.snapshot import CapabilityState


@dataclass(frozen=True, slots=True)
class LocalGpu:
    """One GPU the driver reports."""

    uuid: str
    """Its identity; indices change between boots."""
    index: int
    """NVML's, in PCI order."""
    nvml_name: str
    gpu: Gpu | None
    """The part in the catalogue; None when the catalogue does not have it."""
    memory_total_bytes: float | None
    """What the driver reports; None on GPUs that share the system's memory."""
    compute_capability: str | None = None
    pci_bus_id: str | None = None
    cuda_ordinal: int | None = None
    """N of 'cuda:N' under this process's environment; None: hidden, or not knowable."""
    mig_enabled: bool = False
    mig_profiles: tuple[str, ...] = ()
    """Profiles of the present slices: '1g.10gb'."""
    gpm_state: CapabilityState = "not supported"
    """'ok' when SM, tensor and bandwidth counters can be read, else what stands in the way."""

    @property
    def name(self) -> str:
        """The canonical name, or the driver's when the catalogue does not have it."""
        return self.gpu.name if self.gpu else self.nvml_name


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices that this process can use."""

    cpu: Gpu
    """A device of kind "cpu"; its rates are what its instruction set allows, until measured."""
    gpus: tuple[LocalGpu, ...]
    nvml_state: NvmlState
    """'ready', or why there are no GPUs: 'no driver', 'driver not loaded', 'version mismatch', 'no permission', 'error'."""
    nvml_detail: str
    """The same in one sentence."""
    driver_version: str | None = None
    cuda_version: str | None = None
    """The newest CUDA the driver runs."""

    @property
    def devices(self) -> tuple[Gpu, ...]:
        """The distinct parts of this machine that can be planned for: catalogue GPUs, then the CPU."""
        parts = {local.gpu.name: local.gpu for local in self.gpus if local.gpu is not None}
        return (*parts.values(), self.cpu)

    def describe(self) -> str:
        """A few lines for people."""
        rates = ", ".join(f"{dtype} {si_text(rate, 'FLOP/s')}" for dtype, rate in self.cpu.compute_flop_per_s.items()) or UNKNOWN
        lines = [
            f"{self.cpu.name}: {self.cpu.sm_count} cores, {bytes_text(self.cpu.memory_bytes)}, at most {rates} ({self.cpu.note})"
        ]
        if self.nvml_state != "ready":
            lines.append(self.nvml_detail)
        elif not self.gpus:
            lines.append("The NVIDIA driver reports no GPU")
        for local in self.gpus:
            known = "" if local.gpu else ", not in the catalogue"
            slices = f", MIG {' '.join(local.mig_profiles) or 'without slices'}" if local.mig_enabled else ""
            cuda = f", cuda:{local.cuda_ordinal}" if local.cuda_ordinal is not None else ""
            lines.append(f"GPU {local.index}: {local.name}, {bytes_text(local.memory_total_bytes)}{cuda}{slices}{known}")
        return "\n".join(lines)


def cpu_key(cpu: Gpu) -> str:
    """What the benchmark's fingerprints of this machine's processor begin with: its name, cores and instruction set."""
    import platform

    from bench.protocol import machine_key
    from planner.observe.host import usable_processors

    cores = usable_processors()
    return machine_key({"device": cpu.name, "cores": len(cores) if cores else os.cpu_count() or 1, "arch": platform.machine()})


def match_gpu(nvml_name: str, memory_total_bytes: float | None, gpus: GpuCatalogue) -> Gpu | None:
    """The catalogue's part for the name a driver reports, compared whole.

    None when no part has the name, or when the part that has it differs in memory from what the driver reports by more than the
    driver's own share (one name may be sold with two memory sizes).
    """
    part = gpus.find_nvml(nvml_name)
    for spelling in (nvml_name, nvml_name.removeprefix("NVIDIA ")):
        if part is None:
            with contextlib.suppress(UserError):
                part = gpus.find(spelling)
    if part is None or memory_total_bytes is None:
        return part
    return part if 0.8 <= memory_total_bytes / part.memory_bytes <= 1.1 else None


def read_machine(gpus: GpuCatalogue) -> Machine:
    """Look at this machine once. Never fails: without a driver there are no GPUs, and `nvml_detail` says why."""
    from planner.observe.driver.nvml import NVML_DETAILS, NvmlError, describe_failure
    from planner.observe.driver.session import DriverSession

    cpu = read_cpu()
    try:
        with DriverSession.open() as nvml:
            return Machine(
                cpu, _local_gpus(nvml.devices, gpus), "ready", NVML_DETAILS["ready"], nvml.driver_version, nvml.cuda_version
            )
    except NvmlError as error:
        return Machine(cpu, (), error.open_state, describe_failure(error))


def _local_gpus(devices: tuple[NvmlDevice, ...], gpus: GpuCatalogue) -> tuple[LocalGpu, ...]:
    from planner.observe.driver.cuda_order import cuda_ordinals

    known = [(device, device.identity) for device in devices if device.identity is not None]
    ordinals = cuda_ordinals([(identity.uuid, identity.name) for _, identity in known], os.environ)
    found = []
    for device, identity in known:
        profiles = device.mig_profiles()
        found.append(
            LocalGpu(
                uuid=identity.uuid,
                index=device.index,
                nvml_name=identity.name,
                gpu=match_gpu(identity.name, identity.memory_total_bytes, gpus),
                memory_total_bytes=identity.memory_total_bytes,
                compute_capability=identity.compute_capability,
                pci_bus_id=identity.pci_bus_id,
                cuda_ordinal=ordinals.get(identity.uuid),
                mig_enabled=profiles is not None,
                mig_profiles=profiles or (),
                gpm_state=device.probe_gpm(),
            )
        )
    return tuple(found)
