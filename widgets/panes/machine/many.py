"""Many GPUs: a line each with a history, or a strip of figures where even that is too much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace
from textual.content import Content

from planner.observe.snapshot import DeviceSnapshot
from planner.units import MEGA, UNKNOWN, bytes_text, number_text, percent_text, used_text
from widgets.drawing.text import shorten_end
from widgets.panes.machine.axis import ages, scale_text
from widgets.panes.machine.gpu import Drawing, power_text
from widgets.panes.machine.history import History, sparkline
from widgets.panes.machine.levels import activities, held_back_by, history_values, share, style_of

HEAD, SPARK, LEAST_SPARK, WIDE_SPARK = 10, 8, 3, 30
"""Cells of a GPU's number and its first figure, of a history for which figures give way, of one at least, and of one beside more figures."""
SIGN = 3
"""Cells of the sign of a fault, and of the blanks before it."""
MORE = (
    (("tensor", 7), ("DRAM", 6), ("memory", 15), ("power", 11), ("temp", 6), ("SM clock", 9), ("held back by", 12)),
    (("tensor", 7), ("DRAM", 6), ("memory", 15), ("power", 11), ("temp", 6), ("held back by", 12)),
)
"""Titles and cells of the figures behind a history where there is room for a long one."""
COLUMNS = (
    (("memory", 15), ("power", 11), ("temp", 6)),
    (("mem", 5), ("power", 11), ("temp", 6)),
    (("mem", 5), ("power", 6), ("temp", 6)),
    (("mem", 5),),
)
"""Titles and cells of the figures behind the history; the first for which there is room."""
GAP = 2
MOST_ROWS = 9
"""Lines of a GPU at most."""
STRIP_LABEL, STRIP_CELL, STRIP_BAR = 13, 5, 3
NODE = 8
"""GPUs of a usual computer: a line of a strip has whole ones where there is room."""
WATTS_PER_KW = 1000.0
LOW = 0.1
"""Fraction of the scale below which a GPU is drawn as one that does nothing."""


def many_lines(devices: Sequence[DeviceSnapshot], histories: Mapping[str, History], drawing: Drawing, height: int) -> list[Content]:
    """A line for each of many GPUs below titles, or several where `height` has room for them; then with a time axis."""
    rows = min(MOST_ROWS, max(1, (height - 3) // len(devices)))
    drawing = replace(drawing, history_rows=rows)
    lines = [line for device in devices for line in short_lines(device, histories[device.place], drawing)]
    spare = height - len(devices) * rows - 1
    below = [short_axis(drawing)] if spare >= 1 else []
    above = [summary_line(devices, drawing)] if spare >= 2 else []  # it and the axis
    return [*above, short_head(devices[0], drawing), *lines, *below]


def summary_line(devices: Sequence[DeviceSnapshot], drawing: Drawing) -> Content:
    """All GPUs in one line: how busy they are, their memory and power, and how many do nothing or are held back."""
    busy = [value for one in devices if (value := activities(one)[0][1]) is not None]
    memory, most_memory = _sums((one.memory_used_bytes, one.memory_total_bytes) for one in devices)
    power, most_power = _sums((one.drawn_power_w, one.power_limit_w) for one in devices)
    idle, held = sum(value < LOW for value in busy), sum(bool(held_back_by(one)) for one in devices)
    parts = [
        f"mean {activities(devices[0])[0][0]} {percent_text(sum(busy) / len(busy))}" if busy else "",
        f"memory {used_text(memory, most_memory)}" if most_memory else "",
        f"power {power / WATTS_PER_KW:,.1f} of {most_power / WATTS_PER_KW:,.1f} kW" if most_power else "",
        f"{idle} below {percent_text(LOW)}" if idle else "",
        f"{held} held back" if held else "",
    ]
    known = list(filter(None, parts))
    while len(" · ".join(known)) > drawing.width:
        known.pop()
    return Content.styled(" · ".join(known), "bold")


def _sums(pairs: Iterable[tuple[float | None, float | None]]) -> tuple[float, float]:
    """Sum of each of the two, where both are known."""
    known = [(part, whole) for part, whole in pairs if part is not None and whole is not None]
    return sum(part for part, _ in known), sum(whole for _, whole in known)


def short_lines(device: DeviceSnapshot, history: History, drawing: Drawing) -> list[Content]:
    """A GPU in as many lines as its history is high: as much of it as there is room for."""
    if device.state != "ok":
        return [Content.assemble((f"{device.index:>2}  ", "$quiet"), (device.why("name"), "$text-error"))]
    _, value = activities(device)[0]
    part = percent_text(share(device.memory_used_bytes, device.memory_total_bytes))
    clock = number_text(device.sm_clock_hz, "MHz", MEGA)
    held = ", ".join(held_back_by(device)) or ("nothing" if device.event_reasons is not None else UNKNOWN)
    values = history_values(device)
    figures = {
        ("tensor", 7): percent_text(device.tensor_active_fraction),
        ("DRAM", 6): percent_text(device.dram_bandwidth_fraction),
        ("SM clock", 9): clock,
        ("held back by", 12): shorten_end(held, 12, drawing.symbols.ellipsis),
        ("memory", 15): f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}",
        ("mem", 5): part,
        ("power", 11): power_text(device),
        ("power", 6): number_text(device.drawn_power_w, "W"),
        ("temp", 6): number_text(device.temperature_c, "°C"),
    }
    cells = [(f"{'':{GAP}}{figures[one]:>{one[1]}}", _style(one[0], values)) for one in _columns(drawing)]
    sign = (f" {drawing.symbols.warning}", "bold $text-error") if device.health_warnings else ("", "")
    *above, base = drawing.tall(history, "activity", _history_cells(drawing))
    line = Content.assemble((f"{device.index:>2}  ", "$quiet"), f"{percent_text(value):>5} ", base, *cells, sign)
    return [*(Content.assemble(" " * HEAD, one) for one in above), line]


def _style(title: str, values: Mapping[str, float | None]) -> str:
    """Colour of a figure that is near its limit; plain otherwise."""
    name = {"mem": "memory", "temp": "temperature"}.get(title, title)
    if name == "held back by":
        return "$text-warning" if values["held"] else "$quiet"
    style = style_of(name, values.get(name))
    return "" if style == "$primary" else style


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
    room = drawing.width - HEAD - SIGN
    choices = [(columns, WIDE_SPARK) for columns in MORE] + [(columns, SPARK) for columns in COLUMNS]
    return next((columns for columns, spark in choices if len(_beside(columns)) + spark <= room), COLUMNS[-1])


def _history_cells(drawing: Drawing) -> int:
    return max(LEAST_SPARK, drawing.width - HEAD - len(_beside(_columns(drawing))) - SIGN)


def _beside(cells: Sequence[tuple[str, int]]) -> str:
    """Texts, each at the right end of its cells."""
    return "".join(f"{'':{GAP}}{text:>{width}}" for text, width in cells)


def strip(devices: Sequence[DeviceSnapshot], drawing: Drawing, height: int) -> Iterator[Content]:
    """Every GPU in a column of a few cells, as many beside each other as there is room for: its figures in percent.

    Where `height` has room, a bar shows how busy each is, and a blank line stands between those of one line and the next.
    """
    across = max(1, (drawing.width - STRIP_LABEL) // STRIP_CELL)
    across = across // NODE * NODE or across
    groups, figures = -(-len(devices) // across), _figures(devices[0])
    low = groups * (len(figures) + 2) + 1
    bars, apart = low + groups <= height, low + 2 * groups - 1 <= height
    yield summary_line(devices, drawing)
    for first in range(0, len(devices), across):
        some = devices[first : first + across]
        if first and apart:
            yield Content("")
        yield Content.assemble((f"{'GPU':<{STRIP_LABEL}}", "$quiet"), *((f"{one.index:>{STRIP_CELL}}", "bold") for one in some))
        values = [history_values(one) for one in some]
        if bars:
            yield Content.assemble(" " * STRIP_LABEL, *(_bar(one["activity"], drawing) for one in values))
        for label, name in figures.items():
            cells = [_cell(name, one[name]) for one in values]
            yield Content.assemble((f"{label:<{STRIP_LABEL}}", "$quiet"), *cells)
        held = [(drawing.symbols.held, "$text-warning") if held_back_by(one) else (drawing.symbols.empty, "$quiet") for one in some]
        yield Content.assemble(
            (f"{'held back':<{STRIP_LABEL}}", "$quiet"), *((f"{sign:>{STRIP_CELL}}", style) for sign, style in held)
        )


def _bar(value: float | None, drawing: Drawing) -> tuple[str, str]:
    """A bar as high as the GPU is busy."""
    sign = sparkline([value], 1, drawing.symbols.sparks)
    return f"{sign * STRIP_BAR:>{STRIP_CELL}}", "$quiet" if value is not None and value < LOW else "$primary"


def _figures(device: DeviceSnapshot) -> Mapping[str, str]:
    label, _ = activities(device)[0]
    return {f"{label} %"[:STRIP_LABEL]: "activity", "memory %": "memory", "power %": "power", "°C": "temperature"}


def _cell(name: str, value: float | None) -> tuple[str, str]:
    text = UNKNOWN if value is None else f"{value * 100:.0f}"
    idle = value is not None and value < LOW
    return f"{text:>{STRIP_CELL}}", "$quiet" if idle else style_of(name, value)
