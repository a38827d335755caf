"""Memory of one row: its items with their formulas, and the memory left on the GPU."""

from __future__ import annotations

from typing import NamedTuple

from planner.engine.answers.memory import MemoryBytes, MemoryDetail, MemoryItem
from planner.engine.answers.plan import PlanRow
from planner.present.cells import Cell, Column, Fact, Facts, Section, Table, spread_text
from planner.present.names import COMPONENT_NAMES, device_name, row_place
from planner.units import UNKNOWN, bytes_text, percent_text, used_text

LEFT, SHORT = "left", "short"
"""Words for unused and for missing memory."""


class ItemLine(NamedTuple):
    """One item of memory in a table."""

    component: str
    """Name of its component; empty if the line above has the same."""
    item: MemoryItem
    share: float
    """Share of the bytes of all items."""


ITEM_COLUMNS: tuple[Column[ItemLine], ...] = (
    Column("component", "component", lambda line: line.component, priority=90),
    Column("bytes", "bytes", lambda line: bytes_text(line.item.bytes), right=True),
    Column("share", "share", lambda line: Cell(percent_text(line.share), share=line.share), right=True, priority=80),
    Column("what", "what", lambda line: line.item.name, least_width=16),
    Column("formula", "worked out", lambda line: line.item.formula, priority=70, least_width=30),
    Column("source", "source", lambda line: line.item.source, priority=60, least_width=18),
)


def memory_section(row: PlanRow, detail: MemoryDetail) -> Section:
    """Items of the fullest GPU of `row`, then the steps from the data sheet to the free memory."""
    layout = row.answer.layout
    which = "the fullest GPU at its peak" if layout and layout.gpus > 1 else "at its peak"
    return Section(f"Memory of {row_place(row)}, {which}", [Table(ITEM_COLUMNS, item_lines(detail)), Facts(ledger(row, detail))])


def item_lines(detail: MemoryDetail) -> list[ItemLine]:
    """Items in order; each component is named once."""
    lines: list[ItemLine] = []
    before = ""
    for item in detail.items:
        name = "" if item.component == before else COMPONENT_NAMES[item.component]
        lines.append(ItemLine(name, item, item.bytes / detail.total_bytes))
        before = item.component
    return lines


def ledger(row: PlanRow, detail: MemoryDetail) -> list[Fact]:
    """Steps from the bytes on the data sheet to the free memory, without empty ones; needed bytes have a range."""
    facts = [
        Fact("on the data sheet", bytes_text(detail.label_bytes)),
        Fact("for programs", bytes_text(detail.capacity_bytes), detail.capacity_source),
    ]
    if detail.memory_fraction < 1:
        share = f"{percent_text(detail.memory_fraction)} of that"
        facts.append(Fact("for the engine", bytes_text(detail.capacity_bytes * detail.memory_fraction), share))
    if detail.headroom > 0:
        facts.append(Fact("usable", bytes_text(detail.usable_bytes), f"{percent_text(detail.headroom)} of that kept free"))
    total = row.answer.memory_bytes.total if row.answer.memory_bytes else None
    needed = Cell(bytes_text(detail.total_bytes), spread_text(total), total.basis if total else None)
    facts.append(Fact("needed", needed, f"{percent_text(detail.total_bytes / detail.capacity_bytes)} of that for programs"))
    facts.append(Fact(LEFT if detail.left_bytes >= 0 else SHORT, bytes_text(abs(detail.left_bytes)), "of what is usable"))
    if detail.host_bytes:
        facts.append(Fact("on the host", bytes_text(detail.host_bytes), "for each GPU, what is offloaded"))
    return facts


def left_text(memory: MemoryBytes) -> str:
    """Unused or missing memory: '36.6 GiB left', '18.2 GiB short'."""
    return f"{bytes_text(abs(memory.left))} {LEFT if memory.left >= 0 else SHORT}"


def has_replicas(row: PlanRow) -> bool:
    """True if the model is there more than once, so that numbers of sequences are those of several GPUs."""
    return row.answer.layout is not None and row.answer.layout.dp > 1


def memory_heading(row: PlanRow) -> str:
    """Heading such as 'H200 SXM, fullest of 4 · 79.1 of 139.8 GiB · 36.6 GiB left'."""
    memory = row.answer.memory_bytes
    if memory is None:
        return f"{device_name(row.gpu)} · {UNKNOWN}"
    which = f", fullest of {row.answer.gpus:,}" if row.answer.gpus > 1 else ""
    return f"{device_name(row.gpu)}{which} · {used_text(memory.total.value, memory.capacity)} · {left_text(memory)}"
