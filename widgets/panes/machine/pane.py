"""This machine, live: what its GPUs and its processor do, or why there is nothing to see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from planner.observe.snapshot import DeviceSnapshot, Snapshot
from planner.units import bytes_text, percent_text
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import styled_lines
from widgets.panes.frame import frame_of
from widgets.panes.lines import FoldedLines
from widgets.panes.machine.gpu import (
    LEGEND_LINES,
    ROOMY_LEGEND_LINES,
    ROOMY_WIDTH,
    Drawing,
    block,
    host_lines,
    power_text,
    ram_text,
    roomy_block,
    tall_figures,
    warnings_of_many,
)
from widgets.panes.machine.history import SPANS_S, STEP_S, Cells, History, Marks, sparkline
from widgets.panes.machine.levels import activities, history_values
from widgets.panes.machine.many import many_lines, strip
from widgets.panes.machine.processes import ORDERS, process_lines

SCROLLBAR = 1
"""Cells kept free for it, so that it changes nothing when it comes."""
LOOK_S = 1.0
"""Interval at which a pane without new readings looks for the reason."""
HINT_HEIGHT = 12
"""Rows from which a pane without GPUs says how to see one."""
NO_GPU_HINT = "gpu-planner --demo shows what a GPU has here; --replay FILE shows a recording (gpu-planner watch --record FILE)."
NO_DRIVER = "No NVIDIA driver: planning from the catalogue."
SPARK = 8
ROOMY_HEIGHT = 28
"""Rows from which more benchmark points are named."""
DETAILED_DEVICES = 2
"""Maximum number of GPUs that are shown in detail; of more, each gets one line."""
LEAST_OF_A_STRIP = 5
"""Fewer GPUs than this each have a line, even in a low pane."""
BORDER = 2
"""Cells that the text in a border has fewer than the pane is wide."""
HOST = "host"
HEIGHTS = ((4, True), (3, True), (2, True), (1, True), (1, False))
"""Lines of a history, and whether there is a blank line below each GPU, the best first."""


class MachineView(VerticalScroll, can_focus=True):
    """Pane 4."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="machine-view")
        self._symbols = symbols
        self.snapshot: Snapshot | None = None
        """Last reading."""
        self._paused = False
        self._trouble_of: Callable[[], str] = str
        self._trouble = ""
        self._list_processes: Callable[[bool], None] = lambda _: None
        self._order = ""
        """Column by which processes are listed; empty: they are not."""
        self._span = 0
        """Number of times the histories were made to reach further back."""
        self._histories: defaultdict[str, History] = defaultdict(History)
        self._marks = Marks()
        self._step_s = STEP_S
        """Time of a cell of a history."""

    def compose(self) -> ComposeResult:
        """One text."""
        yield FoldedLines("reading …", id="machine-text")

    def show(self, snapshot: Snapshot) -> None:
        """Take in one reading."""
        self.snapshot = snapshot
        interval_s = snapshot.interval_s or STEP_S
        self._step_s = min(self._step_s, interval_s)
        self._histories[HOST].note(snapshot.taken_at_s, interval_s, {"busy": snapshot.host.cpu_busy_fraction})
        for device in snapshot.devices:
            self._histories[device.place].note(snapshot.taken_at_s, interval_s, history_values(device))
        self._draw()

    def mark(self, marks: Marks) -> None:
        """Show from now on where these began and ended; they are drawn with the next reading."""
        self._marks = marks

    def follow(self, trouble_of: Callable[[], str], list_processes: Callable[[bool], None]) -> None:
        """Show the reason why there are no readings, by `trouble_of`, from now on; nothing is drawn while it stays the same.

        `list_processes` is called when the list of processes is shown, and when it no longer is.
        """
        self._trouble_of, self._list_processes = trouble_of, list_processes
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        trouble = self._trouble_of()
        if trouble != self._trouble:
            self._trouble = trouble
            self._entitle()

    @property
    def lists_processes(self) -> bool:
        """True if it shows who uses each GPU."""
        return bool(self._order)

    def turn_processes(self) -> None:
        """Show who uses each GPU, in the next order, or no longer."""
        recorded = self.snapshot is not None and self.snapshot.source is not None
        orders = ["", *(list(ORDERS)[:1] if recorded else ORDERS)]
        self._order = orders[(orders.index(self._order) + 1) % len(orders)]
        self._list_processes(self.lists_processes)
        self._draw()
        if self.lists_processes:
            self.call_after_refresh(self.scroll_end, animate=False)

    def stretch(self, step: int) -> None:
        """Let the histories reach further back (1), or less far (-1)."""
        self._span = min(len(SPANS_S) - 1, max(0, self._span + step))
        self._draw()

    @property
    def _cell_s(self) -> float:
        """Time of a cell of a history."""
        return SPANS_S[self._span] if self._span else self._step_s

    def on_show(self) -> None:
        """In sight again: list processes as before."""
        self._list_processes(self.lists_processes)

    def on_hide(self) -> None:
        """Out of sight: processes are no longer listed."""
        self._list_processes(False)

    def set_paused(self, paused: bool) -> None:
        """Say that nothing is read for now."""
        self._paused = paused
        self._draw()

    def say_off(self) -> None:
        """Show that this start does not watch the machine."""
        self.query_one(FoldedLines).show([Content.styled("Telemetry is off in this session.", "$quiet")])

    def on_resize(self) -> None:
        """Fit the histories to the new width."""
        self._draw()

    def summary(self, width: int) -> Content:
        """One line of the most telling numbers; those that do not fit are left out whole."""
        snapshot = self.snapshot
        if snapshot is None:
            return Content("")
        if snapshot.devices:
            device = snapshot.devices[0]
            spark = self._short_spark(device.place, "activity")
            known = [f"{label} {percent_text(value)}" for label, value in activities(device) if value is not None]
            first, *others = known or [_slices_text(device)]
            memory = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
            others_count = len(snapshot.devices) - 1
            more = [f"+{others_count} GPU{'s' * (others_count > 1)}"] if others_count else []
            warnings = [warning for one in snapshot.devices for warning in one.health_warnings][:1]
            parts = [f"{first} {spark}".rstrip(), *warnings, *others[:1], power_text(device), memory, *others[1:], *more]
            parts = [snapshot.badge, *parts] if snapshot.badge else parts
        else:
            host = snapshot.host
            parts = [
                f"CPU {percent_text(host.cpu_busy_fraction)} {self._short_spark(HOST, 'busy')}",
                f"RAM {ram_text(host)}",
                driver_text(snapshot).rstrip("."),
            ]
        text = f" {parts[0]}"
        for part in parts[1:]:
            text += f"   {part}" if len(text) + 3 + len(part) < width else ""
        return Content.styled(text, "$quiet")

    def _short_spark(self, key: str, name: str) -> str:
        history = self._histories[key]
        cells = Cells(history.until_s, SPARK, self._cell_s)
        return sparkline(history.values(name, cells), SPARK, self._symbols.sparks).strip()

    def _draw(self) -> None:
        snapshot = self.snapshot
        if snapshot is None or not self.children:
            return
        width = max(20, self.size.width - self.gutter.width - SCROLLBAR)
        recorded = snapshot.source is not None  # elsewhere or at another time: nothing that is measured here happened there
        legend_lines = ROOMY_LEGEND_LINES if self.size.height >= ROOMY_HEIGHT else LEGEND_LINES
        drawing = Drawing(self._symbols, width, self._cell_s, Marks() if recorded else self._marks, recorded, legend_lines)
        badge = (
            [Content.assemble((f" {snapshot.badge} ", "reverse bold"), (" not this machine", "$quiet"))] if snapshot.badge else []
        )
        lists = self._order and snapshot.devices
        processes = partial(process_lines, snapshot.devices, drawing, self._order) if lists else _no_lines
        host = partial(host_lines, snapshot.host, self._histories[HOST], drawing) if snapshot.host.cpu_name else _no_lines
        roomy = self._roomy_gpus(snapshot, drawing, len(badge) + len(processes()) + len(host()))
        few = bool(badge) and len(snapshot.devices) == 1 and roomy is None
        lines = badge if roomy is not None or few or not snapshot.devices else []  # elsewhere the title has it
        others = len(badge) + len(processes()) + len(host())
        lines += self._gpus(snapshot, drawing, self.size.height - others) if roomy is None else roomy
        if not snapshot.devices:
            lines += [Content(driver_text(snapshot))]
            if snapshot.nvml_detail and snapshot.nvml_state != "no driver":
                lines.append(Content.styled(snapshot.nvml_detail, "$quiet"))
            if self.size.height >= HINT_HEIGHT:
                lines += [*styled_lines(NO_GPU_HINT, width, "$quiet"), Content("")]
        lines += [*processes(roomy=roomy is not None), *host(roomy=roomy is not None)]
        self.query_one(FoldedLines).show(lines, self.size.height)
        self._entitle()

    def _gpus(self, snapshot: Snapshot, drawing: Drawing, height: int) -> list[Content]:
        """A block for each GPU; of many a line or a few, as `height` has room for, or a column of a strip."""
        devices = snapshot.devices
        if len(devices) > DETAILED_DEVICES:
            warnings = warnings_of_many(devices, drawing)
            if len(devices) >= max(self.size.height, LEAST_OF_A_STRIP):
                return [*strip(devices, drawing, height - len(warnings)), *warnings]
            return [*many_lines(devices, self._histories, drawing, height - len(warnings)), *warnings]
        several = len(devices) > 1
        return [line for device in devices for line in block(device, self._histories[device.place], drawing, several=several)]

    def _roomy_gpus(self, snapshot: Snapshot, drawing: Drawing, other_lines: int) -> list[Content] | None:
        """A few GPUs in all detail, as high as there is room for; None if it has to be less, unless it is zoomed."""
        devices = snapshot.devices
        if not 0 < len(devices) <= DETAILED_DEVICES or drawing.width < ROOMY_WIDTH:
            return None
        low = self._blocks(devices, drawing, 1)
        room, tall = self.size.height - other_lines, sum(map(tall_figures, devices))
        rows, gap = next(
            ((rows, gap) for rows, gap in HEIGHTS if sum(map(len, low)) + (rows - 1) * tall + (len(devices) if gap else 0) <= room),
            (0, False),
        )
        if not rows and not self.screen.has_class("-zoomed"):
            return None
        blocks = low if rows <= 1 else self._blocks(devices, drawing, rows)
        return [line for block in blocks for line in (*block, *([Content("")] if gap else []))]

    def _blocks(self, devices: Sequence[DeviceSnapshot], drawing: Drawing, rows: int) -> list[list[Content]]:
        """Each GPU in all detail, its histories `rows` lines high."""
        drawing = replace(drawing, history_rows=rows)
        return [roomy_block(device, self._histories[device.place], drawing) for device in devices]

    def _entitle(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            frame_of(self).entitle(self._trouble)
            return
        name = snapshot.devices[0].name if snapshot.devices else ""
        count = f"{len(snapshot.devices)} × " if len(snapshot.devices) > 1 else ""
        paused = "paused, p resumes" if self._paused else ""
        slow = f"every {snapshot.interval_s:g} s while measuring" if self._marks.open and not snapshot.source else ""
        parts = [snapshot.badge or "", self._trouble, paused, slow, f"{count}{name}" if name else ""]
        listed = f"P by {self._order}" if self._order else "P processes"
        keys = ["[ ] time", listed, "V roofline", "R right-size"] if snapshot.devices else []
        while len(" · ".join(keys)) + BORDER > self.size.width and keys:
            keys.pop()
        frame_of(self).entitle(" · ".join(filter(None, parts)), " · ".join(keys), name="Telemetry" if snapshot.badge else "")


class MachineLine(Static):
    """This machine in one row, for screens that show one pane at a time."""

    def __init__(self, view: MachineView) -> None:
        super().__init__(id="machine-line")
        self._view = view

    def on_resize(self) -> None:
        """Fit to the new width, or come into sight."""
        self.draw()

    def draw(self) -> None:
        """Draw what was read last, where it is in sight."""
        if self.display and self.size.width:
            self.update(self._view.summary(self.size.width), layout=False)


def _slices_text(device: DeviceSnapshot) -> str:
    """Slices of a GPU that is divided, or its name where it tells nothing of what it does."""
    profiles = [one.profile for one in device.mig]
    return (
        f"MIG {', '.join(dict.fromkeys(f'{profiles.count(one)} × {one}' for one in profiles))}" if profiles else device.name or ""
    )


def _no_lines(*, roomy: bool = False) -> list[Content]:
    """Facts of a host of which nothing is known, and processes that are not listed."""
    del roomy
    return []


def driver_text(snapshot: Snapshot) -> str:
    """The reason why there are no GPUs to watch."""
    if snapshot.nvml_state == "no driver":
        return NO_DRIVER
    return f"No GPU to watch ({snapshot.nvml_state}): planning from the catalogue."
