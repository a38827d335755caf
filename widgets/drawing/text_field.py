"""Text field of this program: one row, and a cursor that stands still so that an idle screen sends nothing."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.widgets import Input

MOST_PASTED = 4096
"""Characters of a paste that are taken: as many as the longest path has. Each change of a field is read and planned."""

EDITING = {
    key.strip(): binding.action
    for binding in Input.BINDINGS
    if isinstance(binding, Binding) and binding.action != "submit"
    for key in binding.key.split(",")
}
"""Key -> what it does to the text of a field."""


class TextField(Input):
    """A compact input without a blinking cursor."""

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        select_on_focus: bool = False,
        id: str | None = None,  # noqa: A002  (Textual's name)
    ) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=select_on_focus, validate_on=(), id=id)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        """Edit at once: Textual inserts what can be printed as it comes, and deletes only once the key has passed every widget above.

        In a burst of keys, as of a slow connection, deletions would come after all that was typed. The widgets above take `enter` and the
        arrows of lists.
        """
        action = EDITING.get(event.key)
        if action is None or event.is_printable:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        await self.run_action(action)

    def _on_paste(self, event: events.Paste) -> None:
        event.text = event.text[:MOST_PASTED]  # what is left of it the base takes
