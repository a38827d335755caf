"""AMD's management library with the interface of NVIDIA's: the only module that calls `amdsmi`. Tested only with a substitute.

It reads, for each GPU, memory, the shares of time in which shaders and memory work, power, clocks, temperature and energy. Other fields of
a snapshot have no counterpart that is known to mean the same. Sources: docs/reference/amdsmi-py-api.md of ROCm/amdsmi and the fields of
`amdsmi_gpu_metrics_t` (read 2026-11-23).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, Self

from planner.observe.driver.messages import GpuFacts
from planner.observe.driver.nvml import NvmlError
from planner.observe.driver.processes import ProcessTable
from planner.observe.driver.reading import Reading
from planner.observe.snapshot import CapabilityState, DeviceSnapshot
from planner.units import MEGA

READY = "AMD SMI answers"
ABSENT_16_BIT = 0xFFFF
"""Largest number of a 16-bit field, which means that there is no value."""
MICRO = 1e-6
METRICS = {
    "kernel_resident_fraction": ("average_gfx_activity", 0.01),
    "memory_active_fraction": ("average_umc_activity", 0.01),
    "power_w": ("current_socket_power", 1.0),
    "power_average_w": ("average_socket_power", 1.0),
    "temperature_c": ("temperature_hotspot", 1.0),
    "memory_temperature_c": ("temperature_mem", 1.0),
    "sm_clock_hz": ("current_gfxclk", MEGA),
    "memory_clock_hz": ("current_uclk", MEGA),
}
"""Field of a snapshot -> field of amdsmi_get_gpu_metrics_info, and the factor that converts it to SI."""


class AmdDevice:
    """One AMD GPU."""

    def __init__(self, session: AmdSession, index: int, handle: Any) -> None:
        self._session, self._handle = session, handle
        self.index = index
        self.identity = self._identify()

    def _identify(self) -> GpuFacts | None:
        """Identity of a GPU; None if it reports none."""
        uuid, info = self._session.ask("amdsmi_get_gpu_device_uuid", self._handle), self._asked("amdsmi_get_gpu_asic_info")
        if not isinstance(uuid, str):
            return None
        return GpuFacts(
            uuid=uuid,
            index=self.index,
            nvml_name=str(info.get("market_name") or "unnamed GPU"),
            memory_total_bytes=self._memory("amdsmi_get_gpu_memory_total"),
        )

    def snapshot(self, *, slow: bool, cuda_ordinal: int | None = None) -> DeviceSnapshot:
        """Read all values; `slow` changes nothing, because all of them come from one or two calls."""
        del slow
        reading = Reading()
        metrics = self._asked("amdsmi_get_gpu_metrics_info")
        for field, (name, scale) in METRICS.items():
            value = _number(metrics.get(name))
            reading.set(field, None if value is None else value * scale, "not reported by this GPU")
        energy = self._asked("amdsmi_get_energy_count")
        ticks, resolution = _number(energy.get("energy_accumulator"), widest=None), _number(energy.get("counter_resolution"))
        reading.set(
            "energy_j", None if ticks is None or resolution is None else ticks * resolution * MICRO, "not reported by this GPU"
        )
        total, used = (self._memory(f"amdsmi_get_gpu_memory_{what}") for what in ("total", "usage"))
        reading.set("memory_total_bytes", total)
        reading.set("memory_used_bytes", used)
        reading.set("memory_free_bytes", None if total is None or used is None else total - used)
        known = self.identity
        return DeviceSnapshot(
            index=self.index,
            uuid=known.uuid if known else None,
            name=known.nvml_name if known else None,
            cuda_ordinal=cuda_ordinal,
            state="ok" if known else "error",
            reasons=reading.reasons,
            slow_age_s=0.0,
            **reading.values,
        )

    def _memory(self, function: str) -> float | None:
        kind = getattr(self._session.module, "AmdSmiMemoryType", None)
        return _number(self._session.ask(function, self._handle, kind.VRAM), widest=None) if kind is not None else None

    def _asked(self, function: str) -> dict[str, Any]:
        answer = self._session.ask(function, self._handle)
        return answer if isinstance(answer, dict) else {}

    def mig_profiles(self) -> None:
        """None: no GPU of AMD has slices of NVIDIA's kind."""

    def power_limit_w(self) -> None:
        """None: releases of the library differ in its unit, so it is not read."""

    def probe_gpm(self) -> CapabilityState:
        """State of hardware counters, which only NVIDIA has."""
        return "not supported"

    def read_processes(self, table: ProcessTable | None) -> None:
        """Do nothing: processes are not listed."""


class AmdSession:
    """An open session with AMD's library and its GPUs; a context manager. Made by `AmdSession.open()`."""

    ready = READY
    cuda_version = None

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        handles = self.ask("amdsmi_get_processor_handles") or []
        self.devices = tuple(AmdDevice(self, index, handle) for index, handle in enumerate(handles))

    @classmethod
    def open(cls) -> Self:
        """Open the library; raises `NvmlError` if it does not start."""
        try:
            import amdsmi  # type: ignore[import-not-found,unused-ignore]  # an extra

            amdsmi.amdsmi_init()
        except Exception as refused:  # noqa: BLE001  # its own exceptions, and those of a library that does not load
            raise NvmlError("error", None, f"amdsmi_init: {refused}") from None
        return cls(amdsmi)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Answer of one call; None if the library has no such function or refuses."""
        routine: Callable[..., Any] | None = getattr(self.module, function, None)
        try:
            return routine(*arguments) if routine is not None else None
        except Exception:  # noqa: BLE001  # AmdSmiException, and what ctypes raises of another release
            return None

    @property
    def driver_version(self) -> str | None:
        """Version of the kernel's driver."""
        info = self.ask("amdsmi_get_gpu_driver_info", self.devices[0]._handle) if self.devices else None  # noqa: SLF001  # its own
        return str(info["driver_version"]) if isinstance(info, dict) and info.get("driver_version") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(Exception):
            self.module.amdsmi_shut_down()


def _number(value: Any, widest: int | None = ABSENT_16_BIT) -> float | None:
    """`value` as a number; None for 'N/A' and for the largest number of its field."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return None if widest is not None and value >= widest else float(value)
