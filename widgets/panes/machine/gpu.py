"""One GPU, or the host, as lines of a given width: a block of figures, or with a gauge and a history for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from textual.content import Content

from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot
from planner.present.machine.telemetry import device_facts, held_back_text
from planner.present.names import device_name
from planner.units import MEGA, UNKNOWN, bytes_text, number_text, percent_text
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import bar_text, labelled, shorten_end
from widgets.panes.machine.axis import time_axis
from widgets.panes.machine.history import Cells, History, Mark, Marks, legend, mark_line, sparkline, tall_sparkline
from widgets.panes.machine.levels import HOTTEST_C, activities, held_back_by, share, shown_counters, slice_name, style_of

LABEL, RIGHT_LABEL = 14, 12
LEFT, RIGHT = LABEL + len("139.8/139.8 GiB "), RIGHT_LABEL + len("1000/1000 W")
"""Cells that the two columns of a block need; with fewer there is one."""
ROOMY_LABEL, ROOMY_VALUE = 16, 18
ROOMY_WIDTH = 60
"""Cells from which every figure has a history of its own."""
GAUGE, GAUGE_WIDTH = 12, 76
"""Cells of a gauge with the blanks behind it, and cells of a pane from which there are any."""
EXTREMES, EXTREMES_WIDTH = 15, 112
"""Cells of the mean and the highest of a history, and cells of a pane from which they are shown."""
LEGEND_LINES, ROOMY_LEGEND_LINES = 2, 5
OTHER_FIGURES = 4
"""Memory, power, clock and temperature, beside the counters."""
HELD = "held back by"


class Drawing(msgspec.Struct, frozen=True):
    """Facts that all lines share."""

    symbols: Symbols
    width: int
    step_s: float
    marks: Marks
    recorded: bool
    """True if the reading is not of this machine now."""
    legend_lines: int = LEGEND_LINES
    """Lines for the names of benchmark points."""
    history_rows: int = 1
    """Lines of a history, of several the blank one above it included."""

    def why(self, device: DeviceSnapshot, field: str) -> str:
        """The reason why a field is None."""
        return (
            "not in this recording" if self.recorded and device.state == "ok" and field not in device.reasons else device.why(field)
        )

    @property
    def gauge(self) -> int:
        """Cells of a gauge in a roomy block."""
        return GAUGE if self.width >= GAUGE_WIDTH else 0

    @property
    def left(self) -> int:
        """Cells left of the histories of a roomy block."""
        return ROOMY_LABEL + ROOMY_VALUE + self.gauge + (EXTREMES if self.shows_extremes else 0)

    @property
    def shows_extremes(self) -> bool:
        """True if the mean and the highest of a history stand beside it."""
        return self.width >= EXTREMES_WIDTH

    def cells(self, history: History, width: int) -> Cells:
        """Cells a history of `width` is drawn on."""
        return Cells(history.until_s, max(1, width), self.step_s)

    def tall(self, history: History, name: str, width: int) -> list[Content]:
        """History of one figure, as high as there is room for; what is near a limit in the colour of a warning.

        Histories below each other stand apart: of several lines the first is blank, and one of one line does not fill it.
        """
        values = history.values(name, self.cells(history, width))
        sparks = self.symbols.sparks
        lines = tall_sparkline(values, sparks, max(1, self.history_rows - 1))
        if self.history_rows > 1:
            return [Content(""), *(_coloured(line, name, values) for line in lines)]
        return [
            _coloured(line.replace(sparks[-1], sparks[-2]) if self.symbols is UNICODE else line, name, values) for line in lines
        ]

    def spark(self, history: History, name: str, width: int) -> Content:
        """History of one figure on one line."""
        values = history.values(name, self.cells(history, width))
        return _coloured(sparkline(values, len(values), self.symbols.sparks), name, values)


def _coloured(line: str, name: str, values: Sequence[float | None]) -> Content:
    """Cells of a history, neighbours of one colour together."""
    runs = groupby(zip(line, (style_of(name, value) for value in values), strict=True), key=lambda cell: cell[1])
    return Content.assemble(*(("".join(sign for sign, _ in run), style) for style, run in runs))


def block(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """A GPU in six lines or so, two figures on each; in a narrow pane a line each."""
    if device.state != "ok":
        return [lost_line(device)]
    if drawing.width < LEFT + RIGHT:
        rows = _narrow(device, history, drawing, several=several)
    else:
        rows = _paired(device, history, drawing, several=several)
    slices = _mig(device, drawing, LABEL)
    rest = [*_missing(device, drawing, LABEL), *_warnings(device, drawing)]
    return [*rows, *slices, *rest] if several else [*slices, *rows, *rest]


def _figures(device: DeviceSnapshot) -> list[tuple[str, str, str]]:
    """(label, text, style) of figures that have a value and no history of their own in a block."""
    memory, power = share(device.memory_used_bytes, device.memory_total_bytes), share(device.drawn_power_w, device.power_limit_w)
    degrees = share(device.temperature_c, HOTTEST_C)
    held = ", ".join(held_back_by(device)) or ("nothing" if device.event_reasons is not None else UNKNOWN)
    return [
        ("memory", _memory_text(device), _warned("memory", memory)),
        ("power", power_text(device), _warned("power", power)),
        ("SM clock", number_text(device.sm_clock_hz, "MHz", MEGA), ""),
        ("temperature", number_text(device.temperature_c, "°C"), _warned("temperature", degrees)),
        (HELD, held, "$text-warning" if held_back_by(device) else ""),
    ]


def _warned(name: str, fraction: float | None) -> str:
    """Style of a value: plain as long as it is far from its limit."""
    style = style_of(name, fraction)
    return "" if style == "$primary" else style


def _memory_text(device: DeviceSnapshot | MigSnapshot) -> str:
    return f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"


def _paired(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """Two figures a line; the busiest with its history."""
    left = max(LEFT, min(drawing.width * 6 // 10, drawing.width - RIGHT))
    right = drawing.width - left
    (first, busy), *others = activities(device)
    number = f"{device.index} " if several else ""
    label = max(LABEL, len(number + first) + 1)
    room = max(4, left - label - 8)
    *figures, held = _figures(device)
    cells = [*((name, percent_text(value), "") for name, value in others), *figures]
    rows = []
    if shown_counters(device):
        head = (f"{number + first:<{label}}", "$quiet"), f"{percent_text(busy):<6}", drawing.spark(history, "activity", room), "  "
        rows.append(Content.assemble(*head, *_cell(*cells.pop(0), right, RIGHT_LABEL)))
    else:
        cells = [(f"{number}{figures[0][0]}", *figures[0][1:]), *figures[1:]]
    rows += _marks(history, drawing, device_of(device), label + 6, room)
    pairs = zip(cells[::2], cells[1::2], strict=False)
    rows += [Content.assemble(*_cell(*one, left, LABEL), *_cell(*two, right, RIGHT_LABEL)) for one, two in pairs]
    if len(cells) % 2:
        rows.append(Content.assemble(*_cell(*cells[-1], left, LABEL)))
    return [*rows, *labelled(held[0], LABEL, held[1], drawing.width, held[2])]


def _narrow(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """A figure a line, each share of the GPU with its history."""
    found, figures = shown_counters(device), _figures(device)
    labels = [*(label for label, _ in found), *(label for label, *_ in figures)]
    heads = [f"{device.index} {labels[0]}" if several else labels[0], *labels[1:]]
    label = max(LABEL, *(len(head) + 1 for head in heads))
    room = max(4, drawing.width - label - 6)
    rows = [
        Content.assemble(
            (f"{head:<{label}}", "$quiet"), f"{percent_text(getattr(device, name)):<6}", drawing.spark(history, name, room)
        )
        for head, (_, name) in zip(heads, found, strict=False)
    ]
    rows += _marks(history, drawing, device_of(device), label + 6, room)
    for head, (_, text, style) in zip(heads[len(found) :], figures, strict=True):
        rows += labelled(head, label, text, drawing.width, style)
    return rows


def roomy_block(device: DeviceSnapshot, history: History, drawing: Drawing) -> list[Content]:
    """A GPU with a gauge and a history for each figure, what holds it back, its links, and how its memory does."""
    where = f"cuda:{device.cuda_ordinal}" if device.cuda_ordinal is not None else ""
    title = " · ".join(filter(None, (f"GPU {device.place}", device.name or "", where)))
    head = Content.styled(shorten_end(title, drawing.width, drawing.symbols.ellipsis), "bold $accent")
    if device.state != "ok":
        return [head, lost_line(device)]
    if drawing.shows_extremes:
        before = drawing.left - EXTREMES
        head = Content.assemble(
            (f"{shorten_end(title, before - 1, drawing.symbols.ellipsis):<{before}}", "bold $accent"),
            (f"{'mean':>6}{'max':>7}", "$quiet"),
        )
    clock = f"{number_text(device.sm_clock_hz, scale=MEGA)}/{number_text(device.max_sm_clock_hz, 'MHz', MEGA)}"
    figures = [(label, name, percent_text(getattr(device, name))) for label, name in shown_counters(device)]
    figures += [
        ("memory", "memory", _memory_text(device)),
        ("power", "power", power_text(device)),
        ("SM clock", "clock", clock),
        ("temperature", "temperature", number_text(device.temperature_c, "°C")),
    ]
    room = drawing.width - drawing.left
    rows = []
    newest = drawing.cells(history, 1)
    for label, name, text in figures:
        *above, base = drawing.tall(history, name, room)
        rows += [Content.assemble(" " * drawing.left, line) for line in above]
        now = history.values(name, newest)[0]
        gauge = bar_text(now, GAUGE - 2, drawing.symbols.filled, drawing.symbols.empty) + "  " if drawing.gauge else ""
        value = (f"{text:<{ROOMY_VALUE}}", _warned(name, now))
        rows.append(
            Content.assemble(
                (f"{label:<{ROOMY_LABEL}}", "$quiet"), value, (gauge, style_of(name, now)), *_extremes(history, name, drawing), base
            )
        )
    rows += _held(device, history, drawing, room)
    rows += [*_marks(history, drawing, device_of(device), drawing.left, room), time_axis(drawing)]
    for fact in device_facts(device, drawing.why(device, "ecc_uncorrected_aggregate")):
        rows += labelled(fact.label, ROOMY_LABEL, str(fact.value), drawing.width)
    slices = _roomy_mig(device, history, drawing) if drawing.shows_extremes else _mig(device, drawing, ROOMY_LABEL)
    return [head, *slices, *_missing(device, drawing, ROOMY_LABEL), *rows, *_warnings(device, drawing)]


def _extremes(history: History, name: str, drawing: Drawing) -> list[tuple[str, str]]:
    """Mean and highest of what the history shows, in degrees or on its scale; none if there is no room."""
    if not drawing.shows_extremes:
        return []
    cells = drawing.cells(history, drawing.width - drawing.left)
    known = [value for value in history.values(name, cells) if value is not None]
    most = history.most(name, cells)
    mean = min(sum(known) / len(known), most) if known and most is not None else None
    texts = [percent_text(value) if name != "temperature" else number_text(value, "°C", 1 / HOTTEST_C) for value in (mean, most)]
    return [(f"{texts[0]:>6}", "$quiet"), (f"{texts[1]:>7}  ", _warned(name, most) or "$quiet")]


def tall_figures(device: DeviceSnapshot) -> int:
    """Figures in its block whose histories may be several lines high."""
    return len(shown_counters(device)) + OTHER_FIGURES if device.state == "ok" else 0


def _held(device: DeviceSnapshot, history: History, drawing: Drawing, room: int) -> list[Content]:
    """Lines on what holds the clock back now, and when something did."""
    text = held_back_text(device)
    times = history.values("held", drawing.cells(history, room))
    signs = "".join(drawing.symbols.held if value else drawing.symbols.empty if value is not None else " " for value in times)
    style = "$text-warning" if held_back_by(device) else ""
    label = (f"{HELD:<{ROOMY_LABEL}}", "$quiet")
    beside = len(text) < drawing.left - ROOMY_LABEL
    marked = Content.assemble(
        *((run, "$text-warning" if run.strip(drawing.symbols.empty + " ") else "$quiet") for run in _runs(signs))
    )
    if beside:
        return [Content.assemble(label, (f"{text:<{drawing.left - ROOMY_LABEL}}", style), marked)]
    return [*labelled(HELD, ROOMY_LABEL, text, drawing.width, style), Content.assemble(" " * drawing.left, marked)]


def _runs(text: str) -> Iterator[str]:
    """Stretches of one sign."""
    return ("".join(run) for _, run in groupby(text))


def host_lines(host: HostSnapshot, history: History, drawing: Drawing, *, roomy: bool = False) -> list[Content]:
    """Processor and its memory, or nothing where they are not known; `roomy`: below such blocks."""
    if not host.cpu_name:
        return []
    label = ROOMY_LABEL if roomy else LABEL
    busy = f"{percent_text(host.cpu_busy_fraction)} of {host.cpu_cores or UNKNOWN} CPU{'s' * (host.cpu_cores != 1)}  "
    busy = busy.ljust(drawing.left - label) if roomy else busy
    room = max(8, drawing.width - label - len(busy))
    name = shorten_end(device_name(host.cpu_name), drawing.width - label, drawing.symbols.ellipsis)
    return [
        _labelled("processor", name, label),
        Content.assemble((f"{'busy':<{label}}", "$quiet"), busy, drawing.spark(history, "busy", room)),
        *_marks(history, drawing, "cpu", label + len(busy), room),
        _labelled("RAM", ram_text(host), label),
    ]


def power_text(device: DeviceSnapshot) -> str:
    """Drawn, of what may be drawn; without separators, so that 1391/1400 W takes no more room than it needs."""
    drawn, most = (number_text(watts).replace(",", "") for watts in (device.drawn_power_w, device.power_limit_w))
    return f"{drawn}/{most} W"


def ram_text(host: HostSnapshot) -> str:
    """Used, of all."""
    return f"{bytes_text(host.memory_used_bytes, unit=False)} of {bytes_text(host.memory_total_bytes)} used"


def device_of(device: DeviceSnapshot) -> str:
    """Name of the GPU in a benchmark; where CUDA's order is not known, NVML's is taken for it."""
    return f"cuda:{device.index if device.cuda_ordinal is None else device.cuda_ordinal}"


def _mig(device: DeviceSnapshot, drawing: Drawing, label: int) -> list[Content]:
    """A line for each slice of a GPU that is divided, its figures below those of the others."""
    names = list(map(slice_name, device.mig))
    label = max([label, *(len(name) + 1 for name in names)])
    counts = [("SM", "sm_active_fraction"), ("DRAM", "dram_bandwidth_fraction")]
    known = [(title, name) for title, name in counts if any(getattr(one, name) is not None for one in device.mig)]
    memory = max((len(_memory_text(one)) for one in device.mig), default=0)
    texts = [
        "  ".join([f"{_memory_text(one):>{memory}}", *(f"{title} {percent_text(getattr(one, name)):>5}" for title, name in known)])
        for one in device.mig
    ]
    return [line for name, text in zip(names, texts, strict=True) for line in labelled(name, label, text, drawing.width)]


def _roomy_mig(device: DeviceSnapshot, history: History, drawing: Drawing) -> list[Content]:
    """Two lines for each slice: how busy it is, with a gauge and a history, and below it the use of its memory."""
    room, newest, rows = drawing.width - drawing.left, drawing.cells(history, 1), []
    for one in device.mig:
        name = slice_name(one)
        gauge = bar_text(history.values(name, newest)[0], GAUGE - 2, drawing.symbols.filled, drawing.symbols.empty) + "  "
        rows.append(
            Content.assemble(
                (f"{name:<{ROOMY_LABEL}}", "$quiet"), f"SM {percent_text(one.sm_active_fraction)}".ljust(ROOMY_VALUE),
                (gauge, style_of(name, None)), *_extremes(history, name, drawing), drawing.spark(history, name, room),
            )
        )  # fmt: skip
        traffic = one.dram_bandwidth_fraction
        dram = f"DRAM traffic {percent_text(traffic)}" if traffic is not None else ""
        rows.append(Content.assemble(" " * ROOMY_LABEL, f"{_memory_text(one):<{ROOMY_VALUE}}", dram))
    return rows


def _marks(history: History, drawing: Drawing, device: str, indent: int, room: int) -> list[Content]:
    """Marks below a history: starts and ends of points, and their names."""
    cells = drawing.cells(history, room)
    found: list[Mark] = drawing.marks.within(cells, device)
    if not found:
        return []
    line = Content.assemble(
        (f"{'benchmark':<{indent}}"[:indent], "$quiet"), (mark_line(found, cells, drawing.symbols.mark), "$accent")
    )
    texts = legend(found, max(20, drawing.width - LABEL), drawing.legend_lines, drawing.symbols.ellipsis)
    return [line, *(Content.styled(f"{'':{LABEL}}{text}", "$quiet") for text in texts)]


def warnings_of_many(devices: Sequence[DeviceSnapshot], drawing: Drawing) -> list[Content]:
    """Faults of the memory of each of them."""
    return [line for device in devices for line in _warnings(device, drawing, f"GPU {device.place}: ")]


def _warnings(device: DeviceSnapshot, drawing: Drawing, before: str = "") -> list[Content]:
    """Faults of the memory of the GPU, folded."""
    if not device.health_warnings:
        return []
    from planner.observe.health import COUNTS_OF_UNCORRECTED, warning_text

    counts = {name: getattr(device, name) for name in COUNTS_OF_UNCORRECTED}
    sign, style = drawing.symbols.warning, "$text-error"
    texts = [before + warning_text(name, counts) for name in device.health_warnings]
    return [line for text in texts for line in labelled(sign, 2, text, drawing.width, style, style)]


def _missing(device: DeviceSnapshot, drawing: Drawing, label: int) -> list[Content]:
    """The reason why there are no hardware counters; none if there are."""
    if device.sm_active_fraction is not None:
        return []
    return labelled("SM active", label, f"{UNKNOWN} {device.why('sm_active_fraction')}", drawing.width, "$quiet")


def lost_line(device: DeviceSnapshot) -> Content:
    """Reason why a GPU does not answer."""
    return Content.assemble((f"{device.name or 'GPU'} {device.index}: ", "bold"), (device.why("name"), "$text-error"))


def _labelled(label: str, text: str, width: int, style: str = "") -> Content:
    return Content.assemble((f"{label:<{width}}", "$quiet"), (text, style))


def _cell(label: str, value: str, style: str, width: int, label_width: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """A label of at least `label_width` and its value in `width` cells."""
    head = f"{label} ".ljust(label_width)
    return (head, "$quiet"), (value.ljust(width - len(head)), style)
