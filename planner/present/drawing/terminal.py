"""A chart in terminal cells that is readable without colour: letters mark curves and dots, and a legend explains them."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Sequence

import msgspec

from planner.present.drawing.chart import Chart, Dot
from planner.present.drawing.plot import Plot, Run
from planner.text import one_line

ASPECT, LEAST_ROWS, MOST_ROWS = 5, 10, 26
"""Ratio of width to height in cells, and limits of the height."""


class Look(msgspec.Struct, frozen=True):
    """Styles of a chart, by the names that the caller uses."""

    curves: Sequence[str]
    quiet: str
    strong: str
    ascii_only: bool = False


def rows_for(width: int, most: int = MOST_ROWS) -> int:
    """Height of a chart of `width` cells if at most `most` rows are free."""
    return max(LEAST_ROWS, min(most, MOST_ROWS, width // ASPECT))


def chart_runs(chart: Chart, width: int, height: int, look: Look) -> list[list[Run]]:
    """Chart in `height` rows of `width` cells and its legend, as runs of text with a style."""
    plot = Plot(width, height, chart.x, chart.y, ascii_only=look.ascii_only, quiet=look.quiet)
    letters, faint = iter(string.ascii_lowercase), "." if look.ascii_only else "·"
    for dot in chart.dots:
        if not dot.label:
            plot.mark(dot.x, dot.y, faint, look.quiet)
    for limit in chart.limits:
        if limit.upright:
            plot.vertical(limit.value, limit.label, look.quiet, at_foot=limit.at_foot)
        else:
            plot.level(limit.value, limit.label, look.quiet)
    for number, curve in enumerate(chart.curves):
        plot.line(curve.points, look.curves[number % len(look.curves)], every=1 + number % 3, sign=string.ascii_uppercase[number])
    by_cell: dict[tuple[int, int], list[Dot]] = {}
    for dot in chart.dots:
        if dot.label:
            by_cell.setdefault(_cell(plot, (dot.x, dot.y)), []).append(dot)
    named = [(letter, " and ".join(dot.label for dot in dots)) for letter, dots in zip(letters, by_cell.values(), strict=False)]
    for (letter, _), (dot, *_) in zip(named, by_cell.values(), strict=False):
        plot.mark(dot.x, dot.y, letter, look.strong)
    for number, (x, y) in enumerate(_ends(chart, plot)):
        if chart.curves[number].name:
            plot.mark(x, y, string.ascii_uppercase[number], look.curves[number % len(look.curves)])
    if chart.unnamed:
        named.append((faint, chart.unnamed))
    head = [(f"{chart.y_title}, over {chart.x_title}", look.quiet)]
    return [head, *plot.runs(), *_legend(chart, named, look, width)]


def _ends(chart: Chart, plot: Plot) -> Iterator[tuple[float, float]]:
    """Position of each curve's letter: its right end, or further left if letters would overlap."""
    taken: set[tuple[int, int]] = set()
    for curve in chart.curves:
        places = [curve.points[-1], *reversed(list(_along(curve.points, plot.columns)))]
        free = next((place for place in places if _cell(plot, place) not in taken), places[0])
        taken.add(_cell(plot, free))
        yield free


def _cell(plot: Plot, place: tuple[float, float]) -> tuple[int, int]:
    across = math.floor(min(plot.x.place(place[0]), 1 - 1e-9) * plot.columns)
    return across, math.floor(min(1 - plot.y.place(place[1]), 1 - 1e-9) * plot.rows)


def _along(points: Sequence[tuple[float, float]], steps: int) -> Iterator[tuple[float, float]]:
    """Close points along the last straight segment."""
    (x0, y0), (x1, y1) = points[-2:] if len(points) > 1 else (points[0], points[0])
    for step in range(steps):
        yield x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps


def _legend(chart: Chart, named: Sequence[tuple[str, str]], look: Look, width: int) -> Iterator[list[Run]]:
    """Legend of curves and labelled dots, several on a line."""
    entries = [
        (f"{string.ascii_uppercase[number]} {one_line(curve.name)}", look.curves[number % len(look.curves)])
        for number, curve in enumerate(chart.curves)
        if curve.name
    ]
    entries += [(f"{letter} {one_line(label)}", look.strong) for letter, label in named]
    line: list[Run] = []
    used = 0
    for text, style in entries:
        if line and used + 3 + len(text) > width:
            yield line
            line, used = [], 0
        gap = "   " if line else ""
        line.append((gap + text[:width], style))
        used += len(gap) + len(text)
    if line:
        yield line
