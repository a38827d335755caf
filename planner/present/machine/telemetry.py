"""Telemetry snapshot as tables and text: GPUs with slices, host, processes, and reasons for missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from planner.observe.health import warning_text
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot, ProcessSnapshot, Snapshot
from planner.present.cells import LEAST_SHARE, Cell, Column, Fact, Table
from planner.units import MEGA, UNKNOWN, bytes_text, digits, number_text, numbers_text, percent_text, si_text, used_text

JOULES_PER_KWH = 3.6e6
Part = DeviceSnapshot | MigSnapshot


def _share(field: str) -> Callable[[Part], Cell | str]:
    """Function for the cell of a fraction; empty for a slice without the counter."""

    def cell(part: Part) -> Cell | str:
        if isinstance(part, MigSnapshot) and not hasattr(part, field):
            return ""
        value = getattr(part, field)
        return Cell(percent_text(value), share=value)

    return cell


def _of_gpu(text: Callable[[DeviceSnapshot], str]) -> Callable[[Part], str]:
    """Function for the cell of a value that only whole GPUs have."""
    return lambda part: text(part) if isinstance(part, DeviceSnapshot) else ""


def power_text(device: DeviceSnapshot) -> str:
    """Power and its limit: '650 of 700 W'."""
    drawn, limit = device.drawn_power_w, device.power_limit_w
    return f"{digits(drawn)} of {digits(limit)} W" if limit is not None else f"{digits(drawn)} W" if drawn is not None else UNKNOWN


def held_back_text(device: DeviceSnapshot) -> str:
    """Reasons for a reduced clock: the present ones, and the share of the last seconds for each."""
    if device.event_reasons is None:
        return UNKNOWN
    shares = device.throttled_fraction or {}
    lasting = [f"{reason} {percent_text(share)}" for reason, share in shares.items() if share >= LEAST_SHARE]
    named = [reason for reason in device.event_reasons if shares.get(reason, 0.0) < LEAST_SHARE]
    return ", ".join(lasting + named) or "nothing"


def _errors(device: DeviceSnapshot) -> str:
    """Memory errors in the GPU's lifetime, uncorrected ones first."""
    counts = device.ecc_uncorrected_aggregate, device.ecc_corrected_aggregate
    return UNKNOWN if None in counts else f"{counts[0]:,}, {counts[1]:,} corrected"


COLUMNS: tuple[Column[Part], ...] = (
    Column("sm", "SM active", _share("sm_active_fraction"), right=True),
    Column("occupancy", "occupancy", _share("sm_occupancy_fraction"), right=True, priority=20),
    Column("tensor", "tensor", _share("tensor_active_fraction"), right=True),
    Column("dram", "DRAM bw", _share("dram_bandwidth_fraction"), right=True),
    Column("kernel", "kernel-resident", _share("kernel_resident_fraction"), right=True, priority=40),
    Column("memory", "memory", lambda part: used_text(part.memory_used_bytes, part.memory_total_bytes), right=True, priority=95),
    Column("power", "power", _of_gpu(power_text), right=True, priority=90),
    Column("clock", "SM clock", _of_gpu(lambda gpu: number_text(gpu.sm_clock_hz, "MHz", MEGA)), right=True, priority=50),
    Column("temperature", "°C", _of_gpu(lambda gpu: number_text(gpu.temperature_c)), right=True, priority=60),
    Column("errors", "memory errors", _of_gpu(_errors), right=True, priority=10),
    Column("held back", "held back by", _of_gpu(held_back_text), priority=30, least_width=16),
)
FIELDS = {
    "sm": ("sm_active_fraction",),
    "occupancy": ("sm_occupancy_fraction",),
    "tensor": ("tensor_active_fraction",),
    "dram": ("dram_bandwidth_fraction",),
    "kernel": ("kernel_resident_fraction",),
    "memory": ("memory_used_bytes", "memory_total_bytes"),
    "power": ("power_limit_w",),
    "clock": ("sm_clock_hz",),
    "temperature": ("temperature_c",),
    "errors": ("ecc_uncorrected_aggregate", "ecc_corrected_aggregate"),
    "held back": ("event_reasons",),
}
"""Column -> fields of a snapshot that it shows."""


def device_table(snapshot: Snapshot) -> Table[Part]:
    """One line per GPU, followed by one per slice."""
    parts: list[Part] = []
    for device in snapshot.devices:
        parts += [device, *device.mig]
    return Table([Column("gpu", "GPU", _part_name), *COLUMNS], parts)


def _part_name(part: Part) -> str:
    if isinstance(part, MigSnapshot):
        return f"  MIG {part.profile}"
    name = (part.name or "unknown GPU").removeprefix("NVIDIA ")
    cuda = f" cuda:{part.cuda_ordinal}" if part.cuda_ordinal is not None else ""
    return f"{part.place} {name}{cuda}" + ("" if part.state == "ok" else f" [{part.state}]")


def health_lines(snapshot: Snapshot) -> list[str]:
    """Warnings about the memory of each GPU."""
    return [
        f"GPU {device.place}: {warning_text(warning, msgspec.structs.asdict(device))}"
        for device in snapshot.devices
        for warning in device.health_warnings
    ]


class ProcessLine(NamedTuple):
    """A process on a GPU, or the reason why none is listed."""

    device: DeviceSnapshot
    process: ProcessSnapshot | None = None

    @property
    def place(self) -> str:
        """Index of the GPU, such as '0', or '0/3' for a slice."""
        part = self.process.gpu_instance if self.process else None
        return self.device.place if part is None else f"{self.device.place}/{part}"

    @property
    def command(self) -> str:
        """Command line, or the reason why it is unknown."""
        if self.process is None:
            return "nobody uses it" if self.device.processes is not None else self.device.why("processes")
        return self.process.command or f"{UNKNOWN} {self.process.reasons.get('command', '')}".rstrip()


def _pid(line: ProcessLine) -> str:
    if line.process is not None:
        return str(line.process.pid)
    return UNKNOWN if line.device.processes is None else "0"


PROCESS_COLUMNS: tuple[Column[ProcessLine], ...] = (
    Column("gpu", "GPU", lambda line: line.place),
    Column("process", "process", _pid, right=True),
    Column("memory", "memory", lambda line: bytes_text(line.process.memory_bytes) if line.process else "", right=True),
    Column("kind", "kind", lambda line: line.process.kind if line.process else "", priority=50),
    Column("user", "user", lambda line: line.process.user or UNKNOWN if line.process else "", priority=60),
    Column("command", "command", lambda line: line.command, least_width=20),
)


def process_table(snapshot: Snapshot) -> Table[ProcessLine] | None:
    """Table of the processes on each GPU; None if they were not read."""
    if not any(device.processes is not None or "processes" in device.reasons for device in snapshot.devices):
        return None
    lines = [ProcessLine(device, one) for device in snapshot.devices for one in device.processes or (None,)]
    return Table(PROCESS_COLUMNS, lines)


def host_line(host: HostSnapshot) -> str:
    """Line on the computer of the GPUs."""
    memory = used_text(host.memory_used_bytes, host.memory_total_bytes)
    return f"CPU {host.cpu_name}: {percent_text(host.cpu_busy_fraction)} of {host.cpu_cores or UNKNOWN} logical CPUs busy, memory {memory}"


def missing_notes(snapshot: Snapshot, columns: Iterable[Column[Part]] = COLUMNS) -> list[str]:
    """A line for each reason why values of `columns` are missing, with the affected columns and GPUs."""
    concerned: dict[str, tuple[dict[str, None], dict[int, None]]] = {}
    fields = [(column.title, field) for column in columns for field in FIELDS.get(column.id, ())]
    for device in snapshot.devices:
        for title, field in fields:
            if getattr(device, field) is None:
                titles, gpus = concerned.setdefault(device.why(field), ({}, {}))
                titles[title] = gpus[device.index] = None
    notes = []
    for reason, (titles, gpus) in concerned.items():
        where = f" (GPU {numbers_text(gpus)})" if len(snapshot.devices) > 1 else ""
        notes.append(f"{', '.join(titles)}{where}: {reason}")
    reasons = snapshot.host.reasons.items()
    return notes + [f"host {field.rpartition('_')[0].replace('_', ' ')}: {reason}" for field, reason in reasons]


def device_facts(device: DeviceSnapshot, why_no_errors: str) -> Iterator[Fact]:
    """Links, energy, memory clock and temperature, and memory errors of a GPU in detail."""
    clock = number_text(device.memory_clock_hz, "MHz", MEGA)
    energy = UNKNOWN if device.energy_j is None else f"{device.energy_j / JOULES_PER_KWH:,.1f} kWh since the driver was loaded"
    yield Fact("links, energy", f"{_links(device)}, energy {energy}")
    yield Fact("memory chips", f"{clock}, {number_text(device.memory_temperature_c)} °C")
    yield Fact("memory errors", _errors_at_length(device) or f"{UNKNOWN} {why_no_errors}")


def _links(device: DeviceSnapshot) -> str:
    known = device.pcie_generation is not None and device.pcie_width is not None
    generation = f"PCIe {device.pcie_generation}.0 ×{device.pcie_width}" if known else f"PCIe {UNKNOWN}"
    rates = [
        f"{name} {si_text(received + sent, 'B/s')}"
        for name, received, sent in (
            ("", device.pcie_rx_bytes_per_s, device.pcie_tx_bytes_per_s),
            (", NVLink", device.nvlink_rx_bytes_per_s, device.nvlink_tx_bytes_per_s),
        )
        if received is not None and sent is not None
    ]
    return f"{generation}{''.join(rates)}"


def _errors_at_length(device: DeviceSnapshot) -> str:
    """Counts of ECC errors, replaced rows and retired pages; empty if ECC errors are not counted."""
    ever = device.ecc_uncorrected_aggregate, device.ecc_corrected_aggregate
    since = device.ecc_uncorrected_volatile, device.ecc_corrected_volatile
    if None in ever:
        return ""
    text = f"{number_text(ever[0])} not corrected, {number_text(ever[1])} corrected ever"
    if None not in since:
        text += f"; {number_text(since[0])} and {number_text(since[1])} since the driver was loaded"
    rows = [device.remapped_rows_uncorrectable, device.remapped_rows_correctable]
    pages = [device.retired_pages_double_bit, device.retired_pages_single_bit]
    for name, counts in (("rows replaced", rows), ("pages retired", pages)):
        if None not in counts:
            text += f"; {name} {sum(count or 0 for count in counts):,}"
    return text
