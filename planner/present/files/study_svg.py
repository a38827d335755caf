"""The two charts of the study as one SVG: FLOP/s and FLOP per dollar, logarithmic axes, ranges, crossovers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from textwrap import wrap

import msgspec

from planner.engine.answers.figure import Figure
from planner.engine.answers.study import Axis, StudyAnswer, StudyCurve, StudyPoint, place_of, round_text, size_of, size_text, story
from planner.text import one_line
from planner.units import si_text

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7d7400", "#56b4e9")
"""Okabe and Ito's set, distinct with the common colour-vision deficiencies."""
SHAPES = ("circle", "square", "triangle", "diamond")
WIDTH, PANEL, HEIGHT, TOP, BOTTOM, LEFT = 1120, 550, 360, 74, 44, 64
LINE_HEIGHT, TEXT_WIDTH = 18, 150
STYLE = "font:13px system-ui,sans-serif"


class Scale(msgspec.Struct, frozen=True):
    """Maps a positive value to pixels, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> Scale:
        """A scale from below the lowest to above the highest of `values`."""
        low, high = min(values), max(values)
        air = (high / low) ** 0.05 if high > low else 2.0
        return cls(low / air, high * air, start, end)

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Round values inside; fewer a decade where there are many decades."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 3 else (1,)
        return [
            value for power in range(first, last + 1) for step in steps if self.low <= (value := step * 10.0**power) <= self.high
        ]


def study_svg(answer: StudyAnswer) -> str:
    """The picture as text of an SVG file."""
    sentences = [*story(answer), *answer.published]
    lines = [part for line in sentences for part in wrap(line, TEXT_WIDTH)]
    height = TOP + HEIGHT + BOTTOM + LINE_HEIGHT * (len(lines) + 1)
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" style="{STYLE}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_legend(answer),
        *_panel(answer, "FLOP/s", lambda point: point.flop_per_s, 0),
        *_panel(answer, f"FLOP per dollar ({answer.prices})", lambda point: point.flop_per_usd, WIDTH - PANEL),
        *(_text(LEFT, TOP + HEIGHT + BOTTOM + LINE_HEIGHT * (number + 1), line) for number, line in enumerate(lines)),
        "</svg>",
    ]
    return "\n".join(body) + "\n"


def _panel(answer: StudyAnswer, title: str, figure_of: Callable[[StudyPoint], Figure | None], offset: float) -> Iterator[str]:
    known = [
        (place, figure)
        for curve in answer.curves
        for point in curve.points
        if (figure := figure_of(point)) and (place := place_of(answer.axis, point))
    ]
    left, right, bottom = offset + LEFT, offset + PANEL - 24, TOP + HEIGHT
    yield _text(left, TOP - 10, title, weight="bold")
    if not known:
        yield _text(left, TOP + 24, "nothing is known of this")
        return
    x = Scale.around([place for place, _ in known], left, right)
    y = Scale.around([end for _, figure in known for end in (figure.low, figure.high)], bottom, TOP)
    yield from _axes(answer.axis, x, y)
    for crossover in answer.crossovers:
        size = size_of(crossover, answer.axis)
        low, high = x(max(size.low, x.low)), x(min(size.high, x.high))
        yield f'<rect x="{low:.1f}" y="{TOP}" width="{high - low:.1f}" height="{HEIGHT}" fill="#000000" opacity="0.05"/>'
        yield f'<line x1="{x(size.value):.1f}" x2="{x(size.value):.1f}" y1="{TOP}" y2="{bottom}" stroke="#444444" stroke-dasharray="4 3"/>'
        yield _text(x(size.value) + 4, TOP + 14, size_text(size.value, answer.axis))
    for number, curve in enumerate(answer.curves):
        yield from _curve(answer.axis, curve, figure_of, x, y, number)


def _axes(axis: Axis, x: Scale, y: Scale) -> Iterator[str]:
    for tick in x.ticks():
        yield f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y.start}" y2="{y.end}" stroke="#e4e4e4"/>'
        yield _text(x(tick), y.start + 16, round_text(size_text(tick, axis)), anchor="middle")
    for tick in y.ticks():
        yield f'<line x1="{x.start}" x2="{x.end}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e4e4e4"/>'
        yield _text(x.start - 6, y(tick) + 4, round_text(si_text(tick)), anchor="end")
    yield f'<rect x="{x.start}" y="{y.end}" width="{x.end - x.start}" height="{y.start - y.end}" fill="none" stroke="#444444"/>'
    yield _text((x.start + x.end) / 2, y.start + 34, "parameters" if axis == "width" else "tokens a step", anchor="middle")


def _curve(
    axis: Axis, curve: StudyCurve, figure_of: Callable[[StudyPoint], Figure | None], x: Scale, y: Scale, number: int
) -> Iterator[str]:
    found = [(x(place_of(axis, point)), figure) for point in curve.points if (figure := figure_of(point))]
    if not found:
        return
    colour = COLOURS[number % len(COLOURS)]
    upper = [f"{place:.1f},{y(figure.high):.1f}" for place, figure in found]
    lower = [f"{place:.1f},{y(figure.low):.1f}" for place, figure in reversed(found)]
    yield f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" opacity="0.10"/>'
    middle = " ".join(f"{place:.1f},{y(figure.value):.1f}" for place, figure in found)
    yield f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for place, figure in found:
        yield _mark(place, y(figure.value), SHAPES[number % len(SHAPES)], colour, filled=figure.basis == "measured")


def _mark(x: float, y: float, shape: str, colour: str, *, filled: bool) -> str:
    """A sign of the curve: filled where it was measured, hollow where it is predicted."""
    paint = f'fill="{colour if filled else "#ffffff"}" stroke="{colour}" stroke-width="1.5"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}/>'
    if shape == "square":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {paint}/>'
    corners = ((0, -5), (4.5, 3.5), (-4.5, 3.5)) if shape == "triangle" else ((0, -5), (5, 0), (0, 5), (-5, 0))
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" {paint}/>'


def _legend(answer: StudyAnswer) -> Iterator[str]:
    place = float(LEFT)
    for number, curve in enumerate(answer.curves):
        price = f", {curve.usd_per_gpu_h:.2f} $/h" if curve.usd_per_gpu_h is not None else ", no price"
        yield _mark(place + 5, 18, SHAPES[number % len(SHAPES)], COLOURS[number % len(COLOURS)], filled=curve.measured_points > 0)
        label = f"{curve.gpu}{price}{' (measured here)' if curve.measured_points else ''}"
        yield _text(place + 16, 22, label)
        place += 30 + 7.2 * len(label)
    law = f"depth law {answer.depth_law}, vocabulary {answer.vocabulary:,}, sequences of {answer.sequence}"
    yield _text(LEFT, 40, f"{law}; shaded: holds the truth nine times in ten; filled marks were measured here", fill="#555555")


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", fill: str = "#222222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">{escape(one_line(text))}</text>'
    )
