"""Text folded to a number of cells: paragraphs, and labelled values with their remarks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from planner.text import clean, one_line

if TYPE_CHECKING:
    from planner.present.cells import Fact

LEAST_ASIDE_WIDTH = 20
"""Minimum width of folded remarks."""
QUANTITY = r"(?<=\d) (?=%|\$|[kMGTPE]?(?:B|W|J|tok|FLOP)(?:/s)?(?![\w])|[KMGT]iB(?![\w])|[mµn]?s(?![\w])|min(?![\w])|[hd](?![\w])|billion|GPUs?(?![\w])|\+\d)"
"""Pattern of blanks at which no line may end: between a number and its unit, or the two sides of a range."""


def folded(text: str, width: int, hanging: str = "") -> list[str]:
    """At least one line of at most `width` cells; none ends between a number and its unit, the sides of a range, or inside a word or date.

    Text longer than a line ends before its unit, or after a part of a layout. `hanging` is inserted before all lines except the first.
    """
    words = re.sub(QUANTITY, "\xa0", clean(text)).split(" ")
    breakable = " ".join(part for word in words for part in _parts(word, width - len(hanging)))
    lines = textwrap.wrap(breakable, width, subsequent_indent=hanging, break_on_hyphens=False) or [""]
    return [line.replace("\xa0", " ") for line in lines]


def _parts(word: str, width: int) -> Iterator[str]:
    """Word, or its parts if it is longer than a line: 'tp8·pp16·' and 'cp2·dp32'."""
    while len(word) > width and (ends := [found.end() for found in re.finditer("[\xa0·]", word[:width])]):
        yield word[: ends[-1]].rstrip("\xa0")
        word = word[ends[-1] :]
    yield word


def fact_lines(facts: Sequence[Fact], width: int) -> Iterator[str]:
    """Lines of labels aligned left, values aligned right, then remark, range and basis, folded to `width` cells."""
    from planner.present.cells import Cell

    cells = [fact.value if isinstance(fact.value, Cell) else Cell(fact.value) for fact in facts]
    shown = [(one_line(fact.label), one_line(cell.text)) for fact, cell in zip(facts, cells, strict=True)]
    labels, values = (max(map(len, texts)) for texts in zip(*shown, strict=True)) if shown else (0, 0)
    for fact, cell, (label, value) in zip(facts, cells, shown, strict=True):
        left = f"  {label:<{labels}}  {value:>{values}}  "
        aside = " ".join(filter(None, (fact.aside, cell.range_text)))
        first, *more = folded(aside, max(LEAST_ASIDE_WIDTH, width - len(left)))
        yield f"{left}{first}".rstrip()
        yield from (" " * len(left) + line for line in more)
