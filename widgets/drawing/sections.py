"""Sections of `planner.present` as styled lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def section_lines(sections: Sequence[Section], width: int, *, height: int = 0, ascii_only: bool = False) -> list[Content]:
    """`sections` in lines of at most `width` cells, with a blank line between them; `ascii_only`: charts too.

    Of `height` lines a chart takes those that are left below what stands above it, so that its axis is in sight at first.
    """
    lines: list[Content] = []
    for number, section in enumerate(sections):
        if number:
            lines.append(Content(""))
        if section.title:
            lines += (Content.styled(line, "bold $accent") for line in folded(section.title, width))
        for part in section.parts:
            new = list(_part(part, width, ascii_only, height - len(lines)))
            lines += new[1:] if lines and new and not (lines[-1].plain or new[0].plain) else new
    return lines


def _part(part: Part, width: int, ascii_only: bool, room: int) -> Iterable[Content]:
    match part:
        case Table():
            table = fitted(part, width)
            yield Content.styled(table.head(), "bold $quiet")
            for item, lines in zip(part.items, table.rows(), strict=True):
                yield from (Content.styled(line, STYLES[part.style(item)]) for line in lines)
            if table.left_out:
                titles = " · ".join(column.title for column in table.left_out)
                yield from (Content.styled(line, "$quiet") for line in folded(f"A wider screen also shows: {titles}", width))
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
