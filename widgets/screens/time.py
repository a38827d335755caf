"""Where the time of one row goes: its phases by class of operator, the roofline with its operators, and every one of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import BOUND_WORDS, Operator, PhaseTime, TimeDetail
from planner.present.names import device_name
from planner.units import count_text, digits, duration_text, percent_text, si_text
from widgets.base_app import BaseApp
from widgets.drawing.roofline import Mark, below_roof, caption, chart
from widgets.drawing.symbols import ASCII, Symbols
from widgets.drawing.text import bar_text, component_style
from widgets.screens.overlay import TextOverlay

CLASSES: Mapping[str, tuple[str, str]] = {
    "matmul": ("products", "weights"),
    "attention": ("attention", "kv_cache"),
    "head": ("output head", "logits"),
    "elementwise": ("between products", "activations"),
    "communication": ("communication", "gradients"),
    "latency": ("kernel latency", "buffers"),
    "launch": ("host launches", "overhead"),
    "host": ("engine", "overhead"),
    "optimizer": ("optimizer", "optimizer"),
    "bubble": ("bubble", "overhead"),
}
"""Class of operator -> its name, and the component of memory whose pattern and colour it shares."""
PHASE, SECONDS, SHARE = 10, 9, 6
"""Cells of the left columns."""
BESIDE = 104
"""Cells from which the marks are told beside the chart."""
MARKS, MOST_MARKS = 44, 12
"""Cells of that column, and how many marks are told."""
TIGHT, ROOMY, SHAPED, WIDE = 66, 84, 104, 130
"""Cells from which the table has what else there is to tell of a product."""
BAR = 24
ROOFS = {"reached": ("━", "="), "data sheet": ("┄", ".")}
"""How the roofs are drawn, and in ASCII."""


async def open_screen(app: BaseApp) -> None:
    """Show where the time of the highlighted row goes, operator by operator."""
    row = app.table.highlighted
    if row is not None:
        screen, basis = TimeScreen(row, app.symbols), app.basis
        await app.push_screen(screen)
        screen.show(await app.ask_of_plan(lambda session, workload: session.time_detail(workload, row, basis=basis)))


class TimeScreen(TextOverlay):
    """Every operator of the time of one row."""

    WIDTH = 176
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,T", "dismiss", "back", show=False)]

    def __init__(self, row: PlanRow, symbols: Symbols) -> None:
        layout = row.answer.layout
        spread = f" as {layout.text}" if layout and layout.gpus > 1 else ""
        together = f" · {layout.batch:,} at once a replica" if layout and (layout.batch or 0) > 1 else ""
        super().__init__(f"Time · {layout.gpus if layout else 1:,} × {device_name(row.gpu)}{spread}{together}")
        self._symbols = symbols
        self._detail: TimeDetail | None = None

    def show(self, detail: TimeDetail | None) -> None:
        """Show the operators."""
        self._detail = detail
        self.draw()

    def lines(self, width: int) -> list[Content]:
        """Phases, roofline and operators."""
        return time_lines(self._detail, self._symbols, width, self.app.size.height) if self._detail is not None else []


def time_lines(detail: TimeDetail, symbols: Symbols, width: int, screen_height: int) -> list[Content]:
    """Everything there is to tell, in `width` cells; the chart leaves room for the phases on a screen of that height."""
    lines = [*_phases(detail, symbols, width), Content("")]
    height = min(22, max(9, screen_height * 92 // 100 - len(lines) - 5))
    roofline = list(_roofline(detail, symbols, width, height))
    lines += [*roofline, Content("")] if roofline else []
    for phase in detail.phases():
        lines += [*_operators(detail, phase, symbols, width), Content("")]
    return lines[:-1]


def _phases(detail: TimeDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    """Each phase with its time, what binds it, and a bar of its classes as long as its share; then what the patterns mean."""
    peak = percent_text(detail.flop / detail.total_s / detail.peak_flop_per_s)
    whole, work = (
        f"{detail.work}: {duration_text(detail.total_s)}",
        f"{si_text(detail.flop, 'FLOP')} a GPU, {peak} of its data sheet",
    )
    beside = len(whole) + 3 + len(work) <= width
    yield Content.assemble((whole, "bold"), (f"   {work}" if beside else "", "$quiet"))
    if not beside:
        yield Content.styled(work, "$quiet")
    phases = detail.phases()
    longest = max(phase.seconds for phase in phases)
    words = [f"{BOUND_WORDS[phase.bound]} {percent_text(phase.bound_share)}" for phase in phases]
    room = width - PHASE - SECONDS - SHARE - 4 - max(map(len, words))
    for phase, word in zip(phases, words, strict=True):
        bar = _stack(detail, phase, symbols, max(1, round(room * phase.seconds / longest)))
        used = sum(len(text) for text, _ in bar)
        yield Content.assemble(
            f"{phase.name:<{PHASE}}",
            (f"{duration_text(phase.seconds):>{SECONDS}}", "bold"),
            (f"{_share(phase.seconds / detail.total_s):>{SHARE}}  ", "$quiet"),
            *bar,
            (" " * (room - used + 2) + word, "$secondary"),
        )
    yield from _legend(detail, symbols, width)


def _by_class(detail: TimeDetail, phase: PhaseTime | None = None) -> dict[str, float]:
    """Seconds of every class there is, in the order of `CLASSES`."""
    found = dict.fromkeys(CLASSES, 0.0)
    for one in detail.operators:
        if phase is None or one.phase == phase.name:
            found[one.kind] += one.seconds
    return {kind: seconds for kind, seconds in found.items() if seconds > 0}


def _look(kind: str, symbols: Symbols) -> tuple[str, str]:
    """Pattern and style of a class."""
    component = CLASSES[kind][1]
    return symbols.patterns[component], component_style(component)


def _stack(detail: TimeDetail, phase: PhaseTime, symbols: Symbols, cells: int) -> list[tuple[str, str]]:
    """The classes of a phase side by side in `cells`; one too short for a cell has none."""
    parts, drawn, passed = [], 0, 0.0
    for kind, seconds in _by_class(detail, phase).items():
        passed += seconds
        edge = round(passed / phase.seconds * cells)
        pattern, style = _look(kind, symbols)
        parts.append((pattern * (edge - drawn), style))
        drawn = edge
    return parts


def _legend(detail: TimeDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    """What the patterns mean, with the share of all the time, the longest first."""
    lines: list[list[Content]] = [[]]
    for kind, seconds in sorted(_by_class(detail).items(), key=lambda item: -item[1]):
        pattern, style = _look(kind, symbols)
        entry = Content.assemble((pattern * 2, style), (f" {CLASSES[kind][0]} {_share(seconds / detail.total_s)}", "$quiet"))
        if sum(one.cell_length + 3 for one in lines[-1]) + entry.cell_length > width:
            lines.append([])
        lines[-1].append(entry)
    yield from (Content("   ").join(line) for line in lines)


def _roofline(detail: TimeDetail, symbols: Symbols, width: int, height: int) -> Iterator[Content]:
    """The chart with its roofs and marks; beside it or below it what the marks stand for."""
    beside = width >= BESIDE
    drawn, marks = chart(detail, symbols, width - MARKS - 2 if beside else width, height)
    if not drawn:
        return
    yield Content.styled(f"Roofline · FLOP/s against FLOP per byte, {detail.dtype}", "bold $accent").truncate(width)
    for which, figures, style in caption(detail):
        sign = ROOFS[which][symbols is ASCII] * 2
        first, *more = textwrap.wrap(figures, width - 14)
        yield Content.assemble((f"{sign} {which:<11}", style), (first, "$quiet"))
        yield from (Content.styled(f"{'':14}{line}", "$quiet") for line in more)
    told = [line for mark in marks[:MOST_MARKS] for line in _mark(detail, mark, MARKS if beside else width)]
    if len(marks) > MOST_MARKS:
        told.append(Content.styled(f"… and {len(marks) - MOST_MARKS} more", "$quiet"))
    if not beside:
        yield from drawn
        yield from told
        return
    for number in range(max(len(drawn), len(told))):
        left = drawn[number] if number < len(drawn) else Content("")
        right = told[number] if number < len(told) else Content("")
        yield Content.assemble(left, " " * (width - MARKS - left.cell_length), right)


def _mark(detail: TimeDetail, mark: Mark, width: int) -> Iterator[Content]:
    first = mark.operators[0]
    share = _share(sum(one.seconds for one in mark.operators) / detail.total_s)
    figures = f"{share} of the time, {below_roof(detail, first)} of the data sheet"
    *lines, last = textwrap.wrap(mark.text, width - 2)
    signs = [(f"{mark.sign} ", mark.style), *[("  ", "")] * len(lines)]
    for line, sign in zip(lines, signs, strict=False):
        yield Content.assemble(sign, line)
    if len(last) + len(figures) + 4 <= width:
        yield Content.assemble(signs[-1], last, (f"  {figures}", "$quiet"))
    else:
        yield Content.assemble(signs[-1], last)
        yield Content.styled(f"  {figures}", "$quiet")


def _operators(detail: TimeDetail, phase: PhaseTime, symbols: Symbols, width: int) -> Iterator[Content]:
    """The operators of a phase, the longest first, as wide as there is room for."""
    told, short = detail.longest(phase)
    columns = [column for column, least in COLUMNS if width >= least]
    right = sum(abs(cells) + 2 for _, cells, _ in columns)
    bar = BAR if width >= WIDE else 0
    label = min(44, max(12, width - right - (bar + 2 if bar else 0)))
    head = "".join(_cell(title, cells) for title, cells, _ in columns)
    yield Content.assemble((f"{phase.name:<{label}}", "bold $accent"), (head, "$quiet"))
    for one in told:
        name, *more = textwrap.wrap(one.name, label - 1)
        cells = "".join(_cell(text(one, phase), cells) for _, cells, text in columns)
        pattern, style = _look(one.kind, symbols)
        filled = bar_text(one.seconds / phase.seconds, bar, pattern, " ") if bar else ""
        yield Content.assemble(f"{name:<{label}}", (cells, ""), (f"  {filled}".rstrip(), style))
        yield from (Content(f"  {line}") for line in more)
    if short:
        seconds = sum(one.seconds for one in short)
        names = {"time": duration_text(seconds), "share": _share(seconds / phase.seconds)}
        cells = "".join(_cell(names.get(title, ""), cells) for title, cells, _ in columns)
        yield Content.styled(f"{f'{len(short)} shorter ones':<{label}}{cells}".rstrip(), "$quiet")


def _share(share: float) -> str:
    return "<1 %" if 0 < share < 0.005 else percent_text(share)


def _cell(text: str, cells: int) -> str:
    """Right in its column; left where `cells` is below 0."""
    return f"  {text:>{cells}}" if cells > 0 else f"  {text:<{-cells}}"


def _intensity(one: Operator, _phase: PhaseTime) -> str:
    return digits(one.intensity) if one.intensity else ""


Column = tuple[str, int, Callable[[Operator, PhaseTime], str]]
COLUMNS: tuple[tuple[Column, int], ...] = (
    (("m·n·k", 20, lambda one, _: one.shape_text), SHAPED),
    (("times", 9, lambda one, _: count_text(one.count) if one.count else ""), ROOMY),
    (("FLOP", 6, lambda one, _: si_text(one.flop) if one.flop else ""), WIDE),
    (("FLOP/B", 7, _intensity), TIGHT),
    (("time", 8, lambda one, _: duration_text(one.seconds)), 0),
    (("share", 6, lambda one, phase: _share(one.seconds / phase.seconds)), 0),
    (("bound by", -15, lambda one, _: BOUND_WORDS[one.bound]), 0),
)
"""(title, cells, text) and the width from which a column is there."""
