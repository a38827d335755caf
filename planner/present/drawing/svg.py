"""A chart as SVG inside a page, without scripts and external resources, with colours for light and dark schemes, and dashes for paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from planner.present.drawing.chart import Axis, Chart, Dot, Limit, Point, tick_label
from planner.text import one_line

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 78, 190, 22, 46
"""Margins: left for values of y, right for names of curves, top, bottom for values and title of x."""
NO_NAMES = 24
"""Right margin if no curve has a name."""
LINE, LETTER, CAPITAL = 15, 6.3, 8.6
"""Height of a line of text, and the mean width of a letter and of a capital, at 12 px."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom end."""
DASHES = ("", "8 3", "2 3", "8 3 2 3", "14 4", "4 2")
STYLE = """
figure { margin: 1rem 0; max-width: 56rem; break-inside: avoid; } figcaption { font-size: .85rem; opacity: .85; }
svg.chart { width: 100%; height: auto; font: 12px system-ui, sans-serif; --grid: #8883; --ink: #222; --quiet: #666; --page: #fff;
  --c0: #0072b2; --c1: #c04f00; --c2: #00785a; --c3: #a3487d; --c4: #7d7400; --c5: #2b7bb0; }
.chart text { fill: var(--ink); } .chart .quiet { fill: var(--quiet); } .chart .grid { stroke: var(--grid); }
.chart .frame { fill: none; stroke: var(--quiet); } .chart .limit { stroke: var(--quiet); stroke-dasharray: 4 3; }
.chart .curve { fill: none; stroke-width: 2; } .chart .faint { fill: var(--quiet); opacity: .55; }
.chart .dot { fill: var(--page); stroke: var(--ink); stroke-width: 2; }
.chart .halo { paint-order: stroke; stroke: var(--page); stroke-width: 3; }
@media screen and (prefers-color-scheme: dark) { svg.chart { --grid: #8884; --ink: #e4e4e4; --quiet: #aaa; --page: #121212;
  --c0: #56b4e9; --c1: #f0894a; --c2: #2fbf8f; --c3: #dd92bd; --c4: #e6da4a; --c5: #9ad0f0; } }
"""
"""Style rules for a page with such charts. The colours are Okabe and Ito's, darker on white."""


def chart_svg(chart: Chart) -> str:
    """Chart as an `svg` element, for a page that contains `STYLE`."""
    words = f"<title>{_plain(chart.title)}</title>"
    note = f"<desc>{_plain(chart.note)}</desc>" if chart.note else ""
    return "\n".join([f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {HEIGHT}">{words}{note}', *_inside(chart), "</svg>"])


def charts_file(charts: Sequence[Chart], lines: Sequence[str]) -> str:
    """An SVG file with charts side by side and `lines` of text below; colours are literal because few viewers support variables."""
    width, height = WIDTH * len(charts), HEIGHT + LINE * (len(lines) + 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}"><style>{STYLE}</style>']
    parts.append('<rect width="100%" height="100%" style="fill:var(--page)"/>')
    for number, chart in enumerate(charts):
        parts += [f'<g transform="translate({number * WIDTH} 0)">', *_inside(chart), "</g>"]
    parts += [_text(LEFT, HEIGHT + LINE * (number + 1), line, "", "start") for number, line in enumerate(lines)]
    light = dict(re.findall(r"--(\w+): ([^;]+);", STYLE.partition("@media")[0]))
    return re.sub(r"var\(--(\w+)\)", lambda found: light[found[1]], "\n".join([*parts, "</svg>", ""]))


def _inside(chart: Chart) -> Iterator[str]:
    yield from (*_axes(chart), *_limits(chart), *_curves(chart), *_dots(chart))


def _right(chart: Chart) -> int:
    """Right edge of the plot, with room for the names of curves if there are any."""
    return WIDTH - (RIGHT if any(curve.name for curve in chart.curves) else NO_NAMES)


def _x(chart: Chart, value: float) -> float:
    return LEFT + (_right(chart) - LEFT) * chart.x.place(value)


def _y(chart: Chart, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * chart.y.place(value)


def _path(chart: Chart, points: Sequence[Point]) -> str:
    return " ".join(f"{_x(chart, x):.1f},{_y(chart, y):.1f}" for x, y in points)


def _axes(chart: Chart) -> Iterator[str]:
    """Grid with values, frame, and titles of the axes."""
    bottom, right = HEIGHT - BOTTOM, _right(chart)
    for tick, text in _ticks(chart.x, (right - LEFT) // 60):
        x = _x(chart, tick)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
        yield _text(x, bottom + 16, text, "quiet", "middle")
    for tick, text in _ticks(chart.y, 8):
        y = _y(chart, tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 6, y + 4, text, "quiet", "end")
    yield f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/>'
    yield _text((LEFT + right) / 2, HEIGHT - 10, chart.x_title, "", "middle")
    yield _text(8, TOP - 8, chart.y_title, "", "start")


def _ticks(axis: Axis, most: int) -> list[tuple[float, str]]:
    return [(tick, tick_label(axis, tick)) for tick in axis.ticks(most)]


def _limits(chart: Chart) -> Iterator[str]:
    for limit in _limits_inside(chart):
        if limit.upright:
            x = _x(chart, limit.value)
            yield f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        else:
            y = _y(chart, limit.value)
            yield f'<line class="limit" x1="{LEFT}" x2="{_right(chart)}" y1="{y:.1f}" y2="{y:.1f}"/>'
    for text, left, base in _limit_labels(chart):
        yield _text(left, base, text, "quiet halo", "start")


def _limits_inside(chart: Chart) -> list[Limit]:
    return [limit for limit in chart.limits if 0 <= (chart.x if limit.upright else chart.y).place(limit.value) <= 1]


def _limit_labels(chart: Chart) -> Iterator[tuple[str, float, float]]:
    """Label, left end and base line of each limit: next to a vertical line, above the right end of a horizontal one."""
    for limit in _limits_inside(chart):
        width = _width(limit.label)
        if limit.upright:
            left = _x(chart, limit.value) + (-4 - width if chart.x.place(limit.value) > 0.6 else 4)
            yield limit.label, left, HEIGHT - BOTTOM - 6 if limit.at_foot else TOP + 13
        else:
            yield limit.label, _right(chart) - 4 - width, _y(chart, limit.value) - 4


def _curves(chart: Chart) -> Iterator[str]:
    """Curves with different dashes, and their names at their right ends."""
    ends = spread_out([_y(chart, curve.points[-1][1]) for curve in chart.curves])
    for number, (curve, end) in enumerate(zip(chart.curves, ends, strict=True)):
        dash = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if DASHES[number % len(DASHES)] else ""
        colour = f"var(--c{number % len(DASHES)})"
        path = _path(chart, curve.points)
        if curve.ranges:
            ends_of = [(x, low, high) for (x, _), (low, high) in zip(curve.points, curve.ranges, strict=True)]
            edge = [*((x, high) for x, _, high in ends_of), *((x, low) for x, low, _ in reversed(ends_of))]
            yield f'<polygon style="fill:{colour}" opacity="0.10" points="{_path(chart, edge)}"/>'
        yield f'<polyline class="curve" style="stroke:{colour}"{dash} points="{path}"><title>{_plain(curve.name)}</title></polyline>'
        if not curve.name:
            continue
        last_x, last_y = curve.points[-1]
        x, y = _x(chart, last_x), _y(chart, last_y)
        yield f'<line style="stroke:{colour}" x1="{x:.1f}" y1="{y:.1f}" x2="{x + 12:.1f}" y2="{end:.1f}"/>'
        yield f'<text x="{x + 15:.1f}" y="{end + 4:.1f}" style="fill:{colour}">{_plain(_short(curve.name))}</text>'


def spread_out(heights: Sequence[float]) -> list[float]:
    """Heights of names, close to the wanted ones, in the same order, without overlaps and inside the chart."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed, last = list(heights), float(-LINE)
    for number in order:
        placed[number] = last = max(placed[number], last + LINE)
    last = HEIGHT - BOTTOM + 1.5 * LINE
    for number in reversed(order):
        placed[number] = last = min(placed[number], last - LINE)
    return placed


def _dots(chart: Chart) -> Iterator[str]:
    """Faint dots without a label, then the others with all labels that do not touch."""
    for dot in chart.dots:
        if not dot.label:
            x, y = _x(chart, dot.x), _y(chart, dot.y)
            yield f'<circle class="faint" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_plain(dot.detail)}</title></circle>'
    named = [(dot, _x(chart, dot.x), _y(chart, dot.y)) for dot in chart.dots if dot.label]
    boxes = [*((x - 5, y - 5, x + 5, y + 5) for _, x, y in named), *_boxes_of_limits(chart)]
    for dot, x, y in named:
        yield from _labelled(dot, x, y, boxes, _right(chart))


def _labelled(dot: Dot, x: float, y: float, boxes: list[Box], right: float) -> Iterator[str]:
    """A dot with its label on a free side; without the label if there is none."""
    yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{_plain(dot.detail or dot.label)}</title></circle>'
    width = _width(dot.label)
    for left, top in ((x + 8, y - 14), (x + 8, y + 2), (x - 8 - width, y - 14), (x - 8 - width, y + 2)):
        box = (left, top, left + width, top + LINE)
        if left > LEFT and box[2] < right - LETTER and not any(_touch(box, other) for other in boxes):
            boxes.append(box)
            yield _text(left, top + 12, dot.label, "halo", "start")
            return


def _boxes_of_limits(chart: Chart) -> Iterator[Box]:
    return ((left, base - 12, left + _width(text), base + LINE - 12) for text, left, base in _limit_labels(chart))


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_plain(text)}</text>'


def _short(name: str) -> str:
    """`name` cut to the width of the margin; the tooltip of the curve has the whole name."""
    most, kept = RIGHT - 18, name
    while _width(kept if kept == name else f"{kept}…") > most:
        kept = kept[:-1]
    return kept if kept == name else f"{kept}…"


def _width(text: str) -> float:
    return sum(CAPITAL if letter.isupper() else LETTER for letter in text)


def _plain(text: str) -> str:
    return escape(one_line(text))
