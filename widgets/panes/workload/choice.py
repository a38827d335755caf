"""A field of the form that holds one of several values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from widgets.actions.action import bindings
from widgets.actions.moves import CHOICE
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_middle
from widgets.screens.picker import Item, PickerScreen


class Choice(Static, can_focus=True):
    """Value and a mark; enter opens the list, left and right step through it, home and end go to its ends."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CHOICE)]

    @dataclass
    class Changed(Message):
        """The user chose another value; empty: choose for me."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            """Field that changed."""
            return self.choice

    def __init__(self, title: str, *, symbols: Symbols = UNICODE, id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._title = title
        self._symbols = symbols
        self._items: Sequence[Item] = ()
        self.value = ""
        """Value chosen; empty: choose for me."""
        self._chosen_for_you = ""

    def offer(self, items: Sequence[Item], value: str, chosen_for_you: str = "") -> None:
        """Set what can be chosen, what is, and what the planner takes when nothing is."""
        before = self._items, self.value, self._chosen_for_you
        self._items, self.value, self._chosen_for_you = items, value, chosen_for_you
        if before != (items, value, chosen_for_you):
            self._draw()

    def on_resize(self, _event: events.Resize) -> None:
        """Shorten to the new width."""
        self._draw()

    def _draw(self) -> None:
        room = max(4, self.size.width - 2)
        self.update(
            Content.assemble(
                (shorten_middle(self._text(room), room, self._symbols.ellipsis).ljust(room), "" if self.value else "$quiet"),
                " ",
                (self._symbols.drop_down, "$quiet"),
            ),
            layout=False,
        )

    def _text(self, room: int) -> str:
        """Chosen value; where it is left to the planner, its choice, dim."""
        if self.value:
            return next((item.label for item in self._items if item.value == self.value and item.label), self.value)
        if not self._chosen_for_you:
            return "auto"
        text = f"auto: {self._chosen_for_you}"
        return text if len(text) <= room else self._chosen_for_you

    def action_open(self) -> None:
        """Show the list."""
        self.app.push_screen(PickerScreen(self._title, self._items, self.value), self._chosen)

    async def on_click(self) -> None:
        """A click opens the list too."""
        await self.run_action("open")

    def action_step(self, step: int) -> None:
        """Next or previous value."""
        values = [item.value for item in self._items]
        if values:
            index = values.index(self.value) + step if self.value in values else 0
            self._chosen(values[index % len(values)])

    def action_go(self, place: int) -> None:
        """First (0) or the last (-1) value."""
        if self._items:
            self._chosen(self._items[place].value)

    def _chosen(self, value: str | None) -> None:
        if value is not None and value != self.value:
            self.value = value
            self._draw()
            self.post_message(self.Changed(self, value))


class ModelChoice(Choice):
    """The model: enter opens the box that also takes an id of the hub or the path of a config.json."""

    async def action_open(self) -> None:  # type: ignore[override]  # Textual awaits what is awaitable
        """Ask for another model."""
        await self.app.run_action("act('model')")
