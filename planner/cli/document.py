"""A document of headings, paragraphs, lists, tables and code; as Markdown, and as one HTML file that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid #8886; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8884; }
th { border-bottom: 2px solid #888; } .right { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #8882; padding: .7rem; overflow-x: auto; }
"""


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of the document (level 1) or of a part of it."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; `strong` is what the reader came for."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """A list without order."""

    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells under heads; the columns in `right` hold numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Code:
    """What is typed or pasted as it stands."""

    text: str


Block = Heading | Paragraph | Points | Table | Code


def as_markdown(blocks: Sequence[Block]) -> str:
    """The document as GitHub's Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text, strong):
            return f"**{text}**" if strong else text
        case Points(items):
            return "\n".join(f"- {item}" for item in items)
        case Code(text):
            return f"```sh\n{text}\n```"
        case Table(heads, rows, right):
            lines = [heads, ["---:" if head in right else "---" for head in heads], *rows]
            return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def as_html(blocks: Sequence[Block]) -> str:
    """The document as one file: no script, nothing that is fetched."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    body = "\n".join(line for block in blocks for line in _html(block))
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n{body}\n</html>\n"
    )


def _html(block: Block) -> Iterator[str]:
    match block:
        case Heading(text, level):
            yield f"<h{level}>{html.escape(text)}</h{level}>"
        case Paragraph(text, strong):
            inner = html.escape(text)
            yield f"<p><strong>{inner}</strong></p>" if strong else f"<p>{inner}</p>"
        case Points(items):
            yield "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"
        case Code(text):
            yield f"<pre>{html.escape(text)}</pre>"
        case Table(heads, rows, right):
            marks = [' class="right"' if head in right else "" for head in heads]
            yield "<table><thead><tr>"
            yield "".join(f"<th{mark}>{html.escape(head)}</th>" for mark, head in zip(marks, heads, strict=True))
            yield "</tr></thead><tbody>"
            for row in rows:
                cells = zip(marks, row, strict=True)
                yield "<tr>" + "".join(f"<td{mark}>{html.escape(cell)}</td>" for mark, cell in cells) + "</tr>"
            yield "</tbody></table>"
