"""A line of the form: label, editor, unit; keys of its own in the editor."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from widgets.drawing.symbols import Symbols
from widgets.drawing.text_field import Entry
from widgets.panes.workload import fields as spec
from widgets.panes.workload import values
from widgets.panes.workload.choice import Choice, ModelChoice

LABEL = 10
"""Cells of a label, before the mark of a changed field."""
NUMBERS = ("count", "number", "percent", "crowd", "lengths")


def field_id(key: str) -> str:
    """The widget id of a field."""
    return "field-" + key.replace(".", "-").replace("_", "-")


class FieldEntry(Entry):
    """The editor of a field: whole when the cursor comes, and in a number `+` and `-` step."""

    def __init__(self, field: spec.Field) -> None:
        super().__init__(id=field_id(field.key), select_on_focus=True)
        self._kind = field.kind

    async def _on_key(self, event: events.Key) -> None:
        before = self.value[: self.cursor_position]
        if event.character in {"+", "-"} and self._kind in NUMBERS and not before.casefold().endswith("e"):
            event.stop()
            event.prevent_default()
            self.step(1 if event.character == "+" else -1)
            return
        await super()._on_key(event)

    def step(self, direction: int) -> None:
        """Go to the next sensible value up or down; nothing where the text is no number."""
        try:
            self.value = values.stepped(self._kind, self.value, direction)
        except ValueError:
            return
        self.action_select_all()


class FieldLine(Horizontal):
    """Label, editor and unit; the problem with the value below."""

    def __init__(self, field: spec.Field, symbols: Symbols) -> None:
        super().__init__(classes="field-line")
        self.field = field
        self._symbols = symbols
        self._changed: bool | None = None

    def compose(self) -> ComposeResult:
        """One line."""
        yield Static(self.field.label, classes="field-label")
        if self.field.picked:
            kind = ModelChoice if self.field.key == "model" else Choice
            yield kind(self.field.label, symbols=self._symbols, id=field_id(self.field.key))
        else:
            yield FieldEntry(self.field)
            yield Static(self.field.unit, classes="field-unit")

    def mark_changed(self, changed: bool) -> None:
        """Mark a field that is no longer as the preset has it."""
        if changed != self._changed:
            self._changed = changed
            text = f"{self.field.label:<{LABEL}}{self._symbols.changed if changed else ''}"
            self.query_one(".field-label", Static).update(text, layout=False)
            self.set_class(changed, "-changed")
