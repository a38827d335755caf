"""A telemetry snapshot on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from planner.observe.snapshot import Snapshot
from planner.present.lines.text_table import TextTable, fitted
from planner.present.machine.telemetry import device_table, health_lines, host_line, missing_notes, process_table
from planner.text import one_line
from planner.units import UNKNOWN

if TYPE_CHECKING:
    from rich.text import Text

MOST_SHOWN = 256
"""Maximum number of GPUs with a line."""


def telemetry_text(snapshot: Snapshot, width: int, stale_for_s: float | None = None) -> Text:
    """Lines for a terminal of `width` columns; `stale_for_s`: seconds since the last reading if the next is overdue."""
    from rich.text import Text

    if (more := len(snapshot.devices) - MOST_SHOWN) > 0:
        snapshot = msgspec.structs.replace(snapshot, devices=snapshot.devices[:MOST_SHOWN])
    devices, processes = fitted(device_table(snapshot), width), process_table(snapshot)
    lines: list[Text] = []
    if snapshot.badge is not None:
        taken_at = one_line(snapshot.taken_at) or "no date stated"
        lines.append(Text.assemble((f" {one_line(snapshot.badge)} ", "reverse bold"), f"  {taken_at}"))
    if stale_for_s is not None:
        silent = "it" if snapshot.source else "the driver"
        lines.append(Text(f"No reading for {stale_for_s:.0f} s: {silent} does not answer", style="bold"))
    if snapshot.devices:
        lines += _lines(devices)
        lines += [Text(f"… and {more:,} more GPUs; --json and --prometheus print all")] if more > 0 else []
    else:
        lines.append(Text("The NVIDIA driver reports no GPU" if snapshot.nvml_state == "ready" else one_line(snapshot.nvml_detail)))
    if snapshot.host.cpu_name:
        lines.append(Text(one_line(host_line(snapshot.host))))
    lines += [Text(f"! {one_line(words)}", style="bold") for words in health_lines(snapshot)]
    if processes is not None:
        lines += _lines(fitted(processes, width))
    shown = [column.column for column in devices.columns]
    lines += [Text(f"{UNKNOWN} {one_line(note)}", style="dim") for note in missing_notes(snapshot, shown)]
    return Text("\n").join(lines)


def _lines(table: TextTable) -> list[Text]:
    from rich.text import Text

    return [Text(table.head(), style="bold"), *(Text(line) for lines in table.rows() for line in lines)]
