"""The memory of one candidate, item by item, each with the candidate's own numbers in its formula."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter

import numpy as np

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryItem
from planner.engine.columns import Floats, Table
from planner.engine.memory.terms import Term
from planner.engine.memory.total import terms_of
from planner.units import bytes_text, percent_text

SIGNIFICANT = 4
"""Figures of a number that is not whole."""


def number_text(value: float) -> str:
    """A number to calculate with: whole ones in full (6,979,321,856), small others to four figures (0.5312)."""
    whole = not np.isfinite(value) or value == round(value) or abs(value) >= 10**SIGNIFICANT
    return f"{value:,.0f}" if whole else f"{value:,.{SIGNIFICANT}g}"


WAYS_TO_READ: Mapping[str, Callable[[float], str]] = {"": number_text, "bytes": bytes_text, "percent": percent_text}
"""Formats that may follow the colon of a symbol in `Term.formula`."""

_NOTHING = re.compile(r" ÷ 1(?: ranks)?(?![\d,.])| \+ 0(?:\.0 GiB)?$| · 1$")
"""Terms that leave a sum as it is."""


def memory_items(t: Table, row: int) -> list[MemoryItem]:
    """Memory of `row`, component by component in the order of `MEMORY_COMPONENTS`; nothing of 0 bytes."""
    there = [(term, cell(term.bytes, row)) for term in terms_of(t)]
    return [
        MemoryItem(term.component, term.name, size, formula_text(term, row), term.source)
        for component in MEMORY_COMPONENTS
        for term, size in there
        if term.component == component and size != 0
    ]


def formula_text(term: Term, row: int) -> str:
    """The formula of `term` with the numbers of `row`. Raises `ValueError` for a symbol without a value or way to read it."""
    parts = []
    for text, symbol, way, _ in Formatter().parse(term.formula):
        parts.append(text)
        if symbol is None:
            continue
        if symbol not in term.values or (way or "") not in WAYS_TO_READ:
            raise ValueError(
                f"{{{symbol}:{way}}} of {term.formula!r} is none of {sorted(term.values)}, or of {sorted(WAYS_TO_READ)}"
            )
        parts.append(WAYS_TO_READ[way or ""](cell(term.values[symbol], row)))
    return _NOTHING.sub("", "".join(parts))


def cell(column: Floats, row: int) -> float:
    """The value of `row` in a column that may be shared by all rows."""
    return float(np.ravel(column)[row if np.size(column) > 1 else 0])
