"""Memory of the fullest GPU: one stacked bar, every component its own pattern and colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes
from planner.present.memory import left_text
from planner.present.names import COMPONENT_NAMES
from planner.units import GIB, used_text
from widgets.drawing.styles import ThemeStyles
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
    left: bool = False
    """True if it includes what is left."""
    limit: bool = False
    """True if it includes the share that may be used."""


NAMINGS = (
    Naming(COMPONENT_NAMES, 2, " GiB", left=True, limit=True),
    Naming(COMPONENT_NAMES, 2, left=True, limit=True),
    Naming(COMPONENT_NAMES, 1, left=True, limit=True),
    Naming(COMPONENT_NAMES, 1, left=True),
    Naming(COMPONENT_NAMES, 1),
    Naming(MEDIUM_NAMES, 1),
    Naming(SHORT_NAMES, 1),
)
INSIDE = (Naming(COMPONENT_NAMES, 0, " GiB"), Naming(COMPONENT_NAMES, 0), Naming(MEDIUM_NAMES, 0))
"""Forms of a legend, and those of names inside the stack, where a name without a unit has no size; the clearest first."""

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
        symbols: Symbols = UNICODE,
        id: str | None = None,  # noqa: A002  (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self.memory: MemoryBytes | None = None
        """Memory that is shown."""
        self._symbols = symbols
        self._empty_text = "no plan yet"
        self._style = ThemeStyles({})

    def show(self, memory: MemoryBytes | None, empty_text: str = "") -> None:
        """Show these bytes; `empty_text`: the reason where there are none."""
        if (memory, empty_text) != (self.memory, self._empty_text):
            self.memory, self._empty_text = memory, empty_text
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Bar rows first; the legend takes the last row when there are two or more."""
        width, height = self.size
        base = self.rich_style
        self._style = self._style.of(self.app)
        if self.memory is None:
            text = shorten_clauses(self._empty_text, width, self._symbols.ellipsis) if y == 0 else ""
            return Strip([Segment(text[:width].ljust(width), base + self._style("label"))], width)
        if height == 1:
            return Strip(list(self._inline(width)), width).adjust_cell_length(width, base)
        if y == height - 1:
            return Strip(list(self._legend(width)), None).adjust_cell_length(width, base)
        return Strip(list(self._bar(width)), width)

    def _bar(self, width: int) -> Iterator[Segment]:
        """Stack, with the headroom mark in the free part and the end of the memory in an overfull one."""
        memory = self.memory
        assert memory is not None
        parts, end = split_cells(memory, width)
        mark = min(width - 1, round(end * memory.usable_share))
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
        """Component, glyphs and text of every entry, as clear as `width` cells allow; what is left goes before names are cut: the title says it too."""
        items: list[tuple[str, str, str]] = []
        if self.memory is None:
            return items
        for naming in NAMINGS:
            items = list(self._legend_items(self.memory, naming))
            if _cells(items) <= width:
                break
        return items

    def _legend_items(self, memory: MemoryBytes, naming: Naming) -> Iterator[tuple[str, str, str]]:
        for name in MEMORY_COMPONENTS:
            size = float(getattr(memory, name))
            if size > 0:
                swatch = self._symbols.patterns[name].replace("█", self._symbols.filled)  # apart from the bar above it
                yield name, swatch * naming.swatch, f"{naming.names[name]} {_gib(size)}{naming.unit}"
        if not naming.left:
            return
        if memory.left >= 0:
            mark = f"  {self._symbols.headroom} {memory.usable_share * 100:.0f} % usable" if naming.limit else ""
            yield "headroom", "", f"{left_text(memory)}{mark}"
        else:
            beyond = memory.total.value > memory.capacity
            yield "over", self._symbols.divider if beyond else self._symbols.headroom, left_text(memory)

    def _inline(self, width: int) -> Iterator[Segment]:
        """One row: names and sizes inside the stack where they fit, the total at the right."""
        memory = self.memory
        assert memory is not None
        base = self.rich_style
        tail = f" {used_text(memory.total.value, memory.capacity)}"
        parts, end = split_cells(memory, max(10, width - len(tail)))
        texts = dict(labels(memory, parts))
        position = 0
        for name, _, cells in parts:
            glyph = " " if name == "free" else self._symbols.patterns[name]
            style, text = base + self._style(name), texts.get(name, "")
            named = range(position + 1, position + 1 + len(text))
            for cell in range(position, position + cells):
                if cell in named:
                    yield Segment(text[cell - named.start], base + self._style("label") + Style(bold=name != "free"))
                elif cell == end:
                    yield Segment(self._symbols.divider, base + self._style("over"))
                else:
                    yield Segment(glyph, style)
            position += cells
        yield Segment(tail, base + self._style("label"))


def labels(memory: MemoryBytes, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """Names inside the stack, a cell of the pattern on either side: in the clearest form that the widest component has room for."""
    room = {name: cells - 2 for name, _, cells in parts}
    sizes = {name: size for name, size, _ in parts if name != "free"}
    widest = max(sizes, key=lambda name: room[name], default="")
    for naming in INSIDE:
        texts = {
            name: f" {naming.names[name]}{f' {_gib(size)}{naming.unit}' if naming.unit else ''} " for name, size in sizes.items()
        }
        if widest and len(texts[widest]) <= room[widest]:
            yield from ((name, text) for name, text in texts.items() if len(text) <= room[name])
            break
    if len(left := left_text(memory)) <= room.get("free", 0) and memory.left >= 0:
        yield "free", left


def _cells(items: Sequence[tuple[str, str, str]]) -> int:
    """Width of a legend's entries with two blanks between them."""
    return sum(len(glyph) + 1 + len(text) + 2 for _, glyph, text in items) - 2


def _gib(size: float) -> str:
    """GiB without the unit, which the line states once: '33.2', '0.04'."""
    gib = size / GIB
    return f"{gib:,.1f}" if gib >= 0.095 else f"{gib:.2f}"
