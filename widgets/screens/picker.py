"""Choosing one of many: a list that narrows as you type."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from planner.text import one_line
from widgets.drawing.text import BRACKETS
from widgets.drawing.text_field import TextField
from widgets.screens.overlay import NarrowedList

WIDTH, EDGES = 92, 7
"""Cells of the box where there is room, and those beside its texts."""


class Item(msgspec.Struct, frozen=True):
    """One thing to choose."""

    value: str
    label: str = ""
    """Text shown; empty: the value."""
    detail: str = ""
    """Text beside it, dim."""


class PickerScreen(NarrowedList[str | None]):
    """Returns the value of the chosen item; None if the user backs out."""

    def __init__(self, title: str, items: Sequence[Item], current: str | None = None) -> None:
        super().__init__()
        self._heading = title
        self._items = items
        self._current = current

    def compose(self) -> ComposeResult:
        """A box with a filter and the list."""
        with Vertical(id="picker", classes="box") as box:
            box.border_title = Content(self._heading)
            box.border_subtitle = Content("enter chooses · esc back")
            yield TextField(placeholder="type to narrow", id="picker-filter")
            yield OptionList(id="picker-list", compact=True)

    def highlight(self, value: str) -> None:
        """The cursor is on this item now; overridden where that shows a preview."""

    def _narrow(self, words: str) -> None:
        terms = words.casefold().split()
        listing = self.query_one(OptionList)
        wide = max((len(item.label or item.value) for item in self._items), default=0)
        room = min(WIDTH, self._laid_out_for) - EDGES - wide
        kept = [
            item for item in self._items if all(term in f"{item.value} {item.label} {item.detail}".casefold() for term in terms)
        ]
        listing.set_options(
            Option(
                Content.assemble(
                    one_line(item.label or item.value).ljust(wide + 2), (_within(one_line(item.detail), room), "$quiet")
                ),
                id=item.value,
            )
            for item in kept
        )
        current = next((index for index, item in enumerate(kept) if item.value == self._current), 0)
        listing.highlighted = current if kept else None

    @on(Input.Submitted)
    def _submit(self) -> None:
        listing = self.query_one(OptionList)
        if listing.highlighted is not None:
            self.dismiss(listing.get_option_at_index(listing.highlighted).id)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id is not None:
            self.highlight(event.option.id)


def _within(text: str, cells: int) -> str:
    """`text` without what is in brackets, where there is no room for it."""
    return text if len(text) <= cells else re.sub(BRACKETS, "", text)
