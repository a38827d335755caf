"""Many GPUs: a line each with a history, or a strip of figures where even that is too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.content import Content

from planner.units import UNKNOWN, bytes_text, number_text, percent_text
from widgets.drawing.text import shorten_end
from widgets.panes.machine.gpu import ages, power_text, scale_text
from widgets.panes.machine.levels import activities, held_back_by, history_values, share, style_of

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot
    from widgets.panes.machine.gpu import Drawing
    from widgets.panes.machine.history import History

HEAD, SPARK, LEAST_SPARK = 10, 8, 3
"""Cells of a GPU's number and its first figure, of a history for which figures give way, and of one at least."""
SIGN = 3
"""Cells of the sign of a fault, and of the blanks before it."""
COLUMNS = (
    (("memory", 15), ("power", 11), ("temp", 6)),
    (("mem", 5), ("power", 11), ("temp", 6)),
    (("mem", 5), ("power", 6), ("temp", 6)),
    (("mem", 5),),
)
"""Titles and cells of the figures behind the history; the first for which there is room."""
GAP = 2
MOST_ROWS = 5
"""Lines of a GPU at most."""
STRIP_LABEL, STRIP_CELL = 13, 5
LOW = 0.1
"""Fraction of the scale below which a GPU is drawn as one that does nothing."""


def many_lines(devices: Sequence[DeviceSnapshot], histories: Mapping[str, History], drawing: Drawing, height: int) -> list[Content]:
    """A line for each of many GPUs below titles, or several where `height` has room for them; then with a time axis."""
    rows = min(MOST_ROWS, max(1, (height - 2) // len(devices)))
    drawing = replace(drawing, history_rows=rows)
    lines = [line for device in devices for line in short_lines(device, histories[device.place], drawing)]
    below = [short_axis(drawing)] if len(devices) * rows + 2 <= height else []
    return [short_head(devices[0], drawing), *lines, *below]


def short_lines(device: DeviceSnapshot, history: History, drawing: Drawing) -> list[Content]:
    """A GPU in as many lines as its history is high: as much of it as there is room for."""
    if device.state != "ok":
        return [Content.assemble((f"{device.index:>2}  ", "$quiet"), (device.why("name"), "$text-error"))]
    _, value = activities(device)[0]
    part = percent_text(share(device.memory_used_bytes, device.memory_total_bytes))
    figures = {
        ("memory", 15): f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}",
        ("mem", 5): part,
        ("power", 11): power_text(device),
        ("power", 6): number_text(device.drawn_power_w, "W"),
        ("temp", 6): number_text(device.temperature_c, "°C"),
    }
    text = _beside([(figures[column], column[1]) for column in _columns(drawing)])
    sign = (f" {drawing.symbols.warning}", "bold $text-error") if device.health_warnings else ("", "")
    *above, base = drawing.tall(history, "activity", _history_cells(drawing))
    line = Content.assemble((f"{device.index:>2}  ", "$quiet"), f"{percent_text(value):>5} ", base, text, sign)
    return [*(Content.assemble(" " * HEAD, one) for one in above), line]


def short_head(device: DeviceSnapshot, drawing: Drawing) -> Content:
    """Titles above the columns of such lines."""
    label, _ = activities(device)[0]
    room = HEAD + _history_cells(drawing)
    title = shorten_end(f"GPU {label}", room, drawing.symbols.ellipsis)
    return Content.styled(f"{title:<{room}}{_beside(_columns(drawing))}", "$quiet")


def short_axis(drawing: Drawing) -> Content:
    """Ages of the histories of such lines, and behind them the time of a cell."""
    text = f"{'':{HEAD}}{ages(drawing, _history_cells(drawing))}{'':{GAP}}{scale_text(drawing)}"
    return Content.styled(shorten_end(text, drawing.width, drawing.symbols.ellipsis), "$quiet")


def _columns(drawing: Drawing) -> Sequence[tuple[str, int]]:
    room = drawing.width - HEAD - SPARK - SIGN
    return next((columns for columns in COLUMNS if len(_beside(columns)) <= room), COLUMNS[-1])


def _history_cells(drawing: Drawing) -> int:
    return max(LEAST_SPARK, drawing.width - HEAD - len(_beside(_columns(drawing))) - SIGN)


def _beside(cells: Sequence[tuple[str, int]]) -> str:
    """Texts, each at the right end of its cells."""
    return "".join(f"{'':{GAP}}{text:>{width}}" for text, width in cells)


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
