"""Work-arounds that need more of Textual than its public interface gives; checked against 8.2.8."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter

from planner.text import REPLACEMENT, one_line

if TYPE_CHECKING:
    from textual.app import App
    from textual.color import Color

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("─━═▁▔┄·•–—−", "-"),
        **dict.fromkeys("│┃║▏▕▎▌▐", "|"),
        **dict.fromkeys("╭╮╰╯┌┐└┘┏┓┗┛├┤┬┴┼±✓", "+"),
        **dict.fromkeys("▂▃▄▅▆▇█", "#"),
        **dict.fromkeys("→≥", ">"),
        **dict.fromkeys("←≤", "<"),
        **dict.fromkeys("↵↑⇧", "^"),
        **dict.fromkeys("×✗", "x"),
        **dict.fromkeys("“”", '"'),
        **dict.fromkeys("\xa0°", " "),
        **dict(zip("÷§…↓≈σ┊µ²³●○", "/S.v~s:u23*o", strict=True)),
        "🔎": "> ",
    }
)
_SPREAD = r"±([\d.,]+) %"
_CUT = r"[ -~]…"
"""End of what was cut, with the sign before it, which leaves room for two dots."""
_SEPARATOR = r"(?<!\S)·(?!\S)"
"""A dot between two parts of a line, which a dash would make a minus, or the key of that name."""


class CleanText(LineFilter):
    """No sign that a terminal obeys, whoever wrote it; what took no cell leaves none."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Segments, their text clean and as wide as before."""
        del background
        return [segment if segment.text.isprintable() else segment._replace(text=_cleaned(segment.text)) for segment in segments]


def _cleaned(text: str) -> str:
    return one_line(text, lambda sign: REPLACEMENT * cell_len(sign))


class PlainText(LineFilter):
    """Every cell in ASCII, borders included: with another encoding Textual would write replacement marks."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Segments, their text in ASCII and as wide as before."""
        del background
        return [segment if segment.text.isascii() else segment._replace(text=_drawn(segment)) for segment in segments]


def _drawn(segment: Segment) -> str:
    """Text in ASCII; the end of a scroll bar's thumb within a cell is left out."""
    if segment.style is not None and "@mouse.down" in segment.style.meta:
        return " " * cell_len(segment.text)
    return plain(segment.text)


def plain(text: str) -> str:
    """`text` in ASCII, cell for cell: '±14 %' as '+-14%', 'reading …' as 'reading..', '8,730 → 9,640' as '8,730 ->9,640', 'a · b' as 'a | b'."""
    text = (
        re.sub(_SEPARATOR, "|", re.sub(_CUT, "..", re.sub(_SPREAD, r"+-\1%", text)))
        .replace("  ± ", " +- ")
        .replace(" ± ", " +-")
        .replace(" →  ", " -> ")
        .replace(" → ", " ->")
        .replace(" ≤ ", " <=")
        .replace(" ≥ ", " >=")
        .replace("°C", "C ")
    )
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in text.translate(_PLAIN))


def filter_output(app: App[Any], *, ascii_only: bool) -> None:
    """Clean all output of the app, and put it into ASCII where nothing else can be shown."""
    app._filters += [CleanText(), *([PlainText()] if ascii_only else [])]  # noqa: SLF001  (there is no public way to add to it)
