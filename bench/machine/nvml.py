"""NVIDIA's management library around a timed region of one GPU: clocks, power, energy, throttling, hardware counters.

It is called through ctypes, so that another interpreter needs only torch. It is read once before the first sample and once after
the last, never in between, because a call during the timed region could disturb it (a result states `readings`: 2). Missing values are left
out; nothing here ends a run.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SM_CLOCK, MEMORY_CLOCK = 1, 2
POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT, in mW."""
POWER_CAP, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 74, 269, 270, 271
"""Fields of nvmlDeviceGetFieldValues: nanoseconds the clocks were held down, and by what."""
THROTTLING = {SW_THERMAL: "heat", HW_THERMAL: "heat (hardware)", POWER_BRAKE: "the power brake"}
THROTTLED_SHARE = 0.01
"""Share of the timed region held down by heat or a brake above which a figure is not the device's own. The power cap is part of the board,
so it does not count."""
SLOWED, REASON_BITS = 0x8, {SW_THERMAL: 0x20, HW_THERMAL: 0x40, POWER_BRAKE: 0x80}
"""HwSlowdown, SwThermal, HwThermal, HwPowerBrake of nvmlDeviceGetCurrentClocksEventReasons, used where the counter of a cause does
not answer."""
LEAST_ENERGY_S = 1.0
"""Shortest region with an energy figure: the counter moves only every few milliseconds."""
GPM_METRICS = {2: "sm_active", 3: "sm_occupancy", 5: "tensor_active", 10: "dram_active"}
"""Counters of Hopper and later, in percent of the time between two samples."""
GPM_LEAST_S = 0.11
BUSY_PERCENT = 5
"""Percent of a second in which kernels of others run while this process rests, above which the GPU counts as shared."""
LOOKS, BETWEEN_LOOKS_S = 3, 0.25
"""Number of readings of which the smallest counts, and seconds between them: a desktop draws, and memory is scrubbed, for less than a second at a time."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _MemoryV2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Value(ctypes.Union):
    _fields_ = (("real", ctypes.c_double), ("small", ctypes.c_uint), ("whole", ctypes.c_ulonglong), ("signed", ctypes.c_longlong))


class _Field(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("type", ctypes.c_uint),
        ("code", ctypes.c_int),
        ("value", _Value),
    )


class _GpmMetric(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("code", ctypes.c_int), ("value", ctypes.c_double), ("names", ctypes.c_char_p * 3))


class _GpmRequest(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("earlier", ctypes.c_void_p),
        ("later", ctypes.c_void_p),
        ("metrics", _GpmMetric * 333),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """State of the device at one moment."""

    at_s: float
    figures: dict[str, float]
    """Available figures: sm_clock_hz, memory_clock_hz, power_w, energy_j, temperature_c, reasons, used_bytes."""
    held_ns: dict[int, int]
    """Throttle counter -> nanoseconds since the driver was loaded."""


class Meter:
    """One GPU through NVML, open until `close`."""

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._nvml = library
        self._handle = handle
        self._samples = self._gpm_samples()

    @classmethod
    def open(cls, uuid: str | None) -> Meter | None:
        """Open the GPU with that UUID ('GPU-' optional), or the only one; None without NVML, without that GPU, or where MIG slices share it."""
        library = _library()
        if library is None:
            return None
        wanted = (uuid or "").lower().removeprefix("gpu-")
        handles = list(_handles(library))
        chosen = [handle for handle, name in handles if not wanted or name == wanted]
        if len(chosen) == 1 and not _sliced(library, chosen[0]):
            return cls(library, chosen[0])
        library.nvmlShutdown()
        return None

    def read(self) -> Reading:
        """Read the device."""
        figures = {
            "sm_clock_hz": self._whole("nvmlDeviceGetClockInfo", SM_CLOCK, scale=1e6),
            "memory_clock_hz": self._whole("nvmlDeviceGetClockInfo", MEMORY_CLOCK, scale=1e6),
            "power_w": self._power_w(),
            "power_limit_w": self._whole("nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
            "energy_j": self._whole("nvmlDeviceGetTotalEnergyConsumption", kind=ctypes.c_ulonglong, scale=1e-3),
            "temperature_c": self._whole("nvmlDeviceGetTemperature", 0),
            "reasons": self._reasons(),
            "used_bytes": self.used_bytes(),
        }
        known = {name: value for name, value in figures.items() if value is not None}
        return Reading(time.perf_counter(), known, self._held())

    def used_bytes(self) -> float | None:
        """Bytes of device memory in use by all processes, without the driver's reserve where the driver reports it."""
        both = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if self._call("nvmlDeviceGetMemoryInfo_v2", ctypes.byref(both)):
            return float(both.used)
        one = _Memory()
        return float(one.used) if self._call("nvmlDeviceGetMemoryInfo", ctypes.byref(one)) else None

    def busy_percent(self) -> int | None:
        """Percent of a second in which a kernel of any process ran: the smallest of three readings, which end early once one is low."""
        least: int | None = None
        rates = _Utilization()
        for look in range(LOOKS):
            if look:
                time.sleep(BETWEEN_LOOKS_S)
            if not self._call("nvmlDeviceGetUtilizationRates", ctypes.byref(rates)):
                break
            least = int(rates.gpu) if least is None else min(least, int(rates.gpu))
            if least <= BUSY_PERCENT:
                break
        return least

    def mark(self, place: int) -> None:
        """Take the first (0) or second (1) sample of the hardware counters."""
        if self._samples:
            self._call("nvmlGpmSampleGet", self._samples[place])

    def counters(self) -> dict[str, float]:
        """Hardware counters between the two samples, as shares of 1; empty before Hopper, or where they are not offered."""
        if not self._samples:
            return {}
        request = _GpmRequest(version=1, count=len(GPM_METRICS), earlier=self._samples[0], later=self._samples[1])
        for place, number in enumerate(GPM_METRICS):
            request.metrics[place].id = number
        try:
            if self._nvml.nvmlGpmMetricsGet(ctypes.byref(request)) != 0:
                return {}
        except AttributeError:
            return {}
        found = {}
        for metric in request.metrics[: len(GPM_METRICS)]:
            if metric.code == 0 and metric.value == metric.value:  # not NaN
                found[GPM_METRICS[metric.id]] = round(metric.value / 100, 4)
        return found

    def close(self) -> None:
        """Close the library."""
        with contextlib.suppress(AttributeError):
            for sample in self._samples:
                self._nvml.nvmlGpmSampleFree(sample)
            self._nvml.nvmlShutdown()
        self._samples = []

    def _gpm_samples(self) -> list[ctypes.c_void_p]:
        """Two buffers for hardware counters; none if the device has none."""
        samples = []
        try:
            for _ in range(2):
                sample = ctypes.c_void_p()
                if self._nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)) == 0:
                    samples.append(sample)
            if len(samples) == 2 and self._nvml.nvmlGpmSampleGet(self._handle, samples[0]) == 0:
                return samples
            for sample in samples:
                self._nvml.nvmlGpmSampleFree(sample)
        except AttributeError:
            pass
        return []

    def _call(self, name: str, *arguments: Any) -> bool:
        try:
            return bool(getattr(self._nvml, name)(self._handle, *arguments) == 0)
        except AttributeError:
            return False

    def _whole(self, name: str, *arguments: int, kind: Any = ctypes.c_uint, scale: float = 1.0) -> float | None:
        found = kind()
        return found.value * scale if self._call(name, *arguments, ctypes.byref(found)) else None

    def _power_w(self) -> float | None:
        """Present power; for a driver without that field its power call, which is the mean of a second since Ampere."""
        if instant := self._fields((POWER_INSTANT,)).get(POWER_INSTANT):
            return instant * 1e-3
        return self._whole("nvmlDeviceGetPowerUsage", scale=1e-3)

    def _reasons(self) -> float | None:
        found = self._whole("nvmlDeviceGetCurrentClocksEventReasons", kind=ctypes.c_ulonglong)
        return found if found is not None else self._whole("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)

    def _held(self) -> dict[int, int]:
        return self._fields((POWER_CAP, *THROTTLING))

    def _fields(self, ids: tuple[int, ...]) -> dict[int, int]:
        """Whole-number fields of the driver, by their numbers; only those it answers."""
        fields = (_Field * len(ids))()
        for field, number in zip(fields, ids, strict=True):
            field.id = number
        if not self._call("nvmlDeviceGetFieldValues", len(ids), fields):
            return {}
        return {int(field.id): int(field.value.whole) for field in fields if field.code == 0}


def between(first: Reading, last: Reading) -> tuple[dict[str, Any], str]:
    """Telemetry of the region between two readings, and the reason why its figures are not the device's own ('' where they are)."""
    seconds = max(last.at_s - first.at_s, 1e-9)
    figures: dict[str, Any] = {name: last.figures[name] for name in ("power_limit_w", "temperature_c") if name in last.figures}
    for name in ("sm_clock_hz", "memory_clock_hz", "power_w"):
        if name in first.figures and name in last.figures:
            figures[name] = (first.figures[name] + last.figures[name]) / 2
    if seconds >= LEAST_ENERGY_S and "energy_j" in first.figures and "energy_j" in last.figures:
        figures["energy_j"] = last.figures["energy_j"] - first.figures["energy_j"]
        figures["power_w"] = figures["energy_j"] / seconds
    held = {
        number: (last.held_ns[number] - before) / 1e9 / seconds
        for number, before in first.held_ns.items()
        if number in last.held_ns
    }
    if POWER_CAP in held:
        figures["power_limited_share"] = round(min(1.0, held[POWER_CAP]), 4)
    why = [f"{what} {held[number]:.0%} of the time" for number, what in THROTTLING.items() if held.get(number, 0) > THROTTLED_SHARE]
    bits = int(last.figures.get("reasons", 0))
    figures["event_reasons"] = bits
    uncounted = sum(bit for number, bit in REASON_BITS.items() if number not in held)
    if uncounted == sum(REASON_BITS.values()):
        uncounted |= SLOWED
    if bits & uncounted:
        why.append(f"clocks are held down (event reasons {bits:#x})")
    return figures, f"held down by {', '.join(why)}" if why else ""


def _library() -> Any:
    """Initialised library; None without it, or without a driver."""
    try:
        library = ctypes.CDLL(LIBRARY)
        return library if library.nvmlInitWithFlags(0) == 0 else None
    except (OSError, AttributeError):
        return None


def _handles(library: Any) -> Iterator[tuple[ctypes.c_void_p, str]]:
    """Handle of every GPU by its UUID, in lower case without 'gpu-'."""
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return
    for index in range(count.value):
        handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
            library.nvmlDeviceGetUUID(handle, name, len(name))
            yield handle, name.value.decode(errors="replace").lower().removeprefix("gpu-")


def _sliced(library: Any, handle: ctypes.c_void_p) -> bool:
    """True if MIG is on."""
    now, pending = ctypes.c_uint(), ctypes.c_uint()
    try:
        return library.nvmlDeviceGetMigMode(handle, ctypes.byref(now), ctypes.byref(pending)) == 0 and now.value == 1
    except AttributeError:
        return False


def memory_in_use() -> dict[str, float]:
    """UUID (lower case, without 'gpu-') -> bytes in use by all processes; empty without NVML."""
    library = _library()
    if library is None:
        return {}
    found = {}
    for handle, uuid in _handles(library):
        both = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        with contextlib.suppress(AttributeError):
            if library.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(both)) == 0:
                found[uuid] = float(both.used)
    library.nvmlShutdown()
    return found
