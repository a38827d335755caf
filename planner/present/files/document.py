"""Sections as a document: Markdown, or one self-contained HTML file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from planner.present.cells import Code, Facts, Paragraph, Part, Points, Section, Table, text_table
from planner.present.drawing.chart import Chart
from planner.present.drawing.svg import STYLE as CHART_STYLE
from planner.present.drawing.svg import chart_svg
from planner.present.drawing.terminal import Look, chart_runs, rows_for
from planner.text import one_line

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 84rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #8886; } p, ul { max-width: 60rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; font-size: .8rem; }
th, td { padding: .15rem .45rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; }
th, .right, .short { white-space: nowrap; }
th { border-bottom: 2px solid #888; } .right { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #8882; padding: .7rem; overflow-x: auto; }
@media print { :root { color-scheme: light; } body { font-size: 10pt; margin: 0; padding: 0; max-width: none; }
  table { display: table; font-size: 6.5pt; } th, td { padding: .1rem .2rem; } th, .short { white-space: normal; }
  th { min-width: 0 !important; } th.words { min-width: 14ch !important; } tr { break-inside: avoid; } h2 { break-after: avoid; } }
@page { margin: 12mm; }
"""
MOST_PHRASE = 30
"""Maximum letters of words in a table that stay on one line."""
MOST_NAME = 14
"""Maximum letters of a name that stays on one line."""
CELLS = 96
"""Width of a chart in Markdown, which is drawn as text."""
PLAIN = Look(curves=("",), quiet="", strong="")

_MARKDOWN = re.compile(r"\\(?=[!-/:-@\[-`{-~])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=[(\[:])|\|")
"""Characters that Markdown would read as HTML, an entity, a link, the end of a cell, or an escape."""
_CODE = re.compile(r"`([^`]+)`")
_BLOCK = re.compile(r"[#>+=~*_|-]|```|\d+(?=[.)])")
"""Beginnings of a line that Markdown reads as a heading, a list, a quotation, a rule or a block of code."""


def as_markdown(sections: Sequence[Section]) -> str:
    """Document as GitHub's Markdown."""
    blocks = [
        block
        for section in sections
        for block in (f"{'#' * section.level} {_marked(section.title)}", *(_markdown(part) for part in section.parts))
    ]
    return "\n\n".join(blocks) + "\n"


def _markdown(part: Part) -> str:
    match part:
        case Paragraph(text, style):
            return f"**{_marked(text)}**" if style == "strong" else _begun(text)
        case Points(items):
            return "\n".join(f"- {_begun(item)}" for item in items)
        case Code(text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"{fence}sh\n{one_line(text)}\n{fence}"
        case Facts():
            return markdown_table(_facts_table(part))
        case Chart():
            drawn = ["".join(text for text, _ in runs).rstrip() for runs in chart_runs(part, CELLS, rows_for(CELLS), PLAIN)]
            return "\n".join([_begun(f"{part.title}. {part.note}").rstrip(), "", "```text", *drawn, "```"])
        case Table():
            return markdown_table(part)


def markdown_table(table: Table[Any]) -> str:
    """`table` as GitHub's Markdown, with every column."""
    heads = [column.title for column in table.columns]
    rule = ["---:" if column.right else "---" for column in table.columns]
    return "\n".join("| " + " | ".join(_marked(cell) for cell in line) + " |" for line in (heads, rule, *table.texts()))


def _marked(text: str) -> str:
    """`text` on one line with Markdown's special characters escaped."""
    return _MARKDOWN.sub(r"\\\g<0>", one_line(text))


def _begun(text: str) -> str:
    """`text` escaped for the start of a line of Markdown."""
    marked = _marked(text).lstrip()
    block = _BLOCK.match(marked)
    at = block.end() if block and block[0].isdigit() else 0
    return f"{marked[:at]}\\{marked[at:]}" if block else marked


def _escaped(text: str) -> str:
    return html.escape(one_line(text))


def _with_code(text: str) -> str:
    """`text` with parts between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", _escaped(text))


def as_html(sections: Sequence[Section]) -> str:
    """Document as one file without scripts and external resources."""
    title = next((section.title for section in sections), "")
    body = html_fragment(sections)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>{_escaped(title)}</title>\n<style>{STYLE}{CHART_STYLE}</style>\n{body}\n</html>\n"
    )


def html_fragment(sections: Sequence[Section]) -> str:
    """Sections for embedding in another page, such as a notebook."""
    return "\n".join(line for section in sections for line in _html_section(section))


def _html_section(section: Section) -> Iterator[str]:
    yield f"<h{section.level}>{_escaped(section.title)}</h{section.level}>"
    for part in section.parts:
        yield from _html(part)


def _html(part: Part) -> Iterator[str]:
    match part:
        case Paragraph(text, style):
            inner = _with_code(text)
            yield f"<p><strong>{inner}</strong></p>" if style == "strong" else f"<p>{inner}</p>"
        case Points(items):
            yield "<ul>" + "".join(f"<li>{_with_code(item)}</li>" for item in items) + "</ul>"
        case Code(text):
            yield f"<pre>{_escaped(text)}</pre>"
        case Facts():
            yield from _html_table(_facts_table(part))
        case Chart():
            note = f" {_escaped(part.note)}" if part.note else ""
            yield f"<figure>{chart_svg(part)}<figcaption>{_escaped(part.title)}.{note}</figcaption></figure>"
        case Table():
            yield from _html_table(part)


def _html_table(table: Table[Any]) -> Iterator[str]:
    texts = table.texts()
    marks = [_mark(column.right, column.least_width, [row[place] for row in texts]) for place, column in enumerate(table.columns)]
    yield "<table><thead><tr>" + "".join(_html_heads(table, marks, texts)) + "</tr></thead><tbody>"
    for row in texts:
        cells = zip(marks, row, strict=True)
        yield "<tr>" + "".join(f"<td{mark}>{_escaped(cell)}</td>" for mark, cell in cells) + "</tr>"
    yield "</tbody></table>"


def _mark(right: bool, words: object, cells: Sequence[str]) -> str:
    """Class of a column: numbers, words that may be folded, or names; long names may be folded too."""
    if right:
        return ' class="right"'
    if words:
        return ' class="words"'
    return ' class="short"' if max(map(len, cells), default=0) <= MOST_NAME else ""


def _html_heads(table: Table[Any], marks: Sequence[str], texts: Sequence[Sequence[str]]) -> Iterator[str]:
    """Headings; those of columns that may be folded are wide enough for a phrase."""
    for place, (column, mark) in enumerate(zip(table.columns, marks, strict=True)):
        longest = max((len(row[place]) for row in texts), default=0)
        width = f' style="min-width:{0.85 * min(longest, MOST_PHRASE):.0f}ch"' if column.least_width else ""
        yield f"<th{mark}{width}>{_escaped(column.title)}</th>"


def _facts_table(facts: Facts) -> Table[Sequence[str]]:
    """Facts as a table with empty headings."""
    rows = [(fact.label, str(fact.value), fact.aside.strip()) for fact in facts.facts]
    table = text_table(("label", "value", "aside"), rows, ("value",))
    return Table([replace(column, title="") for column in table.columns], rows)
