"""The text field of this program: one row, and a cursor that stands still so that an idle screen sends nothing."""

from __future__ import annotations

from textual.widgets import Input, OptionList


class Entry(Input):
    """A compact input without a blinking cursor."""

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        select_on_focus: bool = False,
        id: str | None = None,  # noqa: A002  (Textual's name)
    ) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=select_on_focus, id=id)
        self.cursor_blink = False


def move_cursor(listing: OptionList, step: int) -> None:
    """Move in a list while the text above it keeps the focus; `step` above 0: down."""
    if step > 0:
        listing.action_cursor_down()
    else:
        listing.action_cursor_up()
