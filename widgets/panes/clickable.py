"""A line whose stretches are buttons."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import Static


class Clickable(Static):
    """A line with stretches that run an action when clicked."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._stretches: list[tuple[int, int, str]] = []
        """First cell, cell after the last, action id."""

    def on_click(self, event: events.Click) -> None:
        """Do what stands under the pointer."""
        x = event.x - self.styles.padding.left
        action = next((name for first, end, name in self._stretches if first <= x < end), None)
        if action is not None:
            self.post_message(self.Chosen(action))

    @dataclass
    class Chosen(Message):
        """An action was clicked."""

        action: str
