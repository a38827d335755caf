"""How a measurement reads in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.units import bytes_text, digits, si_text

if TYPE_CHECKING:
    from planner.hardware.measurements.measurement import Measurement


def value_text(one: Measurement) -> str:
    """Its value with its unit."""
    if one.kind == "memory":
        return bytes_text(one.value)
    if one.kind == "decode" and one.value is not None:
        return f"{digits(one.value)} token/s"
    return si_text(one.value, one.unit)
