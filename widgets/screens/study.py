"""Study of compute per dollar on screen: FLOP/s and FLOP per dollar over model or batch sizes, a curve a GPU."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from planner.present.cells import BASIS_WORDS, SHORT_BASIS_WORDS
from planner.present.drawing.chart import LogAxis
from planner.present.lines.folding import folded
from planner.units import UNKNOWN, si_text, usd_text
from widgets.drawing.plot import Plot
from widgets.drawing.symbols import ASCII, Symbols
from widgets.drawing.text import side_by_side
from widgets.screens.overlay import ScrolledOverlay

if TYPE_CHECKING:
    from planner.engine.answers.figure import Figure
    from planner.engine.answers.study import Axis, StudyAnswer
    from planner.session import Session
    from widgets.base_app import BaseApp

    Ask = Callable[[Callable[[Session], StudyAnswer]], Awaitable[StudyAnswer]]
    """Runs something on the session, away from the screen."""

PRICE_SETS = ("runpod-secure", "runpod-secure-2025", "modal", "cheapest")
LAWS = ("printed", "log2")
VOCABULARIES = (151936, 32768)
STYLES = ("$stack-weights", "$stack-optimizer", "$stack-activations", "$stack-gradients", "$stack-logits", "$stack-buffers")
SIGNS = (("○", "●"), ("□", "■"), ("△", "▲"), ("◇", "◆"), ("☆", "★"))
ASCII_SIGNS = (("a", "A"), ("b", "B"), ("c", "C"), ("d", "D"), ("e", "E"))
"""Predicted and measured points of a curve, so that it reads without colour."""
BESIDE = 96
"""Cells from which both charts stand side by side."""
MARK_GAP = 5
"""Cells between the marks of predicted points."""
DOTTED = 3
"""Every which dot of the edge of a range is drawn."""
CHARTS: tuple[tuple[str, str], ...] = (("flop_per_usd", "FLOP per $"), ("flop_per_s", "FLOP/s"))


def open_screen(app: BaseApp) -> None:
    """Open the study."""
    app.push_screen(StudyScreen(app.ask, partial(export_study, app), app.symbols))


def export_study(app: BaseApp, answer: StudyAnswer) -> None:
    """Write both charts as SVG, and say where."""
    from planner.present.files.study_svg import study_svg
    from widgets.actions.export import write_file

    write_file(app, f"study-{answer.axis}", "svg", study_svg(answer))


class StudyScreen(ScrolledOverlay):
    """Two charts, who leads where in words, and how that compares with the published study."""

    DEFAULT_CSS = """
    StudyScreen {
        #study { width: 100%; max-width: 100%; height: 100%; max-height: 100%; padding: 0 1; }
        #study-legend, #study-charts { height: auto; }
        #study-story { height: 1fr; scrollbar-size-vertical: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "dismiss", "back", show=False),
        Binding("a", "turn('axis')", "axis", show=False),
        Binding("p", "turn('prices')", "prices", show=False),
        Binding("l", "turn('law')", "depth law", show=False),
        Binding("v", "turn('vocabulary')", "vocabulary", show=False),
        Binding("r", "ranges", "ranges", show=False),
        Binding("c,tab", "chart", "chart", show=False),
        Binding("e", "export", "export", show=False),
    ]

    def __init__(self, ask: Ask, export: Callable[[StudyAnswer], None], symbols: Symbols) -> None:
        super().__init__()
        self._ask, self._export, self._symbols = ask, export, symbols
        self._chosen = {"axis": 0, "prices": 0, "law": 0, "vocabulary": 0}
        self._ranges = 0
        """Whose range is drawn: 0 the leaders', then each GPU's alone, then none."""
        self._chart = 0
        self._answer: StudyAnswer | None = None

    def compose(self) -> ComposeResult:
        """Legend, the charts, the words."""
        with Vertical(id="study", classes="box") as box:
            box.border_title = Content("Compute per dollar")
            yield Static(Content.styled(self.WAITING, "$quiet"), id="study-legend")
            yield Static("", id="study-charts")
            with VerticalScroll(id="study-story"):
                yield Static("")

    def on_mount(self) -> None:
        """Run the study."""
        self.query_one("#study-story").focus()
        self._run()

    def on_resize(self, _event: events.Resize) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self._draw)

    def action_turn(self, what: str) -> None:
        """Next choice of the axis, the prices, the depth law or the vocabulary."""
        self._chosen[what] += 1
        self._run()

    def action_ranges(self) -> None:
        """Draw the next one's range."""
        self._ranges += 1
        self._draw()

    def action_chart(self) -> None:
        """The other chart, where only one has room."""
        self._chart = 1 - self._chart
        self._draw()

    def action_export(self) -> None:
        """Write both charts as SVG."""
        if self._answer is not None:
            self._export(self._answer)

    def show(self, answer: StudyAnswer) -> None:
        """Draw this study."""
        self._answer = answer
        self._draw()

    def _run(self) -> None:
        self.run_worker(self._study(), group="study", exclusive=True, exit_on_error=False)

    async def _study(self) -> None:
        from planner.engine.study.sizes import Study

        def choice(what: str, choices: Sequence[str]) -> str:
            return choices[self._chosen[what] % len(choices)]

        axis: Axis = "batch" if self._chosen["axis"] % 2 else "width"
        vocabulary = VOCABULARIES[self._chosen["vocabulary"] % len(VOCABULARIES)]
        asked = Study(axis=axis, depth_law=choice("law", LAWS), vocabulary=vocabulary)
        prices = choice("prices", PRICE_SETS)
        self.show(await self._ask(lambda session: session.study(asked, prices=prices)))

    def _draw(self) -> None:
        if not self.is_open:
            return
        answer = self._answer
        box = self.query_one("#study")
        width, height = box.scrollable_content_region.size
        if answer is None or width <= 0:
            return
        ranges = self._ranges % (len(answer.curves) + 2)
        legend = legend_lines(answer, self._symbols, width, ranges)
        words = story_lines(answer, width - 2)  # the scroll bar, and a blank before it
        room = max(8, height - len(legend) - min(len(words), max(3, height // 4)))
        shown = CHARTS if width >= BESIDE else (CHARTS[self._chart],)
        charts = [chart_lines(answer, name, title, self._symbols, (width // len(shown), room), ranges) for name, title in shown]
        self.query_one("#study-legend", Static).update(Content("\n").join(legend))
        self.query_one("#study-charts", Static).update(
            Content("\n").join(side_by_side([(chart, width // len(shown)) for chart in charts]))
        )
        self.query_one("#study-story Static", Static).update(Content("\n").join(words))
        wide = width >= BESIDE
        titles = [_title(answer, short=short) for short in (False, True)]
        box.border_title = Content(next((title for title in titles if len(title) <= width - 2), titles[-1]))
        keys = [
            "a axis",
            "p prices" if wide else "p price",
            "l law",
            "v vocabulary" if wide else "v vocab",
            "r ranges" if wide else "r range",
            "" if wide else "c chart",
            "e SVG",
            "esc back",
        ]
        box.border_subtitle = Content(" · ".join(key for key in keys if key))


def _title(answer: StudyAnswer, *, short: bool) -> str:
    """What is compared, over what, and at which prices."""
    what, law, vocabulary, oldest = (
        ("FLOP/$", "law as ", "vocab ", "") if short else ("Compute per dollar", "depth law as ", "vocabulary ", "oldest of ")
    )
    as_of = f" ({oldest}{answer.prices_as_of[:7] if short else answer.prices_as_of})" if answer.prices_as_of else ""
    return f"{what} · {answer.axis} · {law}{answer.depth_law} · {vocabulary}{answer.vocabulary:,} · {answer.prices}{as_of}"


def legend_lines(answer: StudyAnswer, symbols: Symbols, width: int, ranges: int = 0) -> list[Content]:
    """A sign, the name, the price and the basis of each curve, then whose range is drawn, as many on a line as fit."""
    lines: list[Content] = [Content("")]
    entries = []
    for number, curve in enumerate(answer.curves):
        price = f"{usd_text(curve.usd_per_gpu_h)} $/h" if curve.usd_per_gpu_h is not None else f"{UNKNOWN} $/h"
        measured = f", {curve.measured_points} measured here" if curve.measured_points else ""
        text = f"{curve.gpu} {price}, {(BASIS_WORDS if width >= BESIDE else SHORT_BASIS_WORDS)[curve.basis]}{measured}"
        if len(text) > width - 4:
            text = f"{curve.gpu} {price}"
        sign = _sign(number, symbols, measured=bool(curve.measured_points))
        entries.append(Content.assemble((f"{sign} ", _style(number)), (text, "$quiet")))
    dots = ":::" if symbols is ASCII else "···"
    entries += [
        Content.assemble((f"{dots} ", _style(number)), (f"range of {answer.curves[number].gpu}", "$quiet"))
        for number in _banded(answer, ranges)
    ]
    for entry in entries:
        gap = "   " if lines[-1].plain else ""
        if lines[-1].plain and len(lines[-1].plain) + len(gap) + len(entry.plain) > width:
            lines.append(entry)
        else:
            lines[-1] = Content.assemble(lines[-1], gap, entry)
    return lines


def story_lines(answer: StudyAnswer, width: int) -> list[Content]:
    """Crossovers first, then how it compares, then the notes."""
    from planner.engine.answers.study import story

    lines = [Content(line) for text in story(answer) for line in folded(text, width)]
    quiet = [*answer.published, *answer.notes]
    return lines + [Content.styled(line, "$quiet") for text in quiet for line in folded(text, width)]


def chart_lines(answer: StudyAnswer, name: str, title: str, symbols: Symbols, size: tuple[int, int], ranges: int) -> list[Content]:
    """One chart: curves, their marks, the ranges asked for, the crossovers."""
    from planner.engine.answers.study import place_of, round_text, size_of, size_text

    width, height = size
    ascii_only = symbols is ASCII
    curves = [
        [(place_of(answer.axis, point), figure) for point in curve.points if (figure := getattr(point, name))]
        for curve in answer.curves
    ]
    banded = _banded(answer, ranges)
    heading = Content.assemble(
        (title, "bold $accent"), (f"  over {'parameters' if answer.axis == 'width' else 'tokens a step'}", "$quiet")
    )
    if not any(curves):
        return [heading, Content.styled("no price, nothing to draw" if name == "flop_per_usd" else "nothing is known", "$quiet")]
    values = [figure.value for curve in curves for _, figure in curve]
    values += [end for number in banded for _, figure in curves[number] for end in (figure.low, figure.high)]
    x_text = partial(_tick, lambda value: size_text(value, answer.axis), round_text)
    x = LogAxis.around([place for curve in curves for place, _ in curve], x_text)
    plot = Plot(width - 1, height - 1, x, LogAxis.around(values, partial(_tick, si_text, round_text)), ascii_only=ascii_only)
    for number in banded:
        for edge in ("low", "high"):
            points = [(place, getattr(figure, edge)) for place, figure in curves[number]]
            plot.line(points, _style(number), every=DOTTED, sign=":")
    for crossover in answer.crossovers:
        at = size_of(crossover, answer.axis).value
        plot.vertical(at, size_text(at, answer.axis), "$accent")
    for number, points in enumerate(curves):
        plot.line([(place, figure.value) for place, figure in points], _style(number))
    for number, points in enumerate(curves):
        _mark(plot, number, points, symbols)
    return [heading, *plot.lines()]


def _mark(plot: Plot, number: int, points: Sequence[tuple[float, Figure]], symbols: Symbols) -> None:
    """Every measured point, and predicted ones where there is room between them."""
    last = float("-inf")
    for place, figure in points:
        measured = figure.basis == "measured"
        column = plot.x.place(place) * plot.columns
        if measured or column - last >= MARK_GAP:
            plot.mark(place, figure.value, _sign(number, symbols, measured=measured), _style(number))
            last = column


def _banded(answer: StudyAnswer, ranges: int) -> list[int]:
    """Curves whose range is drawn."""
    if ranges == 0:
        leading = {lead.gpu for lead in answer.leads}
        return [number for number, curve in enumerate(answer.curves) if curve.gpu in leading][:1]
    return [ranges - 1] if ranges <= len(answer.curves) else []


def _tick(text: Callable[[float], str], rounded: Callable[[str], str], value: float) -> str:
    return rounded(text(value))


def _style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def _sign(number: int, symbols: Symbols, *, measured: bool) -> str:
    signs = ASCII_SIGNS if symbols is ASCII else SIGNS
    return signs[number % len(signs)][measured]
