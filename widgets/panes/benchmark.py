"""The benchmark pane: what is being measured, what came out, and what it changed in the plan."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from planner.units import duration_text, percent_text
from widgets.background.benchmark_run import PointLine, Run
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import bar_text, labelled, shorten_clauses, shorten_end
from widgets.panes.frame import frame_of
from widgets.panes.lines import FoldedLines

BAR = 10
LABEL, MOST_LABEL = 28, 31
"""Cells of names, and of the longest there are: 'GEMM bf16 16,384×128,256×16,384'."""
ROOMY = 10
"""Rows from which the pane names the suites before one is measured."""
IDLE = "Nothing measured yet."
HINT = "b measures it: matrix products, memory bandwidth, launches, a training step. B chooses how much."


class BenchmarkView(Vertical):
    """Pane 5: how the run goes and what it changed, above the points."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="benchmark-view")
        self._symbols = symbols
        self._run = Run()
        self._stored = ""

    def compose(self) -> ComposeResult:
        """The outcome stays in sight while the points scroll."""
        yield Static(id="benchmark-text")
        with VerticalScroll(id="points"):
            yield FoldedLines(id="points-text")

    def on_mount(self) -> None:
        """Say that nothing runs."""
        self.draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self.draw()

    def set_stored(self, text: str) -> None:
        """Show the sentence about earlier measurements."""
        self._stored = text
        self.draw()

    def show(self, run: Run) -> None:
        """Show this run from now on."""
        self._run = run
        self.draw()

    def draw(self) -> None:
        """Draw the run as it stands."""
        run, points = self._run, self.query_one("#points", VerticalScroll)
        frame_of(self).entitle(_title(run))
        width = max(30, points.scrollable_content_region.width)
        outcome, head = Content("\n").join(self._outcome(run)), self.query_one("#benchmark-text", Static)
        head.update(outcome, layout=head.content != outcome)
        head.display = bool(outcome)
        suites = self._suites(width) if run.state == "idle" and self.size.height >= ROOMY else []
        shared = shared_detail(run.points)
        cells = min(max([LABEL, *(len(point.label) for point in run.points)]), MOST_LABEL, max(14, width - 29))
        self.query_one(FoldedLines).show([*suites, *(self._point(point, cells, width, shared) for point in run.points)])
        running = next((index for index, point in enumerate(run.points) if point.state == "running"), None)
        if running is not None:
            points.scroll_to(y=max(0, running - points.size.height + 2), animate=False)
        elif run.state != "running":
            points.scroll_home(animate=False)

    def _suites(self, width: int) -> list[Content]:
        """Suites, while nothing was measured."""
        from widgets.background.benchmark import suites

        items = [labelled(suite.label, len(suite.label) + 2, suite.detail, width, "$quiet", "") for suite in suites(None)]
        return [Content(""), *(line for lines in items for line in lines)]

    def _outcome(self, run: Run) -> Sequence[Content]:
        if run.state == "idle":
            return [Content(self._stored or IDLE), Content.styled(HINT, "$quiet")]
        lines: list[Content] = []
        if run.state == "failed":
            lines.append(Content.styled(f"{self._symbols.failed} {run.message}", "$text-error"))
        elif run.message:
            lines.append(Content.styled(run.message, "$text-success" if run.state == "finished" else "$text-warning"))
        elif not run.points:
            lines.append(Content.styled("Starting the worker …", "$quiet"))
        if shared := shared_detail(run.points):
            lines.append(Content.styled(f"{shared[0].upper()}{shared[1:]}, for all of these results.", "$text-warning"))
        return [*lines, *(Content.styled(f"{self._symbols.arrow} {effect}", "$text-success") for effect in run.effects)]

    def _point(self, point: PointLine, label_width: int, width: int, shared: str) -> Content:
        symbols = self._symbols
        mark, style = {
            "waiting": (symbols.empty, "$quiet"),
            "running": (symbols.running, "$accent"),
            "between": (symbols.dot, "$accent"),
            "done": (symbols.done, "$text-success"),
            "skipped": (symbols.verdict["not-supported"], "$quiet"),
            "failed": (symbols.failed, "$text-error"),
        }[point.state]
        name = point.label.replace(UNICODE.squared, symbols.squared).replace(UNICODE.cubed, symbols.cubed)
        label = shorten_end(name, label_width, symbols.ellipsis).ljust(label_width)
        if point.state == "running":
            bar = bar_text(point.fraction, BAR, symbols.filled, symbols.empty)
            return Content.assemble((f"{mark} ", style), label, (f"  {bar} {percent_text(point.fraction):>5}", "$accent"))
        if point.state == "done":
            room = max(0, width - label_width - 2 - 14)
            detail = "" if point.detail == shared else point.detail
            rest = _whole_parts((point.share.ljust(SHARE), detail, point.was), room)
            return Content.assemble((f"{mark} ", style), label, f"{point.value:>14}", (rest, "$quiet"))
        if point.state == "between":
            return Content.assemble((f"{mark} ", style), label, (f"  {point.detail}", "$quiet"))
        if point.state == "waiting":
            return Content.assemble((f"{mark} ", style), (shorten_end(name, width - 2, symbols.ellipsis), "$quiet"))
        text = shorten_clauses(f"  {point.detail}", width - label_width - 2, symbols.ellipsis)
        return Content.assemble((f"{mark} ", style), (label, "$quiet"), (text, style))


SHARE = len("100 % of spec")
"""Cells of a result's share of the data sheet, or of the blanks in its place."""


def _whole_parts(parts: Sequence[str], room: int) -> str:
    """Parts that fit, none of them cut, two blanks before each."""
    text = ""
    for part in parts:
        if part and len(text) + 2 + len(part.rstrip()) <= room:
            text += f"  {part}"
    return text


def shared_detail(points: Sequence[PointLine]) -> str:
    """What is said of every result, where there are several; it is said once then."""
    details = [point.detail for point in points if point.state == "done"]
    return details[0] if len(details) > 1 and len(set(details)) == 1 else ""


def _title(run: Run) -> str:
    parts = []
    if run.state == "running":
        parts.append(run.progress_text or "starting")
        if run.eta_s is not None:
            parts.append(f"{round(run.eta_s)} s left" if run.eta_s < 100 else f"{duration_text(run.eta_s)} left")
        parts.append("x stops")
    elif run.state != "idle":
        parts.append(run.state)
    return " · ".join([*parts, *([run.subject] if run.subject else [])])
