"""Panes by number, for screens that show one at a time."""

from __future__ import annotations

from textual.content import Content

from widgets.panes.clickable import Clickable
from widgets.panes.frame import PANES


class Tabs(Clickable):
    """Panes by number, for screens that show one at a time."""

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self._shown = "", ""

    def show(self, active: str, note: str = "") -> None:
        """Mark the active pane; `note` stands behind the benchmark."""
        self._shown = active, note
        self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        active, note = self._shown
        if not active:
            return
        labels = [
            f"{number} {pane.upper() if pane == active else pane.capitalize()}{f' {note}' if pane == 'benchmark' and note else ''}"
            for number, pane in enumerate(PANES, start=1)
        ]
        room = self.screen.size.width - 2  # its own is not known while it is hidden
        margin = " " if sum(len(label) + 3 for label in labels) - 1 <= room else ""
        parts: list[Content] = []
        self._stretches = []
        cell = 0
        for pane, label in zip(PANES, labels, strict=True):
            text = f"{margin}{label}{margin}"
            parts.append(Content.assemble((text, "bold reverse" if pane == active else "$quiet")))
            self._stretches.append((cell, cell + len(text), f"pane-{pane}"))
            cell += len(text) + 1
        self.update(Content(" ").join(parts), layout=False)
