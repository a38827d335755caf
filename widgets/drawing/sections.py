"""Sections of `planner.present` as styled lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from textual.content import Content

from planner.present.cells import Code, Facts, Paragraph, Part, Points, Section, Table
from planner.present.drawing.chart import Chart
from planner.present.drawing.terminal import LEAST_ROWS, Look, chart_runs, rows_for
from planner.present.lines.folding import fact_lines, folded
from planner.present.lines.text_table import fitted
from widgets.drawing.symbols import ASCII, UNICODE

STYLES = {"": "", "strong": "bold", "faint": "$quiet"}
CHART_STYLES = ("$accent", "$primary", "$success", "$stack-gradients", "$stack-logits", "$foreground")
MOST_CHART_ROWS = 16
AROUND_A_CHART = 4
"""Lines of the titles of a chart, of the blank above them, and of a legend."""


Block = tuple[Any, list[Content]]
"""Lines that belong together, and the item of a table whose row they are; None if they are no row."""


def section_lines(sections: Sequence[Section], width: int, *, height: int = 0, ascii_only: bool = False) -> Iterator[Content]:
    """`sections` in lines of at most `width` cells, with a blank line between them; `ascii_only`: charts too.

    Of `height` lines a chart takes those that are left below what stands above it, so that its axis is in sight at first.
    """
    for _, lines in section_blocks(sections, width, height=height, ascii_only=ascii_only):
        yield from lines


def section_blocks(sections: Sequence[Section], width: int, *, height: int = 0, ascii_only: bool = False) -> Iterator[Block]:
    """Lines of `section_lines`, those of each row of a table together."""
    above, blank = 0, False
    for number, section in enumerate(sections):
        titles = [Content.styled(line, "bold $accent") for line in folded(section.title, width)] if section.title else []
        heading = [Content("")] * (number > 0) + titles
        above += len(heading)
        if heading:
            blank = not heading[-1].plain
            yield None, heading
        for part in section.parts:
            room = height - above
            blocks = _rows(part, width) if isinstance(part, Table) else [(None, list(_part(part, width, ascii_only, room)))]
            for item, new in blocks:
                lines = new[1:] if blank and new and not new[0].plain else new
                if lines:
                    above, blank = above + len(lines), not lines[-1].plain
                    yield item, lines


def _rows(part: Table[Any], width: int) -> Iterator[Block]:
    table = fitted(part, width)
    yield None, [Content.styled(table.head(), "bold $quiet")]
    for item, lines in zip(part.items, table.rows(), strict=True):
        yield item, [Content.styled(line, STYLES[part.style(item)]) for line in lines]
    if table.left_out:
        titles = " · ".join(column.title for column in table.left_out)
        yield None, [Content.styled(line, "$quiet") for line in folded(f"A wider screen also shows: {titles}", width)]


def _part(part: Part, width: int, ascii_only: bool, room: int) -> Iterable[Content]:
    match part:
        case Facts(facts):
            yield from (Content(line) for line in fact_lines(facts, width))
        case Paragraph(text, style):
            yield from (Content.styled(line, STYLES[style]) for line in folded(text, width))
        case Points(items):
            for item in items:
                first, *more = folded(item, width - 4)
                yield Content(f"  {(ASCII if ascii_only else UNICODE).dot} {first}")
                yield from (Content(f"    {line}") for line in more)
        case Code(text):
            yield from (Content.styled(f"    {line}", "$quiet") for line in folded(text, width - 4))
        case Chart():
            look = Look(CHART_STYLES, quiet="$quiet", strong="bold", ascii_only=ascii_only)
            yield Content("")
            yield Content.styled(part.title, "bold")
            most = room - AROUND_A_CHART if room - AROUND_A_CHART >= LEAST_ROWS else MOST_CHART_ROWS
            rows = rows_for(width, min(MOST_CHART_ROWS, most))
            yield from (Content.assemble(*runs) for runs in chart_runs(part, width, rows, look))
            yield from (Content.styled(line, "$quiet") for line in folded(part.note, width) if line)
