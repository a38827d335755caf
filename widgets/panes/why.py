"""Reason of the highlighted row beside the table: how sure it is, what limits it, its time, memory and money, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size

from planner.engine.answers.plan import SOLUTIONS, Lever, Plan, PlanRow
from planner.engine.answers.time import class_words
from planner.present.choice.levers import lever_text
from planner.present.choice.sentence import cost_text, count_and_device, job_time
from planner.present.names import VERDICT_WORDS, region_text
from planner.present.plan import memory_share
from planner.present.prices import owned_words
from planner.units import SECONDS_PER_HOUR, bytes_text, duration_text, percent_text, usd_text
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import bar_text, labelled, styled_lines
from widgets.panes.frame import frame_of
from widgets.panes.lines import FoldedLines

if TYPE_CHECKING:
    from planner.present.money.owning import Owned

LABEL = 7
GAP = 1
"""Cells between a text that scrolls and its bar."""
BAR = 9
MOST_CLASSES = 3
"""Classes of operators named of the time."""
STYLES = {
    "fits": "$text-success",
    "may-not-fit": "$text-warning",
    "misses-target": "$text-warning",
    "does-not-fit": "$text-error",
    "not-supported": "$quiet",
}
CERTAIN = percent_text(1.0)
LATENCIES = {"request": "p95", "ttft": "TTFT", "tpot": "TPOT"}
"""Latency -> its label, all of them p95."""


def rank_text(row: PlanRow, plan: Plan) -> str:
    """Rank of a row among the solutions of its plan, whether they are folded or not."""
    return f"rank {row.rank} of {sum(other.rank is not None for other in plan.rows):,}"


def of_limit(value: str, limit: str) -> str:
    """A figure beside its limit, their unit once where it is the same: '4.76 of 5.00 s', '139 ms of 1.00 s'."""
    number, _, unit = value.partition(" ")
    return f"{number if unit == limit.partition(' ')[2] else value} of {limit}" if limit else value


class WhyView(VerticalScroll, can_focus=False):
    """Highlighted row in short lines; it follows the cursor."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="why-view")
        self._symbols = symbols
        self._row: PlanRow | None = None
        self._plan: Plan | None = None
        self.levers: Sequence[Lever] = ()
        """Changes that are shown, by their numbers."""
        self._owned: Owned | None = None
        self._flips: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        """One text."""
        yield FoldedLines(id="why-text")

    def show(self, row: PlanRow | None, plan: Plan | None) -> None:
        """Another row; what takes time to find out of it comes with `add`."""
        self._row, self._plan, self._owned, self._flips = row, plan, None, ()
        self.levers = plan.levers if plan is not None and row is not None and row.rank is None and not row.here else ()
        frame_of(self).entitle(*(("", "") if row is None else (count_and_device(row), "enter why")))
        self.draw()

    def add(self, row: PlanRow, levers: Sequence[Lever], owned: Owned | None, flips: Sequence[str]) -> None:
        """Show the changes that would help this row or put another first, and what it costs to own, unless another row is shown by now."""
        if row is self._row:
            self.levers, self._owned, self._flips = levers or self.levers, owned, flips
            self.draw()

    def on_resize(self) -> None:
        """Fold for the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw what is known by now."""
        room = self.scrollable_content_region.size
        if not room.width:  # not laid out yet: it will be as large as its frame, but for the scroll bar
            within = frame_of(self).content_size
            room = Size(within.width - self.scrollbar_size_vertical, within.height)
        if room.width <= 0:
            return
        lines = list(self._lines(room.width)) if self._row is not None and self._plan is not None else []
        if len(lines) > room.height:
            lines = list(self._lines(room.width - GAP))
        self.query_one(FoldedLines).show(lines, room.height)

    def _lines(self, width: int) -> Iterator[Content]:
        row, plan = self._row, self._plan
        assert row is not None
        assert plan is not None
        place = rank_text(row, plan) if row.rank is not None else VERDICT_WORDS[row.verdict]
        here = ", this machine" if row.here else ""
        yield from labelled(
            self._symbols.verdict[row.verdict], 2, f"{place}{here}", width, style := f"bold {STYLES[row.verdict]}", style
        )
        yield from styled_lines(row.why, width)
        yield Content("")
        for label, text in self._facts(row, plan):
            yield from labelled(label, LABEL, text, width)
        if self._flips:
            yield Content("")
            yield Content.styled("what puts another first", "bold $accent")
            for flip in self._flips:
                yield from labelled(self._symbols.dot, 2, flip, width)
            yield Content.styled("a tries changes", "$quiet")
        if self.levers:
            yield Content("")
            yield Content.styled("what would help", "bold $accent")
            for number, lever in enumerate(self.levers[:9], start=1):
                yield from labelled(f"{number}", 2, lever_text(lever), width, "$text-success" if lever.gpu else "", "bold $accent")
            yield Content.styled("a applies one", "$quiet")

    def _facts(self, row: PlanRow, plan: Plan) -> Iterator[tuple[str, str]]:
        """Label and words of everything that is known of the row."""
        if row.verdict in SOLUTIONS and row.probability_meets is not None and row.probability_fits is not None:
            fits = percent_text(row.probability_fits)
            yield "sure", percent_text(row.probability_meets) + ("" if fits == CERTAIN else f", fits {fits}")
        if row.verdict not in {"does-not-fit", "not-supported"}:
            yield from self._times(row, plan)
        if (share := memory_share(row.answer)) is not None and row.answer.memory_bytes is not None:
            memory = row.answer.memory_bytes
            bar = bar_text(share, BAR, self._symbols.filled, self._symbols.empty)
            sizes = f"{bytes_text(memory.total.value, unit=False)}/{bytes_text(memory.capacity)}"
            yield "memory", f"{bar} {percent_text(share)}"
            yield "", sizes
        if row.answer.layout is not None and row.answer.layout.gpus > 1:
            yield "layout", row.answer.layout.text
        if row.offer is not None and row.usd_per_h is not None:
            yield "price", f"{cost_text(row)}" if row.job_usd is None else f"{cost_text(row)}, {usd_text(row.usd_per_h.value)} $/h"
            yield "", f"{row.offer.provider}, {region_text(row.offer.region)}, {row.offer.market}, {row.offer.as_of}"
        elif row.owned is not None and row.usd_per_h is not None:
            yield "price", cost_text(row)
            yield "", owned_words(row.owned)
        if self._owned is not None:
            yield "or buy", self._owned.in_short

    def _times(self, row: PlanRow, plan: Plan) -> Iterator[tuple[str, str]]:
        targets = plan.task.get("targets", {})
        if (job := job_time(row)) is not None:
            deadline = targets.get("deadline_h")
            limit = duration_text(deadline * SECONDS_PER_HOUR) if deadline else ""
            yield "takes", of_limit(duration_text(job[0]), limit) + job[1]
        for name, word in LATENCIES.items():
            latency = getattr(row.answer, f"{name}_s")
            figure = latency.p95 if latency is not None else None
            if figure is not None:
                limit = targets.get(f"p95_{name}_s")
                yield word, of_limit(duration_text(figure.value), duration_text(limit) if limit else "")
        seconds = {name: value for name, value in row.answer.seconds_by_class.items() if value > 0}
        whole = sum(seconds.values())
        if whole:
            most = sorted(seconds.items(), key=lambda item: -item[1])[:MOST_CLASSES]
            words = ((class_words(name, seconds, row.answer.bottleneck), value) for name, value in most)
            yield "time", ", ".join(f"{word} {percent_text(value / whole)}" for word, value in words)
