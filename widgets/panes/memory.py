"""Pane 3: the memory of the highlighted row."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from planner.engine.answers.plan import Plan, PlanRow
from planner.present.memory import has_replicas, memory_heading
from planner.units import count_text, counted
from widgets.drawing.memory_bar import MemoryBar
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import styled_lines
from widgets.panes.frame import frame_of
from widgets.panes.lines import FoldedLines

ROOMY = 10
"""Rows from which the pane lists the components one by one."""


class MemoryView(Vertical, can_focus=True):
    """Pane 3: the stack of the highlighted row, and what still fits; it opens the items."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.act('memory')", "items", show=False)]

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="memory-view")
        self._symbols = symbols
        self._shown: tuple[PlanRow | None, Plan | None] = None, None

    def compose(self) -> ComposeResult:
        """Bar and one line of facts."""
        yield MemoryBar(symbols=self._symbols, id="stack")
        yield FoldedLines(id="facts")

    async def on_click(self) -> None:
        """Items."""
        await self.run_action("app.act('memory')")

    def show(self, row: PlanRow | None, plan: Plan | None) -> None:
        """Memory of this row."""
        self._shown = row, plan
        bar = self.query_one(MemoryBar)
        if row is None:
            frame_of(self).entitle("", "")
            bar.show(None, "no row")
            self._draw()
            return
        frame_of(self).entitle(memory_heading(row), "M memory" if row.answer.memory_bytes else "")
        bar.show(row.answer.memory_bytes, row.answer.reason or row.why)
        self._draw()

    def on_resize(self) -> None:
        """Fold for the new width; list the components where there is room for them."""
        self._draw()

    def _draw(self) -> None:
        row, plan = self._shown
        if row is None:
            self.query_one(FoldedLines).show([])
            return
        facts, room = " · ".join(memory_facts(row)), self.size
        lines = styled_lines(facts, room.width or len(facts), "$quiet")
        if plan is not None and room.height >= ROOMY:
            from widgets.screens.row.why import PageStyle, memory_lines

            lines += [Content(""), *memory_lines(row, plan, PageStyle(self._symbols, room.width))]
        self.query_one(FoldedLines).show(lines)


def memory_facts(row: PlanRow) -> list[str]:
    """Room that the memory leaves, in words."""
    answer = row.answer
    facts = []
    if answer.max_concurrency is not None:
        fit = f"fit{'s' * (answer.max_concurrency == 1)}"
        where = f"{fit} over all replicas" if has_replicas(row) else f"at once {fit}"
        facts.append(f"{counted(answer.max_concurrency, 'sequence')} {where}")
    if answer.max_context is not None:
        facts.append(f"longest context {answer.max_context:,} tokens")
    if answer.parameters is not None:
        counts = answer.parameters
        active = f", {count_text(counts.active)} active" if counts.active != counts.total else ""
        trained = f", {count_text(counts.trainable)} trained" if 0 < counts.trainable < counts.total else ""
        facts.append(
            f"{count_text(counts.total)} parameters{active}{trained}".replace(" B ", " billion ").replace(" B,", " billion,")
        )
    if answer.layout is not None and answer.layout.gpus > 1:
        facts.append(f"{answer.layout.gpus:,} GPUs as {answer.layout.text}")
    return facts


class MemoryStrip(MemoryBar):
    """Stack in one row, for screens that show one pane at a time."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(symbols=symbols, id="memory-strip")

    def show_row(self, row: PlanRow | None) -> None:
        """Memory of this row."""
        if row is None:
            self.show(None, "no row")
        else:
            self.show(row.answer.memory_bytes, row.answer.reason or row.why)
