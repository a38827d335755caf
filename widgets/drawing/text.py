"""Text in cells: cut, folded beside a label, and bars of signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from textual.content import Content

from planner.present.lines.folding import folded

BRACKETS = r" \([^()]*\)"
CLAUSE_ENDS = r"[,;] | [→·] "
PART_ENDS = r"[ ·-]"
WITHOUT_UNIT = r"[ ,;→·]*( [\d.,]+)?$"
"""End of a text that was cut behind a number, before its unit."""
NUMBER = r"\d+"
LEAST_KEPT = 0.7
"""Share of the cells that a text which ends with a clause has to fill."""
LEAST_FOLD = 12
"""Cells below which a text is not folded any further."""


def bar_text(fraction: float | None, width: int, filled: str, empty: str) -> str:
    """A bar of `width` cells, full at one and above; blank where the fraction is unknown."""
    if fraction is None:
        return " " * width
    cells = min(width, max(0, round(fraction * width)))
    return filled * cells + empty * (width - cells)


def shorten_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, its middle left out."""
    if len(text) <= width:
        return text
    keep = max(0, width - len(ellipsis))
    head = (keep + 1) // 2
    return text[:head] + ellipsis + text[len(text) - (keep - head) :]


def shorten_name(name: str, width: int, ellipsis: str = "…") -> str:
    """`name` in at most `width` cells: without what is in brackets, or without whole words of its middle, where its number stays.

    'GB10', 'RTX PRO 6000…Server', 'RTX…6000…Server'.
    """
    if len(name) <= width or len(name := re.sub(BRACKETS, "", name)) <= width:
        return name
    first, *words = name.split()
    shorter = [f"{' '.join([first, *words[:kept]])}{ellipsis}{words[-1]}" for kept in range(len(words) - 1, -1, -1)]
    shorter += [f"{first}{ellipsis}{word}{ellipsis}{words[-1]}" for word in words[:-1] if re.search(NUMBER, word)]
    for short in shorter:
        if width >= len(short) and re.findall(NUMBER, short) == re.findall(NUMBER, name):
            return short
    return shorten_middle(name, width, ellipsis)


def shorten_end(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, its end left out."""
    return text if len(text) <= width else text[: max(0, width - len(ellipsis))].rstrip() + ellipsis


def shorten_parts(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells, up to the end of a part: 'tp8·pp16·cp2…' of 'tp8·pp16·cp2·dp32'."""
    if len(text) <= width:
        return text
    room = max(0, width - len(ellipsis))
    return text[: max((found.start() for found in re.finditer(PART_ENDS, text[: room + 1])), default=room)] + ellipsis


def shorten_clauses(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in at most `width` cells: without what is in brackets, then up to the end of a clause, or of a word where that leaves too little."""
    if len(text) <= width or len(text := re.sub(BRACKETS, "", text)) <= width:
        return text
    room = max(0, width - len(ellipsis) - 1)
    clause = max((found.start() for found in re.finditer(CLAUSE_ENDS, text[: room + 1])), default=0)
    if clause >= LEAST_KEPT * width:
        return f"{text[:clause]} {ellipsis}"
    kept = text[: room + 1].rpartition(" ")[0] or text[:room]
    return f"{re.sub(WITHOUT_UNIT, '', kept)} {ellipsis}"


def fold(text: str, width: int) -> list[str]:
    """`text` in lines of `width` cells, one at least."""
    return folded(text, max(LEAST_FOLD, width))


def styled_lines(text: str, width: int, style: str = "") -> list[Content]:
    """`text` folded to `width` cells, in one style."""
    return [Content.styled(line, style) for line in fold(text, width)]


def labelled(label: str, cells: int, text: str, width: int, style: str = "", label_style: str = "$quiet") -> list[Content]:
    """A label in `cells` cells and a text folded beside it, `width` cells altogether."""
    return [
        Content.assemble((f"{head:<{cells}}", label_style), (line, style))
        for head, line in zip_longest([label], fold(text, width - cells), fillvalue="")
    ]


def side_by_side(blocks: Sequence[tuple[Sequence[Content], int]]) -> list[Content]:
    """Blocks of lines beside each other, each in its own number of cells."""
    return [
        Content.assemble(
            *(part for (_, cells), line in zip(blocks, row, strict=True) for part in (line, " " * max(0, cells - line.cell_length)))
        )
        for row in zip_longest(*(lines for lines, _ in blocks), fillvalue=Content(""))
    ]


def component_style(component: str) -> str:
    """Style of a component of memory, as of the classes of operators that share its colour."""
    return f"$stack-{component.replace('_', '-')}"
