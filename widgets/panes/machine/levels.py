"""Figures of a GPU that have a history: their fractions, and from where on a gauge warns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot, MigSnapshot

BUSY_COUNTERS = (
    ("SM active", "sm_active_fraction"),
    ("tensor", "tensor_active_fraction"),
    ("DRAM traffic", "dram_bandwidth_fraction"),
    ("occupancy", "sm_occupancy_fraction"),
)
FALLBACK_COUNTERS = (("kernel resident", "kernel_resident_fraction"), ("memory active", "memory_active_fraction"))
"""Figures of GPUs without hardware counters: shares of time, not of the GPU."""
HOTTEST_C = 100.0
"""End of the scale of temperatures."""
WARNINGS: Mapping[str, tuple[float, float]] = {"memory": (0.9, 0.98), "power": (0.95, 1.1), "temperature": (0.8, 0.88)}
"""Figure -> fraction from which it is drawn as a warning, and as an alarm. H100s slow down from about 87 °C on, and programs fail
when memory ends; power at its limit costs speed, so that it never is an alarm. Conventions of this program, not limits of a part."""
NO_FAULT = ("idle", "application clocks", "display clocks", "sync boost")
"""Reasons of a lower clock that somebody chose, or that cost nothing."""


def counters(device: DeviceSnapshot) -> Sequence[tuple[str, str]]:
    """(label, field) of the figures of how busy a GPU is: hardware counters where there are any, else shares of time."""
    return BUSY_COUNTERS if device.sm_active_fraction is not None else FALLBACK_COUNTERS


def shown_counters(device: DeviceSnapshot) -> Sequence[tuple[str, str]]:
    """The same; none of a divided GPU that reports none: its slices have figures of their own."""
    found = counters(device)
    return found if not device.mig or any(getattr(device, name) is not None for _, name in found) else ()


def slice_name(one: MigSnapshot) -> str:
    """A slice with the number of its instance: 'MIG 7 1g.10gb'."""
    return f"MIG {one.profile}" if one.gpu_instance is None else f"MIG {one.gpu_instance} {one.profile}"


def activities(device: DeviceSnapshot) -> Sequence[tuple[str, float | None]]:
    """(label, fraction) of these figures."""
    return [(label, getattr(device, name)) for label, name in counters(device)]


def history_values(device: DeviceSnapshot) -> dict[str, float | None]:
    """Figures of a reading that histories keep, as fractions."""
    values: dict[str, float | None] = {name: getattr(device, name) for _, name in (*BUSY_COUNTERS, *FALLBACK_COUNTERS)}
    values["activity"] = activities(device)[0][1]
    values["memory"] = share(device.memory_used_bytes, device.memory_total_bytes)
    values["power"] = share(device.drawn_power_w, device.power_limit_w)
    values["clock"] = share(device.sm_clock_hz, device.max_sm_clock_hz)
    values["temperature"] = share(device.temperature_c, HOTTEST_C)
    values |= {slice_name(one): one.sm_active_fraction for one in device.mig}
    values["held"] = None if device.event_reasons is None else float(bool(held_back_by(device)))
    return values


def held_back_by(device: DeviceSnapshot) -> list[str]:
    """Reasons of a lower clock that cost speed."""
    return [reason for reason in device.event_reasons or () if reason not in NO_FAULT]


def share(part: float | None, whole: float | None) -> float | None:
    """`part` of `whole`; None if either is unknown."""
    return part / whole if part is not None and whole else None


def style_of(name: str, fraction: float | None) -> str:
    """Colour of a figure at a fraction of its scale."""
    warning, alarm = WARNINGS.get(name, (2.0, 2.0))
    if fraction is None or fraction < warning:
        return "$primary"
    return "$text-warning" if fraction < alarm else "$text-error"
