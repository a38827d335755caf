"""Message of a screen that is too small, instead of a broken layout."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

LEAST_WIDTH, LEAST_HEIGHT = 60, 18
"""Cells and rows below which nothing else is drawn."""


class TooSmall(Static):
    """States the room that is needed and the room there is."""

    def __init__(self) -> None:
        super().__init__(id="too-small")

    def on_resize(self) -> None:
        """Say the size there is now."""
        width, height = self.app.size
        self.update(
            Content.assemble(
                ("gpu-planner", "bold $accent"),
                f"\nneeds {LEAST_WIDTH}×{LEAST_HEIGHT}\nhas {width}×{height}\n\n",
                ("q quits", "$quiet"),
            )
        )
