"""Memory of the fullest GPU: one stacked bar, every component its own pattern and colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.present.names import COMPONENT_NAMES
from planner.units import GIB, bytes_text
from widgets.drawing.styles import Paint
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_clauses

SHORT_NAMES = {
    "weights": "w",
    "gradients": "grad",
    "optimizer": "opt",
    "activations": "act",
    "logits": "log",
    "kv_cache": "KV",
    "buffers": "buf",
    "overhead": "ovh",
}

MEDIUM_NAMES = {
    "weights": "weights",
    "gradients": "grads",
    "optimizer": "optim",
    "activations": "activ",
    "logits": "logits",
    "kv_cache": "KV cache",
    "buffers": "buffers",
    "overhead": "overh",
}


class Naming(NamedTuple):
    """Form of a legend's names."""

    names: Mapping[str, str]
    swatch: int
    """Cells of a pattern beside its name."""
    unit: str = ""
    limit: bool = True
    """Whether it says what may be used."""


NAMINGS = (
    Naming(COMPONENT_NAMES, 2, " GiB"),
    Naming(COMPONENT_NAMES, 2),
    Naming(COMPONENT_NAMES, 1),
    Naming(MEDIUM_NAMES, 1),
    Naming(MEDIUM_NAMES, 1, limit=False),
    Naming(SHORT_NAMES, 1),
    Naming(SHORT_NAMES, 1, limit=False),
)
"""The clearest first."""

Part = tuple[str, float, int]
"""Component (or 'free'), bytes, cells."""


def split_cells(memory: MemoryBytes, width: int) -> tuple[list[Part], int]:
    """Share `width` cells out in proportion to bytes; also the cell where the usable memory ends.

    Components above 0 get at least one cell. What does not fit is drawn beyond the end of the memory.
    """
    sizes = [(name, float(getattr(memory, name))) for name in MEMORY_COMPONENTS]
    sizes = [(name, size) for name, size in sizes if size > 0]
    used = sum(size for _, size in sizes)
    whole = max(used, memory.capacity)
    if whole <= 0 or width <= 0:
        return [], 0
    parts: list[Part] = []
    edge = sum_so_far = 0.0
    drawn = 0
    for name, size in sizes:
        sum_so_far += size
        edge = sum_so_far / whole * width
        cells = max(1, round(edge) - drawn)
        parts.append((name, size, cells))
        drawn += cells
    over = drawn - width
    while over > 0:
        widest = max(range(len(parts)), key=lambda index: parts[index][2])
        name, size, cells = parts[widest]
        if cells <= 1:
            break
        parts[widest] = (name, size, cells - 1)
        over -= 1
        drawn -= 1
    if drawn < width:
        parts.append(("free", max(0.0, memory.capacity - used), width - drawn))
    return parts, round(memory.capacity / whole * width)


class MemoryBar(Widget):
    """A stack bar of 1 to 3 rows: bar, bar with room for names, legend."""

    def __init__(
        self,
        *,
        headroom: float = 0.1,
        symbols: Symbols = UNICODE,
        id: str | None = None,  # noqa: A002  (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._memory: MemoryBytes | None = None
        self._headroom = headroom
        self._symbols = symbols
        self._empty_text = "no plan yet"
        self._style = Paint({})

    @property
    def memory(self) -> MemoryBytes | None:
        """Memory that is shown."""
        return self._memory

    def show(self, memory: MemoryBytes | None, headroom: float, empty_text: str = "") -> None:
        """Show these bytes; `headroom` is the fraction to be left free, `empty_text` says why there is nothing."""
        if (memory, headroom, empty_text) != (self._memory, self._headroom, self._empty_text):
            self._memory, self._headroom, self._empty_text = memory, headroom, empty_text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Bar rows first; the legend takes the last row when there are two or more."""
        width, height = self.size
        base = self.rich_style
        self._style = self._style.of(self.app)
        if self._memory is None:
            text = shorten_clauses(self._empty_text, width, self._symbols.ellipsis) if y == 0 else ""
            return Strip([Segment(text[:width].ljust(width), base + self._style("label"))], width)
        if height == 1:
            return Strip(list(self._inline(width)), width).adjust_cell_length(width, base)
        if y == height - 1:
            return Strip(list(self._legend(width)), None).adjust_cell_length(width, base)
        return Strip(list(self._bar(width)), width)

    def _bar(self, width: int) -> Iterator[Segment]:
        """The stack, with the headroom mark in the free part and the end of the memory in an overfull one."""
        memory = self._memory
        assert memory is not None
        parts, end = split_cells(memory, width)
        mark = min(width - 1, round(end * (1 - self._headroom)))
        base, position = self.rich_style, 0
        for name, _, cells in parts:
            glyph = " " if name == "free" else self._symbols.patterns[name]
            style = base + self._style(name)
            for cell in range(position, position + cells):
                if cell == end and end < width:
                    yield Segment(self._symbols.divider, base + self._style("over"))
                elif cell == mark and (name == "free" or end < width):
                    yield Segment(self._symbols.headroom, base + self._style("headroom"))
                else:
                    yield Segment(glyph, style)
            position += cells

    def _legend(self, width: int) -> Iterator[Segment]:
        base, label = self.rich_style, self.rich_style + self._style("label")
        for name, glyph, text in self.legend(width):
            yield Segment(glyph, base + self._style(name))
            yield Segment(f" {text}  ", label)

    def legend(self, width: int) -> list[tuple[str, str, str]]:
        """Component, glyphs and text of every entry, as clear as `width` cells allow."""
        items: list[tuple[str, str, str]] = []
        if self._memory is None:
            return items
        for naming in NAMINGS:
            items = list(self._legend_items(self._memory, naming))
            if sum(len(glyph) + 1 + len(text) + 2 for _, glyph, text in items) <= width + 2:
                break
        return items

    def _legend_items(self, memory: MemoryBytes, naming: Naming) -> Iterator[tuple[str, str, str]]:
        for name in MEMORY_COMPONENTS:
            size = float(getattr(memory, name))
            if size > 0:
                swatch = self._symbols.patterns[name].replace("█", self._symbols.filled)  # apart from the bar above it
                yield name, swatch * naming.swatch, f"{naming.names[name]} {_gib(size)}{naming.unit}"
        free = memory.capacity - memory.total.value
        if free >= 0:
            mark = f"  {self._symbols.headroom} {(1 - self._headroom) * 100:.0f} % limit" if naming.limit else ""
            yield "headroom", "", f"free {bytes_text(free)}{mark}"
        else:
            yield "over", self._symbols.divider, f"over by {bytes_text(-free)}"

    def _inline(self, width: int) -> Iterator[Segment]:
        """One row: names and sizes inside the stack where they fit, the total at the right."""
        memory = self._memory
        assert memory is not None
        base = self.rich_style
        tail = f" {memory.total.value / GIB:,.0f} of {bytes_text(memory.capacity)}"
        parts, end = split_cells(memory, max(10, width - len(tail)))
        position = 0
        for name, size, cells in parts:
            word, short = ("free", "free") if name == "free" else (COMPONENT_NAMES[name], SHORT_NAMES[name])
            options = (f" {word} {_gib(size)} ", f" {short} {_gib(size)} ", f" {short} ")
            text = next((option for option in options if len(option) < cells), "")
            glyph = " " if name == "free" else self._symbols.patterns[name]
            style = base + self._style(name)
            label = base + self._style("label") if name == "free" else style + Style(reverse=True, bold=True)
            if text:
                yield Segment(text, label)
            for cell in range(position + len(text), position + cells):
                if cell == end:
                    yield Segment(self._symbols.divider, base + self._style("over"))
                else:
                    yield Segment(glyph, style)
            position += cells
        yield Segment(tail, base + self._style("label"))


def _gib(size: float) -> str:
    """GiB without the unit, which the line states once: '33.2', '0.04'."""
    gib = size / GIB
    return f"{gib:,.1f}" if gib >= 0.095 else f"{gib:.2f}"
