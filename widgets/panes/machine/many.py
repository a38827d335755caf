"""Many GPUs: a line each with a history, or a strip of figures where even that is too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from planner.units import UNKNOWN, bytes_text, number_text, percent_text
from widgets.drawing.text import shorten_end
from widgets.panes.machine.gpu import power_text
from widgets.panes.machine.levels import activities, held_back_by, history_values, share, style_of

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot
    from widgets.panes.machine.gpu import Drawing
    from widgets.panes.machine.history import History

LEAST_SPARK = 3
STRIP_LABEL, STRIP_CELL = 13, 5
LOW = 0.1
"""Fraction of the scale below which a GPU is drawn as one that does nothing."""


def short_line(device: DeviceSnapshot, history: History, drawing: Drawing) -> Content:
    """A GPU in one line: as much of it as there is room for."""
    if device.state != "ok":
        return Content.assemble((f"{device.index:>2}  ", "$quiet"), (device.why("name"), "$text-error"))
    _, value = activities(device)[0]
    sizes = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
    part = percent_text(share(device.memory_used_bytes, device.memory_total_bytes))
    power, drawn = power_text(device), number_text(device.drawn_power_w, "W")
    degrees = f"{number_text(device.temperature_c, '°C'):>6}"
    options = (
        f"  {sizes:>15}  {power:>11}  {degrees}",
        f"  {part:>5}  {power:>11}  {degrees}",
        f"  {part:>5}  {drawn:>6}  {degrees}",
    )
    head, spark = 11, LEAST_SPARK
    text = next((option for option in options if head + spark + len(option) + 2 <= drawing.width), f"  {part:>5}")
    sign = (f" {drawing.symbols.warning}", "bold $text-error") if device.health_warnings else ("", "")
    room = max(spark, drawing.width - len(text) - head - 2)
    return Content.assemble(
        (f"{device.index:>2}  ", "$quiet"), f"{percent_text(value):>5} ", drawing.spark(history, "activity", room), text, sign
    )


def short_head(device: DeviceSnapshot, drawing: Drawing) -> Content:
    """Columns of such lines."""
    label, _ = activities(device)[0]
    told = f"GPU {label}, memory, power, temperature"
    return Content.styled(shorten_end(told, drawing.width, drawing.symbols.ellipsis), "$quiet")


def strip(devices: Sequence[DeviceSnapshot], drawing: Drawing) -> Iterator[Content]:
    """Every GPU in a column of a few cells, as many beside each other as there is room for: its figures in percent."""
    across = max(1, (drawing.width - STRIP_LABEL) // STRIP_CELL)
    for first in range(0, len(devices), across):
        some = devices[first : first + across]
        yield Content.assemble((f"{'GPU':<{STRIP_LABEL}}", "$quiet"), *((f"{one.index:>{STRIP_CELL}}", "bold") for one in some))
        values = [history_values(one) for one in some]
        for label, name in _figures(devices[0]).items():
            cells = [_cell(name, one[name]) for one in values]
            yield Content.assemble((f"{label:<{STRIP_LABEL}}", "$quiet"), *cells)
        held = [drawing.symbols.held if held_back_by(one) else drawing.symbols.empty for one in some]
        yield Content.assemble(
            (f"{'held back':<{STRIP_LABEL}}", "$quiet"), *((f"{sign:>{STRIP_CELL}}", "$text-warning") for sign in held)
        )


def _figures(device: DeviceSnapshot) -> Mapping[str, str]:
    label, _ = activities(device)[0]
    return {f"{label} %"[:STRIP_LABEL]: "activity", "memory %": "memory", "power %": "power", "°C": "temperature"}


def _cell(name: str, value: float | None) -> tuple[str, str]:
    text = UNKNOWN if value is None else f"{value * 100:.0f}"
    idle = value is not None and value < LOW
    return f"{text:>{STRIP_CELL}}", "$quiet" if idle else style_of(name, value)
