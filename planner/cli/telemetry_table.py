"""A telemetry snapshot as a table: a line per GPU and slice, the host, and the reason of every value that is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from planner.observe.health import warning_text
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot, Snapshot
from planner.units import UNKNOWN, bytes_text, digits, percent_text

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def _gpu_name(device: DeviceSnapshot) -> str:
    name = (device.name or "unknown GPU").removeprefix("NVIDIA ")
    cuda = f" cuda:{device.cuda_ordinal}" if device.cuda_ordinal is not None else ""
    return f"{device.index} {name}{cuda}" + ("" if device.state == "ok" else f" [{device.state}]")


def _memory(part: DeviceSnapshot | MigSnapshot) -> str:
    if part.memory_used_bytes is None or part.memory_total_bytes is None:
        return UNKNOWN
    return f"{bytes_text(part.memory_used_bytes, unit=False)} of {bytes_text(part.memory_total_bytes)}"


def _power(device: DeviceSnapshot) -> str:
    drawn, limit = device.drawn_power_w, device.power_limit_w
    shown = UNKNOWN if drawn is None else f"{digits(drawn)}"
    return f"{shown} of {digits(limit)} W" if limit is not None else f"{shown} W" if drawn is not None else UNKNOWN


def _clock(device: DeviceSnapshot) -> str:
    return UNKNOWN if device.sm_clock_hz is None else f"{device.sm_clock_hz / 1e6:,.0f} MHz"


def _held_back(device: DeviceSnapshot) -> str:
    """Reasons of the moment, and the share of the last seconds each one held the clock back."""
    if device.event_reasons is None:
        return UNKNOWN
    shares = device.throttled_fraction or {}
    lasting = [f"{reason} {percent_text(share)}" for reason, share in shares.items() if share >= 0.005]
    named = [reason for reason in device.event_reasons if reason not in shares or shares[reason] < 0.005]
    return ", ".join(lasting + named) or "nothing"


def _errors(device: DeviceSnapshot) -> str:
    """In the GPU's life, those it could not correct first."""
    counts = device.ecc_uncorrected_aggregate, device.ecc_corrected_aggregate
    return UNKNOWN if None in counts else f"{counts[0]:,}, {counts[1]:,} corrected"


class Column(NamedTuple):
    """One column: its cell for a GPU, the snapshot fields behind it, and for a slice where that differs from nothing."""

    title: str
    cell: Callable[[DeviceSnapshot], str]
    fields: tuple[str, ...]
    slice_cell: Callable[[MigSnapshot], str] = lambda _: ""
    least_width: int = 0


COLUMNS = (
    Column(
        "SM active",
        lambda gpu: percent_text(gpu.sm_active_fraction),
        ("sm_active_fraction",),
        lambda part: percent_text(part.sm_active_fraction),
    ),
    Column(
        "occupancy",
        lambda gpu: percent_text(gpu.sm_occupancy_fraction),
        ("sm_occupancy_fraction",),
        lambda part: percent_text(part.sm_occupancy_fraction),
        140,
    ),
    Column(
        "tensor",
        lambda gpu: percent_text(gpu.tensor_active_fraction),
        ("tensor_active_fraction",),
        lambda part: percent_text(part.tensor_active_fraction),
    ),
    Column(
        "DRAM bw",
        lambda gpu: percent_text(gpu.dram_bandwidth_fraction),
        ("dram_bandwidth_fraction",),
        lambda part: percent_text(part.dram_bandwidth_fraction),
    ),
    Column(
        "kernel-resident", lambda gpu: percent_text(gpu.kernel_resident_fraction), ("kernel_resident_fraction",), least_width=110
    ),
    Column("memory", _memory, ("memory_used_bytes", "memory_total_bytes"), _memory),
    Column("power", _power, ("power_limit_w",)),
    Column("SM clock", _clock, ("sm_clock_hz",), least_width=100),
    Column(
        "°C", lambda gpu: UNKNOWN if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}", ("temperature_c",), least_width=100
    ),
    Column("memory errors", _errors, ("ecc_uncorrected_aggregate", "ecc_corrected_aggregate"), least_width=150),
    Column("held back by", _held_back, ("event_reasons",), least_width=120),
)


def telemetry_table(snapshot: Snapshot, width: int, stale_for_s: float | None = None) -> Group:
    """What to print on a terminal `width` columns wide."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines: list[Table | Text] = []
    if snapshot.badge is not None:
        lines.append(Text.assemble((f" {snapshot.badge} ", "reverse bold"), f"  {snapshot.taken_at}"))
    if stale_for_s is not None:
        lines.append(
            Text(f"No reading for {stale_for_s:.0f} s: {'it' if snapshot.source else 'the driver'} does not answer", style="bold")
        )
    columns = [column for column in COLUMNS if width >= column.least_width]
    if snapshot.devices:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
        table.add_column("GPU", no_wrap=True, overflow="ellipsis")
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=column.title != "held back by")
        for device in snapshot.devices:
            table.add_row(Text(_gpu_name(device)), *(column.cell(device) for column in columns))
            for part in device.mig:
                table.add_row(Text(f"  MIG {part.profile}"), *(column.slice_cell(part) for column in columns))
        lines.append(table)
    elif snapshot.nvml_state == "ready":
        lines.append(Text("The NVIDIA driver reports no GPU"))
    else:
        lines.append(Text(snapshot.nvml_detail))
    if snapshot.host.cpu_name:
        lines.append(Text(host_line(snapshot.host)))
    lines += [Text(f"! {words}", style="bold") for words in health_lines(snapshot)]
    if any(device.processes is not None or "processes" in device.reasons for device in snapshot.devices):
        lines.append(process_table(snapshot, width))
    lines += [Text(f"{UNKNOWN} {note}", style="dim") for note in missing_notes(snapshot, columns)]
    return Group(*lines)


def health_lines(snapshot: Snapshot) -> list[str]:
    """What is wrong with the memory of each GPU, in words."""
    return [
        f"GPU {device.index}: {warning_text(warning, msgspec.structs.asdict(device))}"
        for device in snapshot.devices
        for warning in device.health_warnings
    ]


def process_table(snapshot: Snapshot, width: int) -> Table:
    """Who uses each GPU; where that is not known, why."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    for title in ("GPU", "process", "memory", "kind", "user"):
        table.add_column(title, no_wrap=True, justify="right" if title in {"process", "memory"} else "left")
    table.add_column("command", no_wrap=True, overflow="ellipsis", max_width=max(20, width - 50))
    for device in snapshot.devices:
        gpu = Text(str(device.index))
        if not device.processes:
            table.add_row(gpu, UNKNOWN if device.processes is None else "0", "", "", "", _without_processes(device))
        for one in device.processes or ():
            part = f"{device.index}/{one.gpu_instance}" if one.gpu_instance is not None else str(device.index)
            command = one.command or f"{UNKNOWN} {one.reasons.get('command', '')}".rstrip()
            table.add_row(part, str(one.pid), bytes_text(one.memory_bytes), one.kind, one.user or UNKNOWN, Text(command))
    return table


def _without_processes(device: DeviceSnapshot) -> str:
    return "nobody uses it" if device.processes is not None else device.why("processes")


def host_line(host: HostSnapshot) -> str:
    """The computer around the GPUs in one line."""
    memory = UNKNOWN
    if host.memory_used_bytes is not None and host.memory_total_bytes is not None:
        memory = f"{bytes_text(host.memory_used_bytes, unit=False)} of {bytes_text(host.memory_total_bytes)}"
    return f"CPU {host.cpu_name}: {percent_text(host.cpu_busy_fraction)} of {host.cpu_cores or UNKNOWN} logical CPUs busy, memory {memory}"


def missing_notes(snapshot: Snapshot, columns: list[Column] | tuple[Column, ...] = COLUMNS) -> list[str]:
    """Why shown values are missing: one line per reason, the columns and GPUs it concerns."""
    concerned: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for device in snapshot.devices:
        for column in columns:
            for field in column.fields:
                if getattr(device, field) is None:
                    titles, gpus = concerned.setdefault(device.why(field), ({}, {}))
                    titles[column.title] = None
                    gpus[str(device.index)] = None
    notes = []
    for reason, (titles, gpus) in concerned.items():
        where = f" (GPU {', '.join(gpus)})" if len(snapshot.devices) > 1 else ""
        notes.append(f"{', '.join(titles)}{where}: {reason}")
    host = snapshot.host
    return notes + [f"host {field.rpartition('_')[0].replace('_', ' ')}: {reason}" for field, reason in host.reasons.items()]
