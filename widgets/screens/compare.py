"""Rows of the ranking side by side: every figure with its range, the best of each line, and how far the others are from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.plan import Plan, PlanRow
from planner.units import UNKNOWN, bytes_text, duration_text, percent_text, si_text
from widgets.base_app import BaseApp
from widgets.drawing.formatting import (
    VERDICT_WORDS,
    device_name,
    memory_share,
    money_text,
    rate_text,
    spread_text,
    throughput,
    throughput_label,
)
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import shorten_end
from widgets.screens.overlay import TextOverlay

LABEL, LEAST, MOST = 20, 23, 36
"""Cells of the names, and of each row at least and at most."""
LEAST_COMPARED = 2
ALIKE = 0.005
"""Share below which two figures are told as the same."""

Text = Callable[[float | None], str]


def open_screen(app: BaseApp) -> None:
    """Set the marked rows side by side; without two of them, the highlighted row beside the first."""
    row, rows = app.table.highlighted, app.table.marked
    if app.plan is None or row is None:
        return
    if len(rows) < LEAST_COMPARED:
        first = next(iter(rows), app.plan.rows[0])
        rows = [first, row] if first is not row else app.plan.rows[:LEAST_COMPARED]
    app.push_screen(CompareScreen(rows, app.plan, app.symbols))


class CompareScreen(TextOverlay):
    """A few rows, a column each."""

    WIDTH = 176
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,c", "dismiss", "back", show=False)]

    def __init__(self, rows: Sequence[PlanRow], plan: Plan, symbols: Symbols) -> None:
        super().__init__(f"Compare · {len(rows)} rows", "space marks rows in the ranking · ≈ the ranges overlap · esc back")
        self._rows, self._plan, self._symbols = rows, plan, symbols

    def lines(self, width: int) -> list[Content]:
        """As many columns as there is room for."""
        return compare(self._rows, self._plan, self._symbols, width)


def compare(rows: Sequence[PlanRow], plan: Plan, symbols: Symbols, room: int) -> list[Content]:
    """The lines, as many columns as there is room for; what is left out is said."""
    shown = rows[: max(1, (room - LABEL) // LEAST)]
    table = _Table(shown, str(plan.task.get("task", "")), symbols, min(MOST, (room - LABEL) // len(shown)))
    lines = list(table.lines())
    if len(shown) < len(rows):
        left_out = len(rows) - len(shown)
        lines += [Content(""), Content.styled(f"{left_out} more need a wider terminal.", "$text-warning")]
    return lines


@dataclass(frozen=True, slots=True)
class _Table:
    rows: Sequence[PlanRow]
    task: str
    symbols: Symbols
    width: int

    def lines(self) -> Iterator[Content]:
        yield self._plain("", self._names(), "bold $accent")
        yield self._plain("", [self._place(row) for row in self.rows], "$quiet")
        yield self._plain("", [f"rank {row.rank}" if row.rank else VERDICT_WORDS[row.verdict] for row in self.rows])
        yield self._plain("layout", [row.answer.layout.text if row.answer.layout else UNKNOWN for row in self.rows])
        yield self._plain("memory", [self._memory(row) for row in self.rows])
        yield self._plain("limit", [row.answer.bottleneck or UNKNOWN for row in self.rows])
        yield Content("")
        yield from self._figure(throughput_label(self.task), lambda row: throughput(self.task, row.answer), rate_text, high=True)
        yield from self._figure("one stream", lambda row: row.answer.decode_tokens_per_s, rate_text, high=True)
        yield from self._figure("step", lambda row: row.answer.step_s, duration_text)
        yield from self._figure("MFU", lambda row: row.answer.mfu, percent_text, high=True)
        for label, name in (("first token", "ttft_s"), ("next token", "tpot_s"), ("whole request", "request_s")):
            yield from self._latency(label, name)
        yield from self._figure("replicas busy", lambda row: row.answer.utilisation, percent_text)
        yield Content("")
        yield from self._figure("$/h", lambda row: row.usd_per_h, money_text)
        yield from self._figure("$ a month", lambda row: None if row.job_usd else row.usd_per_month, money_text)
        yield from self._figure("job", lambda row: row.job_h, lambda hours: duration_text(None if hours is None else hours * 3600))
        yield from self._figure("$ of the job", lambda row: row.job_usd, money_text)
        yield from self._figure("$/M tokens", lambda row: row.answer.usd_per_million_tokens, money_text)
        yield from self._figure("FLOP per $", lambda row: row.answer.flop_per_usd, si_text, high=True)
        yield from self._figure("J per token", lambda row: row.answer.energy_j_per_token, lambda value: si_text(value, "J"))

    def _names(self) -> list[str]:
        return [f"{row.answer.layout.gpus if row.answer.layout else 1:,} × {device_name(row.gpu)}" for row in self.rows]

    def _place(self, row: PlanRow) -> str:
        return f"{row.offer.provider}, {row.offer.market}" if row.offer else "here" if row.here else UNKNOWN

    def _memory(self, row: PlanRow) -> str:
        memory = row.answer.memory_bytes
        if memory is None:
            return UNKNOWN
        sizes = f"{bytes_text(memory.total.value, unit=False)} of {bytes_text(memory.capacity)}"
        return f"{sizes}, {percent_text(memory_share(row.answer))}"

    def _plain(self, label: str, cells: Sequence[str], style: str = "") -> Content:
        texts = [shorten_end(cell, self.width - 2, self.symbols.ellipsis).ljust(self.width) for cell in cells]
        return Content.assemble((f"{label:<{LABEL}}", "$quiet"), ("".join(texts).rstrip(), style))

    def _latency(self, label: str, name: str) -> Iterator[Content]:
        def of(row: PlanRow) -> Figure | None:
            found: Percentiles | None = getattr(row.answer, name)
            return (found.p95 or found.mean) if found else None

        known = [getattr(row.answer, name) for row in self.rows]
        p95 = any(found is not None and found.p95 is not None for found in known)
        yield from self._figure(f"{label}, p95" if p95 else label, of, duration_text)

    def _figure(self, label: str, of: Callable[[PlanRow], Figure | None], text: Text, *, high: bool = False) -> Iterator[Content]:
        """A line of figures of the rows that can run; none where no row has one."""
        figures = [of(row) if row.answer.fits else None for row in self.rows]
        known = [figure for figure in figures if figure is not None]
        if not known:
            return
        best = (max if high else min)(known, key=lambda figure: figure.value)
        parts: list[tuple[str, str]] = [(f"{label:<{LABEL}}", "$quiet")]
        for figure in figures:
            if figure is None:
                parts.append((UNKNOWN.ljust(self.width), "$quiet"))
                continue
            value = text(figure.value)
            spread = spread_text(figure)
            range_and_basis = f" {spread} {self.symbols.basis[figure.basis]}" if spread else ""
            apart = self._apart(figure, best)
            rest = f"{range_and_basis}{f'  {apart}' if apart else ''}"
            first = not apart and len(known) > 1 and any(self._apart(other, best) for other in known)
            parts += [(value, "bold $text-success" if first else ""), (rest.ljust(self.width - len(value)), "$quiet")]
        yield Content.assemble(*parts)

    def _apart(self, figure: Figure, best: Figure) -> str:
        """How far a figure is from the best; with a sign where their ranges overlap, so that it may be none."""
        if not best.value or abs(figure.value / best.value - 1) < ALIKE:
            return ""
        overlap = figure is not best and figure.low <= best.high and best.low <= figure.high
        ratio = figure.value / best.value
        told = f"{ratio - 1:+.0%}" if ratio < 10 else f"{ratio:,.0f}×"
        return f"{'≈' if overlap else ''}{told}"
