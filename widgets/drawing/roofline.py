"""Roofline of one GPU with the operators of a workload on it: FLOP/s against FLOP per byte, both axes logarithmic."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

import msgspec
from textual.content import Content

from planner.engine.answers.time import Operator, TimeDetail
from planner.present.drawing.chart import LogAxis
from planner.units import digits, si_text
from widgets.drawing.plot import Plot
from widgets.drawing.symbols import ASCII, Symbols

BEFORE, BEYOND = 30.0, 6.0
"""Least factor by which the roof is drawn before the ridge, and past it."""
PROJECTION = " projection"
PHASE_STYLES = ("bold $primary", "bold $warning", "bold $success")
"""Signs of the marks, by phase in order of time."""


class Mark(msgspec.Struct, frozen=True):
    """Operators that fall on one cell of the chart."""

    sign: str
    operators: tuple[Operator, ...]
    """Longest first."""
    style: str

    @property
    def text(self) -> str:
        """'MLP gate, up, down (backward, forward)', 'q, o projection (decode)'."""
        names = list(dict.fromkeys(one.name for one in self.operators))
        projected = [name.removesuffix(PROJECTION) for name in names if name.endswith(PROJECTION)]
        others = [name for name in names if not name.endswith(PROJECTION)]
        start = others[0].split(" ")[0] + " " if others else ""
        short = [*others[:1], *(name.removeprefix(start) for name in others[1:])]
        if projected:
            short.append(", ".join(projected) + PROJECTION)
        phases = dict.fromkeys(one.phase for one in self.operators)
        return f"{', '.join(short)} ({', '.join(phases)})"


def rate(one: Operator) -> float:
    """FLOP/s an operator reaches."""
    return one.flop / one.seconds


def chart(detail: TimeDetail, symbols: Symbols, width: int, height: int) -> tuple[list[Content], list[Mark]]:
    """Chart in `width` by `height` cells, and its marks; ([], []) without products."""
    products = sorted((one for one in detail.operators if one.intensity), key=lambda one: -one.seconds)
    if not products:
        return [], []
    plot = _plot(detail, products, symbols, width, height)
    _roof(plot, detail.peak_flop_per_s, detail.peak_bytes_per_s, "$quiet", every=3, sign=".")
    _roof(plot, detail.flop_per_s, detail.bytes_per_s, "$accent", every=1, sign="=")
    plot.vertical(detail.ridge, "", "$quiet")
    plot.write(int(plot.x.place(detail.ridge) * plot.columns) + 1, plot.rows - 1, f"ridge {digits(detail.ridge)} FLOP/B", "$quiet")
    marks = list(_marks(plot, products))
    for mark in reversed(marks):
        first = mark.operators[0]
        plot.mark(first.intensity or 1.0, rate(first), mark.sign, mark.style)
    return plot.lines(), marks


def _plot(detail: TimeDetail, products: Sequence[Operator], symbols: Symbols, width: int, height: int) -> Plot:
    across = [*(one.intensity or 1.0 for one in products), detail.ridge / BEFORE, detail.ridge * BEYOND]
    up = [*map(rate, products), detail.peak_flop_per_s, detail.bytes_per_s * min(across)]
    x = LogAxis.around(across, lambda value: digits(value, 2))
    y = LogAxis.around(up, lambda value: si_text(value, significant=2))
    return Plot(width, height, x, y, ascii_only=symbols is ASCII)


def _roof(plot: Plot, flop_per_s: float, bytes_per_s: float, style: str, *, every: int, sign: str) -> None:
    """Bandwidth up to the ridge, compute beyond it."""
    ridge, low = flop_per_s / bytes_per_s, plot.y.low / bytes_per_s
    foot = max(plot.x.low, low)
    plot.line([(foot, foot * bytes_per_s), (ridge, flop_per_s), (plot.x.high, flop_per_s)], style, every=every, sign=sign)


def _marks(plot: Plot, products: Sequence[Operator]) -> Iterator[Mark]:
    """Operators by the cell they fall on, a letter each, those that take the most time first."""
    cells: dict[tuple[int, int], list[Operator]] = {}
    for one in products:
        place = int(plot.x.place(one.intensity or 1.0) * plot.columns), int((1 - plot.y.place(rate(one))) * plot.rows)
        cells.setdefault(place, []).append(one)
    phases = list(dict.fromkeys(one.phase for one in products))
    in_order = sorted(cells.values(), key=lambda own: -sum(one.seconds for one in own))
    for sign, own in zip(string.ascii_letters, in_order, strict=False):
        yield Mark(sign, tuple(own), PHASE_STYLES[phases.index(own[0].phase) % len(PHASE_STYLES)])


def caption(detail: TimeDetail) -> list[tuple[str, str, str]]:
    """(which roof, its figures, style) of the two roofs."""
    reached = (
        f"{si_text(detail.flop_per_s, 'FLOP/s')} and {si_text(detail.bytes_per_s, 'B/s')}, ridge at {digits(detail.ridge)} FLOP/B"
    )
    peak = f"{si_text(detail.peak_flop_per_s, 'FLOP/s')} and {si_text(detail.peak_bytes_per_s, 'B/s')}, ridge at {digits(detail.peak_ridge)} FLOP/B"
    return [("reached", reached, "$accent"), ("data sheet", peak, "$quiet")]
