"""This machine, live: what its GPUs and its processor do, or why there is nothing to see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from planner.units import MEGA, UNKNOWN, bytes_text, percent_text

from .formatting import device_name, shorten_end
from .frame import frame_of
from .symbols import UNICODE, Symbols

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot

HISTORY = 240
SCROLLBAR = 1
"""Cells kept free for it, so that it changes nothing when it comes."""
LOOK_S = 1.0
"""How often a pane without new readings asks why."""
NO_DRIVER = "No NVIDIA driver: planning from the catalogue."
LABEL = 14
SPARK = 8
DETAILED_DEVICES = 2
"""With more GPUs than this each gets one line."""
BUSY_COUNTERS = (
    ("SM active", "sm_active_fraction"),
    ("tensor", "tensor_active_fraction"),
    ("DRAM traffic", "dram_bandwidth_fraction"),
    ("occupancy", "sm_occupancy_fraction"),
)
FALLBACK_COUNTERS = (("kernel resident", "kernel_resident_fraction"), ("memory active", "memory_active_fraction"))
"""What GPUs without hardware counters give: shares of time, not of the GPU."""


def sparkline(values: Iterable[float | None], width: int, levels: str) -> str:
    """The last `width` fractions, one cell each; an absent one is a blank."""
    last = list(values)[-width:]
    cells = [" " if value is None else levels[min(len(levels) - 1, max(0, round(value * (len(levels) - 1))))] for value in last]
    return "".join(cells).rjust(width)


class MachineView(VerticalScroll, can_focus=True):
    """Pane 4."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="machine-view")
        self._symbols = symbols
        self._snapshot: Snapshot | None = None
        self._paused = False
        self._trouble_of: Callable[[], str] = str
        self._trouble = ""
        self._history: dict[str, deque[float | None]] = {}

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static("reading …", id="machine-text")

    @property
    def snapshot(self) -> Snapshot | None:
        """The last reading."""
        return self._snapshot

    def show(self, snapshot: Snapshot) -> None:
        """Take in one reading."""
        self._snapshot = snapshot
        self._remember("host", snapshot.host.cpu_busy_fraction)
        for device in snapshot.devices:
            self._remember(str(device.index), main_activity(device))
        self._draw()

    def mind(self, trouble_of: Callable[[], str]) -> None:
        """Say from now on what keeps readings away, as `trouble_of` tells it; nothing is drawn while it is the same."""
        self._trouble_of = trouble_of
        self.set_interval(LOOK_S, self._look)

    def _look(self) -> None:
        trouble = self._trouble_of()
        if trouble != self._trouble:
            self._trouble = trouble
            self._entitle()

    def set_paused(self, paused: bool) -> None:
        """Say that nothing is read for now."""
        self._paused = paused
        self._draw()

    def say_off(self) -> None:
        """Say that this start does not watch."""
        self.query_one("#machine-text", Static).update(Content.styled("Not watched in this start.", "$quiet"))

    def on_resize(self) -> None:
        """Fit the sparklines to the new width."""
        self._draw()

    def summary(self, width: int) -> Content:
        """One line of the most telling numbers; those that do not fit are left out whole."""
        snapshot = self._snapshot
        if snapshot is None:
            return Content("")
        if snapshot.devices:
            device = snapshot.devices[0]
            spark = sparkline(self._history.get(str(device.index), ()), SPARK, self._symbols.sparks)
            first, *others = [f"{label} {percent_text(value)}" for label, value in _activities(device)]
            memory = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
            more = [f"+{len(snapshot.devices) - 1} GPUs"] if len(snapshot.devices) > 1 else []
            parts = [f"{first} {spark.strip()}", *others[:1], _power(device), memory, *others[1:], *more]
            parts = [snapshot.badge, *parts] if snapshot.badge else parts
        else:
            host = snapshot.host
            spark = sparkline(self._history.get("host", ()), SPARK, self._symbols.sparks)
            parts = [
                f"CPU {percent_text(host.cpu_busy_fraction)} {spark.strip()}",
                f"RAM {_ram(host)}",
                driver_text(snapshot).rstrip("."),
            ]
        text = f" {parts[0]}"
        for part in parts[1:]:
            text += f"   {part}" if len(text) + 3 + len(part) <= width else ""
        return Content.styled(text, "$quiet")

    def _remember(self, key: str, value: float | None) -> None:
        self._history.setdefault(key, deque(maxlen=HISTORY)).append(value)

    def _draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or not self.children:
            return
        width = max(20, self.size.width - self.gutter.width - SCROLLBAR)
        lines: list[Content] = []
        if snapshot.badge is not None:
            lines.append(Content.assemble((f" {snapshot.badge} ", "reverse bold"), (" not this machine", "$quiet")))
        if len(snapshot.devices) > DETAILED_DEVICES:
            label, _ = _activities(snapshot.devices[0])[0]
            lines.append(Content.styled(f"GPU {label}, memory, power, temperature", "$quiet"))
            lines += [self._short(device, width) for device in snapshot.devices]
        else:
            for device in snapshot.devices:
                lines += self._detailed(device, width, several=len(snapshot.devices) > 1)
        if not snapshot.devices:
            lines += [Content(driver_text(snapshot))]
            if snapshot.nvml_detail and snapshot.nvml_state != "no driver":
                lines.append(Content.styled(snapshot.nvml_detail, "$quiet"))
        if snapshot.host.cpu_name:
            lines += self._host(snapshot.host, width)
        self.query_one("#machine-text", Static).update(Content("\n").join(lines))
        self._entitle()

    def _entitle(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            frame_of(self).entitle(self._trouble)
            return
        name = snapshot.devices[0].name if snapshot.devices else ""
        count = f"{len(snapshot.devices)} × " if len(snapshot.devices) > 1 else ""
        paused = "paused, p resumes" if self._paused else ""
        parts = [snapshot.badge or "", self._trouble, paused, f"{count}{name}" if name else ""]
        aside = "R right-sizes" if snapshot.devices else ""
        frame_of(self).entitle(" · ".join(filter(None, parts)), aside, name="Telemetry" if snapshot.badge else "")

    def _detailed(self, device: DeviceSnapshot, width: int, *, several: bool) -> list[Content]:
        if device.state != "ok":
            return [Content.assemble((f"{device.name or 'GPU'} {device.index}: ", "bold"), (device.why("name"), "$text-error"))]
        left = min(width * 6 // 10, max(LABEL + len("139.8 of 139.8 GiB"), width - LABEL - len("1000/1000 W")))
        right = width - left
        (first, busy), *others = _activities(device)
        first = f"{device.index} {first}" if several else first
        label = max(LABEL, len(first) + 1)
        spark = sparkline(self._history.get(str(device.index), ()), max(4, left - label - 8), self._symbols.sparks)
        cells = [(label, percent_text(value)) for label, value in others]
        cells += [
            ("memory", f"{bytes_text(device.memory_used_bytes, unit=False)} of {bytes_text(device.memory_total_bytes)}"),
            ("power", _power(device)),
            ("SM clock", f"{_number(device.sm_clock_hz and device.sm_clock_hz / MEGA)} MHz"),
            ("temperature", f"{_number(device.temperature_c)} °C"),
        ]
        head = Content.assemble((f"{first:<{label}}", "$quiet"), f"{percent_text(busy):<6}", (spark, "$primary"), " ")
        rows = [Content.assemble(head, *_cell(*cells[0], right))]
        rows += [
            Content.assemble(*_cell(*one, left), *_cell(*two, right)) for one, two in zip(cells[1::2], cells[2::2], strict=False)
        ]
        if len(cells) % 2 == 0:
            rows.append(Content.assemble(*_cell(*cells[-1], left)))
        if device.event_reasons:
            rows.append(
                Content.assemble((f"{'held back by':<{LABEL}}", "$quiet"), (", ".join(device.event_reasons), "$text-warning"))
            )
        if device.sm_active_fraction is None:
            rows.append(Content.styled(shorten_end(device.why("sm_active_fraction"), width, self._symbols.ellipsis), "$quiet"))
        return rows

    def _short(self, device: DeviceSnapshot, width: int) -> Content:
        if device.state != "ok":
            return Content.assemble((f"{device.index:>2}  ", "$quiet"), (device.why("name"), "$text-error"))
        _, value = _activities(device)[0]
        memory = f"{bytes_text(device.memory_used_bytes, unit=False)}/{bytes_text(device.memory_total_bytes)}"
        text = f"  {memory:>15}  {_power(device):>11}  {_number(device.temperature_c):>3} °C"
        spark = sparkline(self._history.get(str(device.index), ()), max(4, width - len(text) - 11), self._symbols.sparks)
        return Content.assemble((f"{device.index:>2}  ", "$quiet"), f"{percent_text(value):>5} ", (spark, "$primary"), text)

    def _host(self, host: HostSnapshot, width: int) -> list[Content]:
        busy = f"{percent_text(host.cpu_busy_fraction)} of {host.cpu_cores or UNKNOWN} CPU{'s' * (host.cpu_cores != 1)}  "
        spark = sparkline(self._history.get("host", ()), max(8, width - LABEL - len(busy)), self._symbols.sparks)
        return [
            Content.assemble(
                (f"{'processor':<{LABEL}}", "$quiet"),
                shorten_end(device_name(host.cpu_name), width - LABEL, self._symbols.ellipsis),
            ),
            Content.assemble((f"{'busy':<{LABEL}}", "$quiet"), busy, (spark, "$primary")),
            Content.assemble((f"{'RAM':<{LABEL}}", "$quiet"), _ram(host)),
        ]


def _cell(label: str, value: str, width: int) -> tuple[tuple[str, str], str]:
    """A label and its value in `width` cells."""
    return (f"{label:<{LABEL}}", "$quiet"), value.ljust(width - LABEL)


def driver_text(snapshot: Snapshot) -> str:
    """Why there are no GPUs to watch."""
    if snapshot.nvml_state == "no driver":
        return NO_DRIVER
    return f"No GPU to watch ({snapshot.nvml_state}): planning from the catalogue."


def main_activity(device: DeviceSnapshot) -> float | None:
    """The fraction worth a sparkline: of the GPU where the counter exists, else of time."""
    return device.sm_active_fraction if device.sm_active_fraction is not None else device.kernel_resident_fraction


def _activities(device: DeviceSnapshot) -> Sequence[tuple[str, float | None]]:
    names = BUSY_COUNTERS if device.sm_active_fraction is not None else FALLBACK_COUNTERS
    return [(label, getattr(device, name)) for label, name in names]


def _power(device: DeviceSnapshot) -> str:
    return f"{_number(device.drawn_power_w)}/{_number(device.power_limit_w)} W"


def _ram(host: HostSnapshot) -> str:
    return f"{bytes_text(host.memory_used_bytes, unit=False)} of {bytes_text(host.memory_total_bytes)} used"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
