"""Memory of one row item by item: what every byte is for, the sum it comes from with the user's numbers, and its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryBytes, MemoryDetail, MemoryItem
from planner.engine.answers.plan import Lever, Plan, PlanRow
from planner.present.cells import Cell, ends_text
from planner.present.choice.levers import lever_text
from planner.present.lines.folding import folded
from planner.present.memory import LEFT, SHORT, ledger
from planner.present.names import COMPONENT_NAMES, device_name
from planner.units import bytes_text, percent_text
from widgets.background import questions
from widgets.base_app import BaseApp
from widgets.drawing.memory_bar import MemoryBar
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, component_style, labelled, side_by_side, styled_lines
from widgets.panes.memory import memory_facts
from widgets.screens.overlay import TextOverlay

INDENT, SIZE, SHARE = 3, 11, 6
"""Cells of the left columns."""
LABEL, NARROW_LABEL = 34, 26
BESIDE, THREE_COLUMNS = 84, 128
"""Cells from which formulas stand beside their item, and sources beside the formulas."""
BAR, LEAST_BAR = 30, 10


async def open_screen(app: BaseApp) -> None:
    """Itemise the memory of the highlighted row; where it does not fit, with what would make it."""
    row = app.table.highlighted
    if row is None or app.plan is None:
        return
    screen = ItemsScreen(row, app.plan, app.symbols)
    await app.push_screen(screen)
    screen.show(await app.search(questions.memory_detail, row))
    if row.rank is None:
        screen.show_levers(await app.search(questions.levers, row))


class ItemsScreen(TextOverlay):
    """Every item of the memory of one row."""

    WIDTH = 176
    DEFAULT_CSS = "#items-stack { height: 1; margin: 0 0 1 0; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,M", "dismiss", "back", show=False)]

    def __init__(self, row: PlanRow, plan: Plan, symbols: Symbols) -> None:
        which = ", the fullest GPU" if row.answer.gpus > 1 else ""
        super().__init__(f"Memory · {row.answer.gpus:,} × {device_name(row.gpu)}{which}")
        self._row, self._plan, self._symbols = row, plan, symbols
        self._detail: MemoryDetail | None = None
        self._levers: Sequence[Lever] = ()

    def above(self) -> Iterator[MemoryBar]:
        """Stack."""
        bar = MemoryBar(symbols=self._symbols, id="items-stack")
        bar.show(self._row.answer.memory_bytes, self._row.why)
        yield bar

    def show(self, detail: MemoryDetail | None) -> None:
        """Show the items."""
        self._detail = detail
        self.draw()

    def show_levers(self, levers: Sequence[Lever]) -> None:
        """Show the changes that would make a row fit that does not."""
        self._levers = levers
        self.draw()

    def lines(self, width: int) -> list[Content]:
        """Way from the data sheet to what is left, the levers, and the items by component."""
        if self._detail is None:
            return []
        head = _head(self._row, self._detail, self._symbols, width)
        return [
            *head,
            *_levers(self._levers, self._symbols, width),
            *_components(self._row, self._detail, self._symbols, width),
        ][:-1]


def _label(width: int) -> int:
    """Cells of the names at the left."""
    return LABEL if width >= BESIDE else NARROW_LABEL


def _head(row: PlanRow, detail: MemoryDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    """Lines from the memory of the data sheet to what is left, and what that is enough for."""
    label = _label(width)
    total = row.answer.memory_bytes.total if row.answer.memory_bytes else None
    for fact in ledger(row, detail):
        style = {"needed": "bold", LEFT: "bold $text-success", SHORT: "bold $text-error"}.get(fact.label, "")
        cell, aside = fact.value if isinstance(fact.value, Cell) else Cell(fact.value), fact.aside
        if cell.basis is not None and total is not None:
            aside += f" {symbols.basis[cell.basis]} {cell.spread}, {ends_text(total, bytes_text)}"
        head = Content.assemble((f"{fact.label:<{label}}", style or "$quiet"), (f"{cell.text:>{SIZE}}   ", style))
        yield from side_by_side([([head], label + SIZE + 3), (styled_lines(aside, width - label - SIZE - 3, "$quiet"), 0)])
    yield from styled_lines(" · ".join(memory_facts(row)), width, "$quiet")
    yield Content("")


def _levers(levers: Sequence[Lever], symbols: Symbols, width: int) -> Iterator[Content]:
    """Changes that would make it fit, each with what it costs."""
    if not levers:
        return
    yield Content.styled("What would change it", "bold $accent")
    yield from lever_lines(levers, symbols, width)
    yield Content("")


def lever_lines(levers: Sequence[Lever], symbols: Symbols, width: int) -> Iterator[Content]:
    """Levers with what they save and cost; those that are enough stand out."""
    for lever in levers:
        style, sign_style = ("$text-success", "$text-success") if lever.gpu else ("", "$quiet")
        yield from labelled(f"  {symbols.arrow} ", 4, lever_text(lever), width, style, sign_style)


def _components(row: PlanRow, detail: MemoryDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    memory = row.answer.memory_bytes
    if memory is None:
        return
    for component in MEMORY_COMPONENTS:
        items = [item for item in detail.items if item.component == component]
        if items:
            yield _heading(component, memory, symbols, width)
            for item in items:
                name, size = (item.name, bytes_text(item.bytes)) if len(items) > 1 else (_unsaid(item), "")
                formula = f"= {item.formula}" if item.formula != size else ""
                worked_out, source = (text.replace(" · ", f" {symbols.times} ") for text in (formula, item.source))
                yield from _item(name, size, width, worked_out, source)
            yield Content("")


def _heading(component: str, memory: MemoryBytes, symbols: Symbols, width: int) -> Content:
    """A component: its swatch, bytes, share of the GPU, and that as a bar."""
    size = float(getattr(memory, component))
    share = size / memory.capacity if memory.capacity else 0.0
    colour = component_style(component)
    room = width - _label(width) - SIZE - SHARE - 2
    bar = bar_text(share, min(BAR, room), symbols.patterns[component], " ") if room >= LEAST_BAR else ""
    return Content.assemble(
        (symbols.patterns[component] * 2, colour),
        (f" {COMPONENT_NAMES[component]:<{_label(width) - 3}}", "bold"),
        (f"{bytes_text(size):>{SIZE}}", "bold"),
        (f"{percent_text(share):>{SHARE}}  ", "$quiet"),
        (bar.rstrip(), colour),
    )


def _unsaid(item: MemoryItem) -> str:
    """The name of an item that is alone in its component, where that does not say it already."""
    return "" if item.name.casefold() == COMPONENT_NAMES[item.component].casefold() else item.name


def _item(name: str, size: str, width: int, worked_out: str, source: str) -> Iterator[Content]:
    """Name and bytes; formula and source beside them where there is room, else below."""
    label = _label(width)
    names = folded(name, label - INDENT - 1)
    left = [f"{'':{INDENT}}{line:<{label - INDENT}}" for line in names]
    sizes = [f"{size:>{SIZE}}", *[" " * SIZE] * (len(names) - 1)]
    if width < BESIDE:
        if name:
            yield from (Content(f"{line}{cell}") for line, cell in zip(left, sizes, strict=True))
        for text, style, hang in ((worked_out, "", "  "), (source, "$quiet", "")):
            for line in folded(text, width - INDENT - 2, hanging=hang) if text else ():
                yield Content.assemble((f"{'':{INDENT + 2}}{line}", style))
        return
    room = width - label - SIZE - 3
    formula_width = room if width < THREE_COLUMNS else room * 3 // 5
    formula = folded(worked_out, formula_width, hanging="  ") if worked_out else []
    sources = folded(source, room if width < THREE_COLUMNS else room - formula_width - 3) if source else []
    yield from _rows(left, sizes, formula, sources, formula_width, beside=width >= THREE_COLUMNS)


def _rows(
    names: list[str], sizes: list[str], formula: list[str], source: list[str], formula_width: int, *, beside: bool
) -> Iterator[Content]:
    """Columns of one item, line by line; the source in a column of its own, or below the formula."""
    right = [*((line, "") for line in formula), *((line, "$quiet") for line in source if not beside)]
    for name, size, words, tail in zip_longest(names, sizes, right, source if beside else ()):
        text, style = words or ("", "")
        yield Content.assemble(
            name or " " * len(names[0]),
            size or " " * SIZE,
            (f"   {text:<{formula_width if tail else 0}}", style),
            (f"   {tail}" if tail else "", "$quiet"),
        )
