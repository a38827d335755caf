"""Records of which all answers consist (cells, columns, tables and sections), and texts of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from planner.present.drawing.chart import Chart
from planner.text import one_line
from planner.units import UNKNOWN, digits, is_known, percent_text

if TYPE_CHECKING:
    from planner.engine.answers.figure import Basis, Figure

BASIS_SIGNS: Mapping[Basis, str] = {"measured": "●", "transferred": "◐", "public": "○", "spec": "·"}
"""Basis of a figure -> its meaning; strongest first."""
BASIS_WORDS: Mapping[Basis, str] = {
    "measured": "measured here",
    "transferred": "estimated from a part measured here",
    "public": "published measurement",
    "spec": "vendor figures",
}
SHORT_BASIS_WORDS: Mapping[Basis, str] = {
    "measured": "measured",
    "transferred": "carried over",
    "public": "published",
    "spec": "vendor",
}
LEAST_APART, ALIKE_SHARE = 0.05, 2 / 3
"""Minimum difference of the sides of a range, and maximum ratio of the narrower to the wider, with which both are shown."""
LEAST_SHARE = 0.005
"""Smallest share that is shown; smaller ones would read 0 %."""

LEAST_FOLDED_WIDTH = 16
"""Minimum width in characters to which words in a plain table may be folded."""

Item = TypeVar("Item")
SortKey = float | str | None
NumberText = Callable[[float], str]


class Cell(msgspec.Struct, frozen=True):
    """Text of one value."""

    text: str = UNKNOWN
    spread: str = ""
    """Range of the value, such as '±14 %' or '-10 +29 %'; empty if the value is exact or unknown."""
    basis: Basis | None = None
    """Basis of the value; None: exact, or words."""
    share: float | None = None
    """Value as a fraction, if a bar can be drawn."""

    @property
    def range_text(self) -> str:
        """Range and sign of the basis: '±14 % ●'."""
        return " ".join(filter(None, (self.spread, BASIS_SIGNS[self.basis] if self.basis else "")))

    def __str__(self) -> str:
        """Value, range and sign of the basis: '5,210 ±14 % ●'."""
        return f"{self.text} {self.range_text}".rstrip()


class Column(msgspec.Struct, Generic[Item], frozen=True):
    """One column of a table: its cell for an item, how it sorts, and when it is left out."""

    id: str
    title: str
    cell: Callable[[Item], Cell | str]
    right: bool = False
    """True if it holds numbers, which are aligned right."""
    priority: int = 100
    """Columns with the lowest number are left out first if there is not enough room."""
    least_width: int | None = None
    """Minimum width in characters to which its words may be folded; None: never folded."""
    sort: Callable[[Item], SortKey] | None = None
    """Sort key; items with None are last."""
    sorts_by: str = ""
    """Sort key in words."""
    best_is_high: bool = False
    """True if the first sort shows the highest value on top."""

    def text(self, item: Item) -> str:
        """Cell of `item` on one line."""
        return one_line(str(self.cell(item)))


class Table(msgspec.Struct, Generic[Item], frozen=True):
    """Items and columns. Cells are created during layout, so a table of thousands of rows costs nothing before it is drawn."""

    columns: Sequence[Column[Item]]
    items: Sequence[Item]
    style: Callable[[Item], Literal["", "strong", "faint"]] = lambda _: ""

    def texts(self) -> list[list[str]]:
        """Every row as the texts of its cells."""
        return [[column.text(item) for column in self.columns] for item in self.items]


class Fact(msgspec.Struct, frozen=True):
    """A labelled value with a remark."""

    label: str
    value: Cell | str
    aside: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Labelled values, one line each."""

    facts: Sequence[Fact]


class Paragraph(msgspec.Struct, frozen=True):
    """A paragraph; `style` is its emphasis."""

    text: str
    style: Literal["", "strong", "faint"] = ""


class Points(msgspec.Struct, frozen=True):
    """An unordered list."""

    items: Sequence[str]


class Code(msgspec.Struct, frozen=True):
    """Text to type or paste literally."""

    text: str


Part = Paragraph | Points | Code | Facts | Table[Any] | Chart


class Section(msgspec.Struct, frozen=True):
    """A titled part of an answer."""

    title: str
    parts: Sequence[Part]
    level: int = 2
    """1: the title of the whole document."""


def text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Iterable[str] = (),
    stays: Sequence[str] = (),
    least_width: int = LEAST_FOLDED_WIDTH,
) -> Table[Sequence[str]]:
    """A table of texts under `heads`; columns in `numeric` are aligned right, others may be folded to `least_width`.

    If there is not enough room, the last columns are dropped first, and those of `stays` after all others, in their order.
    """
    right = frozenset(numeric)

    def column(place: int, head: str) -> Column[Sequence[str]]:
        words = place > 0 and head not in right
        priority = len(heads) + 1 + stays.index(head) if head in stays else len(heads) - place
        return Column(head, head, lambda row: row[place], head in right, priority, least_width if words else None)

    return Table([column(place, head) for place, head in enumerate(heads)], rows)


def spread_text(figure: Figure | None) -> str:
    """Range of a value: '±14 %', '-10 +29 %' if the sides differ, a factor if it is two or more; empty if exact or absent."""
    if figure is None or not figure.value or figure.low == figure.high:
        return ""
    above, below = figure.high / figure.value - 1, 1 - figure.low / figure.value
    if max(above, below) < 1 - LEAST_SHARE:
        return _percentages(above, below)
    up, down = 1 + above, 1 / (1 - below) if below < 1 else math.inf
    if math.isfinite(down) and _apart(math.log(up), math.log(down)):
        sides = (f"÷{digits(down, 2)}" if down > 1 + LEAST_SHARE else "", f"×{digits(up, 2)}" if up > 1 + LEAST_SHARE else "")
        return " ".join(filter(None, sides))
    return f"×÷{digits(max(up, down) if math.isfinite(down) else up, 2)}"


def ends_text(figure: Figure, text: NumberText) -> str:
    """Both ends of a range, with the unit once if they have the same: '103.9 to 114.5 GiB', '817 mJ to 1.91 J'."""
    low, high = text(figure.low), text(figure.high)
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low} to {high}"


def _percentages(above: float, below: float) -> str:
    """Both sides of a range as percentages; a side that would read 0 % is left out."""
    if max(above, below) - min(above, below) < LEAST_APART or not _apart(above, below):
        return f"±{percent_text(max(above, below))}"
    sides = (f"-{below * 100:.0f}" if below >= LEAST_SHARE else "", f"+{above * 100:.0f}" if above >= LEAST_SHARE else "")
    return f"{' '.join(filter(None, sides))} %"


def _apart(one: float, other: float) -> bool:
    """True if one side of a range is noticeably wider than the other."""
    return min(one, other) < ALIKE_SHARE * max(one, other)


def figure_cell(figure: Figure | None, text: NumberText) -> Cell:
    """Value of `figure`, formatted by `text`, without range and basis."""
    return Cell(text(figure.value)) if figure is not None and is_known(figure.value) else Cell()


def range_cell(figure: Figure | None, text: NumberText) -> Cell:
    """Value of `figure` with its range and basis."""
    if figure is None or not is_known(figure.value):
        return Cell()
    return Cell(text(figure.value), spread_text(figure), figure.basis)


def figure_text(figure: Figure | None, text: NumberText) -> str:
    """Value and range without the sign of the basis: '5,210 ±14 %'."""
    return f"{text(figure.value)} {spread_text(figure)}".rstrip() if figure is not None else UNKNOWN


def basis_legend(figures: Iterable[Figure]) -> str:
    """Explanation of the signs that `figures` use; empty if they use none."""
    shown = list(figures)
    used = {figure.basis for figure in shown}
    signs = [f"{sign} {BASIS_WORDS[basis]}" for basis, sign in BASIS_SIGNS.items() if basis in used]
    ranged = any(spread_text(figure) for figure in shown)
    return "   ".join([*signs, *(["ranges hold the true value 9 times in 10"] if ranged else [])])
