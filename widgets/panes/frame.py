"""The frame of a pane: it stands on the screen before there is anything to put in."""

from __future__ import annotations

from textual.containers import Container
from textual.content import Content
from textual.widget import Widget

PANES = ("workload", "ranking", "memory", "machine", "benchmark")
"""Names of the panes, in the order of their numbers."""
MARGIN = 4
"""Cells of the border at both ends, and of the blanks beside what stands in it."""


class Frame(Container):
    """A border with the pane's number and title; what only follows another pane has no number."""

    def __init__(self, pane: str, *, active: bool = False) -> None:
        super().__init__(id=pane, classes="pane -active" if active else "pane")
        self._pane = pane
        self._said: tuple[str, str, str] | None = None
        self.entitle()

    def entitle(self, title: str = "", aside: str = "", *, name: str = "") -> None:
        """Set what the border says above and below; empty: the pane's name alone. `name` stands for the pane's own."""
        if self._said == (name, title, aside):
            return
        self._said = name, title, aside
        name = name or ("This machine" if self._pane == "machine" else self._pane.capitalize())
        words = f"[{PANES.index(self._pane) + 1}] {name}" if self._pane in PANES else name
        self.border_title = Content(f"{words} · {title}" if title else words)
        self._fit_aside()

    def on_resize(self) -> None:
        """Fit what stands below to the new width."""
        self._fit_aside()

    def _fit_aside(self) -> None:
        """Whole parts of what stands below, the first ones where there is no room for all."""
        parts = self._said[2].split(" · ") if self._said is not None else []
        while len(parts) > 1 and 0 < self.size.width < len(" · ".join(parts)) + MARGIN:
            parts.pop()
        self.border_subtitle = Content(" · ".join(parts))


def frame_of(widget: Widget) -> Frame:
    """The frame a widget is in."""
    return widget.query_ancestor(Frame)
