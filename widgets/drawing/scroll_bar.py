"""Scroll bars half a cell wide, on the right of their cell: a text that ends beside one does not touch it."""

from __future__ import annotations

from math import ceil

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBar, ScrollBarRender

HALVES = {(False, True): "▗", (True, False): "▝", (True, True): "▐"}
"""Whether the thumb is in the upper and in the lower half of a cell -> the sign of it."""
TRACK = "▐"
GRAB, UP, DOWN = ({"@mouse.down": action} for action in ("grab", "scroll_up", "scroll_down"))


class NarrowBar(ScrollBarRender):
    """Draws a vertical bar by halves of cells; a horizontal one as Textual does."""

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: Color = Color.parse("#555555"),  # noqa: B008
        bar_color: Color = Color.parse("bright_magenta"),  # noqa: B008
    ) -> Segments:
        """Cells of the bar: `size` of them, for `window_size` of `virtual_size` lines from line `position` on."""
        if not vertical:
            return super().render_bar(size, virtual_size, window_size, position, thickness, vertical, back_color, bar_color)
        begin, end = thumb(size, virtual_size, window_size, position)
        halves = [begin <= half < end for half in range(2 * size)]
        rail = (
            " " if back_color.is_default else TRACK
        )  # of the terminal's own ground nothing is drawn: its colour is no colour of signs
        track = Style(color=back_color)
        cells: list[Segment] = []
        for row, (upper, lower) in enumerate(zip(halves[::2], halves[1::2], strict=True)):
            way = GRAB if upper or lower else UP if 2 * row < begin else DOWN
            sign, style = (HALVES[upper, lower], Style(color=bar_color)) if upper or lower else (rail, track)
            cells.append(Segment(sign.rjust(thickness), style + Style(meta=way)))
        return Segments(cells, new_lines=True)


def thumb(size: int, virtual_size: float, window_size: float, position: float) -> tuple[int, int]:
    """First half cell of the thumb, and the one behind it; the same one twice where everything is in sight."""
    if not (size and window_size and virtual_size > window_size):
        return 0, 0
    halves = max(2, ceil(2 * size * window_size / virtual_size))
    begin = round((2 * size - halves) * min(1.0, max(0.0, position / (virtual_size - window_size))))
    return begin, begin + halves


def use(*, ascii_only: bool) -> None:
    """Draw all scroll bars so; in ASCII, which has no halves of cells, as Textual does."""
    ScrollBar.renderer = ScrollBarRender if ascii_only else NarrowBar
