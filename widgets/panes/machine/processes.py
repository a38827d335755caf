"""Lines on the processes of each GPU, in one of several orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from planner.present.machine.telemetry import ProcessLine
from planner.units import UNKNOWN, bytes_text
from widgets.drawing.text import labelled, shorten_end

if TYPE_CHECKING:
    from planner.observe.snapshot import DeviceSnapshot, ProcessSnapshot
    from widgets.panes.machine.gpu import Drawing

LABEL, ROOMY_LABEL, PLACE, PID, MEMORY, KIND, USER = 14, 16, 6, 9, 9, 9, 10
"""Cells of the columns."""
KINDS = {"compute": "compute", "graphics": "graphics", "compute and graphics": "both"}
Line = tuple["DeviceSnapshot", "ProcessSnapshot"]
ORDERS: Mapping[str, Callable[[Line], Any]] = {
    "memory": lambda line: -(line[1].memory_bytes or 0.0),
    "GPU": lambda line: (line[0].index, -(line[1].memory_bytes or 0.0)),
    "user": lambda line: (line[1].user or "~", line[1].pid),
    "process": lambda line: line[1].pid,
}
"""Column -> sort key: the largest memory first, the others from their lowest value on."""


def process_lines(
    devices: Sequence[DeviceSnapshot], drawing: Drawing, order: str = "memory", *, roomy: bool = False
) -> list[Content]:
    """Lines on the processes of each GPU in this order, or the reason why they are not known; `roomy`: below such blocks."""
    label = ROOMY_LABEL if roomy else LABEL
    if drawing.recorded:
        return labelled(
            "processes", label, f"{UNKNOWN} only this machine's driver lists the processes of a GPU", drawing.width, "$quiet"
        )
    known = sorted(((device, one) for device in devices for one in device.processes or ()), key=ORDERS[order])
    lines = [_head(order, drawing)] if known else []
    lines += [_process(device, one, drawing) for device, one in known]
    for one in devices:
        if one.processes is None:
            lines += labelled(f"GPU {one.index}", label, f"{UNKNOWN} {one.why('processes')}", drawing.width, "$quiet")
    unused = [str(device.index) for device in devices if device.processes == ()]
    return lines + (labelled("nobody uses", label, f"GPU {', '.join(unused)}", drawing.width, "$quiet") if unused else [])


def _head(order: str, drawing: Drawing) -> Content:
    cells = (("GPU", PLACE), ("process", -PID), ("memory", -MEMORY), ("  kind", KIND + 2), ("user", USER), ("command", 0))
    parts = []
    for title, width in cells:
        mark = drawing.symbols.descending if title == "memory" else drawing.symbols.ascending
        name = f"{title}{mark}" if title.strip() == order else title
        text = name.rjust(-width) if width < 0 else name.ljust(width)
        parts.append((text, "bold $accent" if title.strip() == order else "$quiet"))
    return Content.assemble(*parts)


def _process(device: DeviceSnapshot, one: ProcessSnapshot, drawing: Drawing) -> Content:
    line = ProcessLine(device, one)
    text = (
        f"{line.place:<{PLACE}}{one.pid:>{PID}}{bytes_text(one.memory_bytes):>{MEMORY}}  {KINDS[one.kind]:<{KIND}}"
        f"{(one.user or UNKNOWN)[: USER - 1]:<{USER}}"
    )
    return Content(text + shorten_end(line.command, max(10, drawing.width - len(text)), drawing.symbols.ellipsis))
