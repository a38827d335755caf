"""One GPU, or the host, as lines of a given width: a line each when there are many, a block of figures, or with a history for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from planner.present.machine.telemetry import ProcessLine, device_facts, number_text
from planner.present.names import device_name
from planner.units import MEGA, UNKNOWN, bytes_text, percent_text
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import labelled, shorten_end, styled_lines
from widgets.panes.machine.history import Cells, History, Mark, Marks, legend, mark_line, sparkline, tall_sparkline

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, ProcessSnapshot

LABEL, RIGHT_LABEL = 14, 12
LEAST_SPARK = 3
LEFT, RIGHT = LABEL + len("139.8/139.8 GiB "), RIGHT_LABEL + len("1000/1000 W")
"""Cells that the two columns of a block need; with fewer there is one."""
ROOMY_LABEL, ROOMY_VALUE = 16, 18
ROOMY_WIDTH = 60
"""Cells from which every figure has a history of its own."""
LEGEND_LINES, ROOMY_LEGEND_LINES = 2, 5
BUSY_COUNTERS = (
    ("SM active", "sm_active_fraction"),
    ("tensor", "tensor_active_fraction"),
    ("DRAM traffic", "dram_bandwidth_fraction"),
    ("occupancy", "sm_occupancy_fraction"),
)
FALLBACK_COUNTERS = (("kernel resident", "kernel_resident_fraction"), ("memory active", "memory_active_fraction"))
"""Figures of GPUs without hardware counters: shares of time, not of the GPU."""
PID, MEMORY, KIND, USER = 8, 9, 8, 10
"""Cells of the columns of the list of processes."""
KINDS = {"compute": "compute", "graphics": "graphics", "compute and graphics": "both"}


@dataclass(frozen=True, slots=True)
class Drawing:
    """Facts that all lines share."""

    symbols: Symbols
    width: int
    step_s: float
    marks: Marks
    recorded: bool
    """Whether the reading is not of this machine now."""
    legend_lines: int = LEGEND_LINES
    """For the names of benchmark points."""
    history_rows: int = 1
    """Height of the histories of a roomy block."""

    def why(self, device: DeviceSnapshot, field: str) -> str:
        """Why a field is None."""
        return (
            "not in this recording" if self.recorded and device.state == "ok" and field not in device.reasons else device.why(field)
        )

    def cells(self, history: History, width: int) -> Cells:
        """The cells a history of `width` is drawn on."""
        return Cells(history.until_s, max(1, width), self.step_s)

    def tall(self, history: History, name: str, width: int) -> list[tuple[str, str]]:
        """The same, as high as there is room for."""
        cells = self.cells(history, width)
        return [(line, "$primary") for line in tall_sparkline(history.values(name, cells), self.symbols.sparks, self.history_rows)]

    def spark(self, history: History, name: str, width: int) -> tuple[str, str]:
        """The history of one figure, in its colour."""
        cells = self.cells(history, width)
        return sparkline(history.values(name, cells), cells.width, self.symbols.sparks), "$primary"


def activities(device: DeviceSnapshot) -> Sequence[tuple[str, float | None]]:
    """Figures that tell how busy a GPU is, by name: of the GPU where there are counters, else of time."""
    return [(label, getattr(device, name)) for label, name in _counters(device)]


def history_values(device: DeviceSnapshot) -> dict[str, float | None]:
    """Kept figures of a reading, as fractions."""
    values: dict[str, float | None] = {name: getattr(device, name) for _, name in (*BUSY_COUNTERS, *FALLBACK_COUNTERS)}
    values["activity"] = activities(device)[0][1]
    values["memory"] = _share(device.memory_used_bytes, device.memory_total_bytes)
    values["power"] = _share(device.drawn_power_w, device.power_limit_w)
    return values


def short_line(device: DeviceSnapshot, history: History, drawing: Drawing) -> Content:
    """A GPU in one line: as much of it as there is room for."""
    if device.state != "ok":
        return Content.assemble((f"{device.index:>2}  ", "$quiet"), (device.why("name"), "$text-error"))
    _, value = activities(device)[0]
    sizes = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
    share = percent_text(_share(device.memory_used_bytes, device.memory_total_bytes))
    power, drawn = power_text(device), number_text(device.drawn_power_w, "W")
    degrees = f"{number_text(device.temperature_c, '°C'):>6}"
    options = (
        f"  {sizes:>15}  {power:>11}  {degrees}",
        f"  {share:>5}  {power:>11}  {degrees}",
        f"  {share:>5}  {drawn:>6}  {degrees}",
    )
    head, spark = 11, LEAST_SPARK
    text = next((option for option in options if head + spark + len(option) + 2 <= drawing.width), f"  {share:>5}")
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


def block(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """A GPU in six lines or so, two figures on each; in a narrow pane a line each."""
    if device.state != "ok":
        return [_lost(device)]
    if drawing.width < LEFT + RIGHT:
        rows = _narrow(device, history, drawing, several=several)
    else:
        rows = _paired(device, history, drawing, several=several)
    if device.event_reasons:
        rows += labelled("held back by", LABEL, ", ".join(device.event_reasons), drawing.width, "$text-warning")
    return rows + _warnings(device, drawing) + _missing(device, drawing)


def _figures(device: DeviceSnapshot) -> list[tuple[str, str]]:
    """Figures that have a value and no history of their own in a block."""
    return [
        ("memory", f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"),
        ("power", power_text(device)),
        ("SM clock", number_text(device.sm_clock_hz, "MHz", MEGA)),
        ("temperature", number_text(device.temperature_c, "°C")),
    ]


def _paired(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """Two figures a line; the busiest with its history."""
    left = max(LEFT, min(drawing.width * 6 // 10, drawing.width - RIGHT))
    right = drawing.width - left
    (first, busy), *others = activities(device)
    first = f"{device.index} {first}" if several else first
    label = max(LABEL, len(first) + 1)
    room = max(4, left - label - 8)
    cells = [*((name, percent_text(value)) for name, value in others), *_figures(device)]
    spark = drawing.spark(history, "activity", room)
    head = Content.assemble((f"{first:<{label}}", "$quiet"), f"{percent_text(busy):<6}", spark, "  ")
    rows = [Content.assemble(head, *_cell(*cells[0], right, RIGHT_LABEL))]
    rows += _marks(history, drawing, device_of(device), label + 6, room)
    pairs = zip(cells[1::2], cells[2::2], strict=False)
    rows += [Content.assemble(*_cell(*one, left, LABEL), *_cell(*two, right, RIGHT_LABEL)) for one, two in pairs]
    if len(cells) % 2 == 0:
        rows.append(Content.assemble(*_cell(*cells[-1], left, LABEL)))
    return rows


def _narrow(device: DeviceSnapshot, history: History, drawing: Drawing, *, several: bool) -> list[Content]:
    """A figure a line, each share of the GPU with its history."""
    counters = _counters(device)
    heads = [f"{device.index} {label}" if several and number == 0 else label for number, (label, _) in enumerate(counters)]
    label = max(LABEL, *(len(head) + 1 for head in heads))
    room = max(4, drawing.width - label - 6)
    rows = [
        Content.assemble(
            (f"{head:<{label}}", "$quiet"), f"{percent_text(getattr(device, name)):<6}", drawing.spark(history, name, room)
        )
        for head, (_, name) in zip(heads, counters, strict=True)
    ]
    rows += _marks(history, drawing, device_of(device), label + 6, room)
    return rows + [_labelled(name, text, label) for name, text in _figures(device)]


def roomy_block(device: DeviceSnapshot, history: History, drawing: Drawing) -> list[Content]:
    """A GPU with a history for each figure, its clocks, what holds it back, and how its memory does."""
    where = f"cuda:{device.cuda_ordinal}" if device.cuda_ordinal is not None else ""
    title = " · ".join(filter(None, (f"GPU {device.index}", device.name or "", where)))
    head = Content.styled(shorten_end(title, drawing.width, drawing.symbols.ellipsis), "bold $accent")
    if device.state != "ok":
        return [head, _lost(device)]
    memory = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
    figures = [(label, name, percent_text(getattr(device, name))) for label, name in _counters(device)]
    figures += [("memory", "memory", memory), ("power", "power", power_text(device))]
    left = ROOMY_LABEL + ROOMY_VALUE
    room = drawing.width - left
    rows = []
    for label, name, text in figures:
        *above, base = drawing.tall(history, name, room)
        rows += [Content.assemble(" " * left, line) for line in above]
        rows.append(Content.assemble((f"{label:<{ROOMY_LABEL}}", "$quiet"), f"{text:<{ROOMY_VALUE}}", base))
    rows += _marks(history, drawing, device_of(device), left, room)
    held = "$text-warning" if device.event_reasons else ""
    for fact in device_facts(device, drawing.why(device, "ecc_uncorrected_aggregate")):
        style = held if fact.label == "held back by" else ""
        rows += labelled(fact.label, ROOMY_LABEL, str(fact.value), drawing.width, style)
    return [head, *rows, *_warnings(device, drawing), *_missing(device, drawing)]


def host_lines(host: HostSnapshot, history: History, drawing: Drawing, *, roomy: bool = False) -> list[Content]:
    """The processor and its memory; `roomy`: below such blocks."""
    label = ROOMY_LABEL if roomy else LABEL
    busy = f"{percent_text(host.cpu_busy_fraction)} of {host.cpu_cores or UNKNOWN} CPU{'s' * (host.cpu_cores != 1)}  "
    busy = busy.ljust(ROOMY_VALUE) if roomy else busy
    room = max(8, drawing.width - label - len(busy))
    name = shorten_end(device_name(host.cpu_name), drawing.width - label, drawing.symbols.ellipsis)
    return [
        _labelled("processor", name, label),
        Content.assemble((f"{'busy':<{label}}", "$quiet"), busy, drawing.spark(history, "busy", room)),
        *_marks(history, drawing, "cpu", label + len(busy), room),
        _labelled("RAM", ram_text(host), label),
    ]


def process_lines(devices: Sequence[DeviceSnapshot], drawing: Drawing) -> list[Content]:
    """Who uses each GPU; where that is not known, why."""
    if drawing.recorded:
        return [_labelled("processes", f"{UNKNOWN} only this machine's driver tells who uses a GPU", LABEL, "$quiet")]
    lines = [line for device in devices if device.processes != () for line in _processes(device, drawing)]
    unused = [str(device.index) for device in devices if device.processes == ()]
    return lines + ([_labelled("nobody uses", f"GPU {', '.join(unused)}", LABEL)] if unused else [])


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


def _counters(device: DeviceSnapshot) -> Sequence[tuple[str, str]]:
    return BUSY_COUNTERS if device.sm_active_fraction is not None else FALLBACK_COUNTERS


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _marks(history: History, drawing: Drawing, device: str, indent: int, room: int) -> list[Content]:
    """Marks below a history: starts and ends of points, and their names."""
    cells = drawing.cells(history, room)
    found: list[Mark] = drawing.marks.within(cells, device)
    if not found:
        return []
    line = Content.assemble(
        (f"{'benchmark':<{indent}}"[:indent], "$quiet"), (mark_line(found, cells, drawing.symbols.mark), "$accent")
    )
    told = legend(found, max(20, drawing.width - LABEL), drawing.legend_lines, drawing.symbols.ellipsis)
    return [line, *(Content.styled(f"{'':{LABEL}}{text}", "$quiet") for text in told)]


def warnings_of_many(devices: Sequence[DeviceSnapshot], drawing: Drawing) -> list[Content]:
    """Faults of the memory of each of them."""
    return [line for device in devices for line in _warnings(device, drawing, f"GPU {device.index}: ")]


def _warnings(device: DeviceSnapshot, drawing: Drawing, before: str = "") -> list[Content]:
    """Faults of the memory of the GPU, folded."""
    if not device.health_warnings:
        return []
    from planner.observe.health import COUNTS_OF_UNCORRECTED, warning_text

    counts = {name: getattr(device, name) for name in COUNTS_OF_UNCORRECTED}
    sign, style = drawing.symbols.warning, "$text-error"
    texts = [before + warning_text(name, counts) for name in device.health_warnings]
    return [line for text in texts for line in labelled(sign, 2, text, drawing.width, style, style)]


def _missing(device: DeviceSnapshot, drawing: Drawing) -> list[Content]:
    if device.sm_active_fraction is not None:
        return []
    return styled_lines(device.why("sm_active_fraction"), drawing.width, "$quiet")


def _processes(device: DeviceSnapshot, drawing: Drawing) -> list[Content]:
    if device.processes:
        head = f"{f'GPU {device.index}':<{PID}}{'memory':>{MEMORY}}  {'kind':<{KIND}}  {'user':<{USER}}command"
        return [Content.styled(head, "$quiet"), *(_process(device, one, drawing) for one in device.processes)]
    return [_labelled(f"GPU {device.index}", f"{UNKNOWN} {device.why('processes')}", LABEL, "$quiet")]


def _process(device: DeviceSnapshot, one: ProcessSnapshot, drawing: Drawing) -> Content:
    slice_of = f" on slice {one.gpu_instance}" if one.gpu_instance is not None else ""
    command = ProcessLine(device, one).command
    text = f"{one.pid:<{PID}}{bytes_text(one.memory_bytes):>{MEMORY}}  {KINDS[one.kind]:<{KIND}}  {(one.user or UNKNOWN)[:USER]:<{USER}}"
    return Content(text + shorten_end(command + slice_of, max(10, drawing.width - len(text)), drawing.symbols.ellipsis))


def _lost(device: DeviceSnapshot) -> Content:
    return Content.assemble((f"{device.name or 'GPU'} {device.index}: ", "bold"), (device.why("name"), "$text-error"))


def _labelled(label: str, text: str, width: int, style: str = "") -> Content:
    return Content.assemble((f"{label:<{width}}", "$quiet"), (text, style))


def _cell(label: str, value: str, width: int, label_width: int) -> tuple[tuple[str, str], str]:
    """A label of at least `label_width` and its value in `width` cells."""
    head = f"{label} ".ljust(label_width)
    return (head, "$quiet"), value.ljust(width - len(head))
