"""The text field of this program: one row, and a cursor that stands still so that an idle screen sends nothing."""

from __future__ import annotations

from textual.widgets import Input


class Entry(Input):
    """A compact input without a blinking cursor."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False
