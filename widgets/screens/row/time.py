"""Time of one row: its phases by class of operator, the roofline with its operators, and every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import BOUND_WORDS, CLASS_WORDS, PhaseTime, TimeDetail
from planner.present.lines.folding import folded
from planner.present.names import device_name
from planner.present.time import OPERATOR_COLUMNS, below_roof, operator_lines, peak_share, share_text
from planner.units import duration_text, percent_text, si_text
from widgets.background import questions
from widgets.base_app import BaseApp
from widgets.drawing.roofline import Mark, caption, chart
from widgets.drawing.symbols import ASCII, Symbols
from widgets.drawing.text import bar_text, component_style, labelled, side_by_side, styled_lines
from widgets.screens.overlay import TextOverlay

COMPONENTS: Mapping[str, str] = {
    "matmul": "weights",
    "attention": "kv_cache",
    "head": "logits",
    "elementwise": "activations",
    "communication": "gradients",
    "latency": "overhead",
    "launch": "overhead",
    "host": "overhead",
    "optimizer": "buffers",
    "bubble": "overhead",
    "rollout": "kv_cache",
    "new weights": "gradients",
    "scoring": "logits",
}
"""Class of operator -> the component of memory whose colour it shares, and whose pattern where it has none of its own."""
PHASE, SECONDS, SHARE = 10, 9, 6
"""Cells of the left columns."""
BESIDE = 104
"""Cells from which the marks are explained beside the chart."""
MARKS, MOST_MARKS = 44, 12
"""Cells of that column, and number of marks that it explains."""
TIGHT, ROOMY, SHAPED, WIDE = 68, 86, 106, 132
"""Widths from which the table has more columns."""
BAR, ROOF_LABEL = 24, 14
ROOM = {
    "shape": (20, SHAPED),
    "count": (9, ROOMY),
    "flop": (6, WIDE),
    "intensity": (7, TIGHT),
    "time": (8, 0),
    "share": (5, 0),
    "bound": (15, 0),
}
"""Column -> its cells, and the width from which it is there."""
ROOFS = {"reached": ("━", "="), "data sheet": ("┄", ".")}
"""Signs of the roofs, and in ASCII."""


async def open_screen(app: BaseApp) -> None:
    """Show where the time of the highlighted row goes, operator by operator."""
    row = app.table.highlighted
    if row is not None:
        screen = TimeScreen(row, app.symbols)
        await app.push_screen(screen)
        screen.show(await app.search(questions.time_detail, row))


class TimeScreen(TextOverlay):
    """Every operator of the time of one row."""

    WIDTH = 176
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,T", "dismiss", "back", show=False)]

    def __init__(self, row: PlanRow, symbols: Symbols) -> None:
        layout = row.answer.layout
        spread = f" as {layout.text}" if layout and layout.gpus > 1 else ""
        super().__init__(f"Time · {row.answer.gpus:,} × {device_name(row.gpu)}{spread}")
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
    """The whole text, in `width` cells; the chart leaves room for the phases on a screen of that height."""
    lines = [*_phases(detail, symbols, width), Content("")]
    height = min(22, max(9, screen_height * 92 // 100 - len(lines) - 5))
    roofline = list(_roofline(detail, symbols, width, height))
    lines += [*roofline, Content("")] if roofline else []
    lines += [*styled_lines(detail.note, width, "$quiet"), Content("")] if detail.note else []
    for phase in detail.phases():
        lines += [*_operators(detail, phase, symbols, width), Content("")]
    return lines[:-1]


def _phases(detail: TimeDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    """Each phase with its time, what binds it, and a bar of its classes as long as its share; then what the patterns mean."""
    peak = percent_text(peak_share(detail))
    mean = f"; the mean request {duration_text(detail.mean_request_s)}" if detail.mean_request_s is not None else ""
    whole, work = (
        f"{detail.work}: {duration_text(detail.total_s)}{mean}",
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
            (f"{share_text(phase.seconds / detail.total_s):>{SHARE}}  ", "$quiet"),
            *bar,
            (" " * (room - used + 2) + word, "$secondary"),
        )
    yield from _legend(detail, symbols, width)


def _by_class(detail: TimeDetail, phase: PhaseTime | None = None) -> dict[str, float]:
    """Seconds of every class there is, in the order of `COMPONENTS`."""
    found = dict.fromkeys(COMPONENTS, 0.0)
    for one in detail.operators:
        if phase is None or one.phase == phase.name:
            found[one.kind] += one.seconds
    return {kind: seconds for kind, seconds in found.items() if seconds > 0}


def pattern_and_style(kind: str, symbols: Symbols) -> tuple[str, str]:
    """Pattern and colour of a class of operators."""
    component = COMPONENTS[kind]
    return symbols.classes.get(kind) or symbols.patterns[component], component_style(component)


def _stack(detail: TimeDetail, phase: PhaseTime, symbols: Symbols, cells: int) -> list[tuple[str, str]]:
    """Classes of a phase side by side in `cells`; one too short for a cell has none."""
    parts, drawn, passed = [], 0, 0.0
    for kind, seconds in _by_class(detail, phase).items():
        passed += seconds
        edge = round(passed / phase.seconds * cells)
        pattern, style = pattern_and_style(kind, symbols)
        parts.append((pattern * (edge - drawn), style))
        drawn = edge
    return parts


def _legend(detail: TimeDetail, symbols: Symbols, width: int) -> Iterator[Content]:
    """Legend of the patterns, with the share of all the time, the longest first."""
    lines: list[list[Content]] = [[]]
    for kind, seconds in sorted(_by_class(detail).items(), key=lambda item: -item[1]):
        pattern, style = pattern_and_style(kind, symbols)
        entry = Content.assemble((pattern * 2, style), (f" {CLASS_WORDS[kind]} {share_text(seconds / detail.total_s)}", "$quiet"))
        if sum(one.cell_length + 3 for one in lines[-1]) + entry.cell_length > width:
            lines.append([])
        lines[-1].append(entry)
    yield from (Content("   ").join(line) for line in lines)


def _roofline(detail: TimeDetail, symbols: Symbols, width: int, height: int) -> Iterator[Content]:
    """Chart with its roofs and marks; beside it or below it what the marks stand for."""
    beside = width >= BESIDE
    drawn, marks = chart(detail, symbols, width - MARKS - 2 if beside else width, height)
    if not drawn:
        return
    yield Content.styled(f"Roofline · FLOP/s against FLOP per byte, {detail.dtype}", "bold $accent").truncate(width)
    for which, figures, style in caption(detail):
        sign = ROOFS[which][symbols is ASCII] * 2
        yield from labelled(f"{sign} {which}", ROOF_LABEL, figures, width, "$quiet", style)
    captions = [line for mark in marks[:MOST_MARKS] for line in _mark(detail, mark, MARKS if beside else width)]
    if len(marks) > MOST_MARKS:
        captions.append(Content.styled(f"… and {len(marks) - MOST_MARKS} more", "$quiet"))
    if not beside:
        yield from drawn
        yield from captions
        return
    yield from side_by_side([(drawn, width - MARKS), (captions, 0)])


def _mark(detail: TimeDetail, mark: Mark, width: int) -> Iterator[Content]:
    first = mark.operators[0]
    share = share_text(sum(one.seconds for one in mark.operators) / detail.total_s)
    figures = f"{share} of the time, {below_roof(detail, first)} of the data sheet"
    *lines, last = folded(mark.text, width - 2)
    signs = [(f"{mark.sign} ", mark.style), *[("  ", "")] * len(lines)]
    for line, sign in zip(lines, signs, strict=False):
        yield Content.assemble(sign, line)
    if len(last) + len(figures) + 4 <= width:
        yield Content.assemble(signs[-1], last, (f"  {figures}", "$quiet"))
    else:
        yield Content.assemble(signs[-1], last)
        yield Content.styled(f"  {figures}", "$quiet")


def _operators(detail: TimeDetail, phase: PhaseTime, symbols: Symbols, width: int) -> Iterator[Content]:
    """Operators of a phase, the longest first, as wide as there is room for."""
    columns = [(column, *ROOM[column.id]) for column in OPERATOR_COLUMNS if column.id in ROOM and width >= ROOM[column.id][1]]
    bar = BAR if width >= WIDE else 0
    label = min(44, max(12, width - sum(cells + 2 for _, cells, _ in columns) - (bar + 2 if bar else 0)))

    def beside(texts: Iterable[str]) -> str:
        return "".join(
            f"  {text:>{cells}}" if column.right else f"  {text:<{cells}}"
            for text, (column, cells, _) in zip(texts, columns, strict=True)
        ).replace("·", symbols.times)

    yield Content.assemble((f"{phase.name:<{label}}", "bold $accent"), (beside(column.title for column, *_ in columns), "$quiet"))
    for line in operator_lines(detail, phase):
        name, *more = folded(line.name, label - 1)
        cells = beside(column.text(line) for column, *_ in columns)
        if line.operator is None:
            yield Content.styled(f"{name:<{label}}{cells}".rstrip(), "$quiet")
            continue
        pattern, style = pattern_and_style(line.operator.kind, symbols)
        filled = bar_text(line.share, bar, pattern, " ") if bar else ""
        yield Content.assemble(f"{name:<{label}}", cells, (f"  {filled}".rstrip(), style))
        yield from (Content(f"  {text}") for text in more)
