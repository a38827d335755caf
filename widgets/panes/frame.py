"""Frame of a pane, which is on the screen before its content."""

from __future__ import annotations

from typing import Any

from textual._styles_cache import StylesCache
from textual.containers import Container
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from widgets.drawing.updates import set_border_texts

PANES = ("workload", "ranking", "memory", "machine", "benchmark")
"""Names of the panes, in the order of their numbers."""
MARGIN = 6
"""Cells of the border at both ends, and of the blanks beside what stands in it."""


class _LinesOfFrame(StylesCache):
    """Lines of a frame: those between its first and last are the same, and made once."""

    _between: Strip | None = None

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        """Lines of the frame `widget` within `crop`."""
        self._between = None
        return super().render_widget(widget, crop)

    def render_line(self, styles: Any, y: int, size: Size, *given: Any) -> Strip:
        """Line `y` of the frame."""
        if not 0 < y < size.height - 1:
            return super().render_line(styles, y, size, *given)
        self._between = self._between or super().render_line(styles, y, size, *given)
        return self._between


class Frame(Container):
    """A border with the pane's number and title; what only follows another pane has no number."""

    def __init__(self, pane: str, *, active: bool = False) -> None:
        super().__init__(id=pane, classes="pane -active" if active else "pane")
        self._pane = pane
        self._styles_cache = _LinesOfFrame()
        self._said: tuple[str, str, str] | None = None
        self.entitle()

    def entitle(self, title: str = "", aside: str = "", *, name: str = "") -> None:
        """Set the texts in the border above and below; empty: the pane's name alone. `name` replaces the pane's own."""
        if self._said == (name, title, aside):
            return
        self._said = name, title, aside
        self._fit()

    def on_resize(self) -> None:
        """Fit what stands above and below to the new width."""
        self._fit()

    def _fit(self) -> None:
        """Whole parts of what stands above and below, the first ones where there is no room for all."""
        name, title, aside = self._said or ("", "", "")
        name = name or ("This machine" if self._pane == "machine" else self._pane.capitalize())
        words = f"[{PANES.index(self._pane) + 1}] {name}" if self._pane in PANES else name
        set_border_texts(
            self, Content(self._whole_parts(f"{words} · {title}" if title else words, 2)), Content(self._whole_parts(aside, 1))
        )

    def _whole_parts(self, text: str, least: int) -> str:
        """As many parts of `text` as the border has room for, `least` of them always."""
        parts = text.split(" · ")
        laid_out = self.size.width > 0
        while laid_out and len(parts) > least and len(" · ".join(parts)) + MARGIN > self.outer_size.width:
            parts.pop()
        return " · ".join(parts)


def frame_of(widget: Widget) -> Frame:
    """The frame a widget is in."""
    return widget.query_ancestor(Frame)
