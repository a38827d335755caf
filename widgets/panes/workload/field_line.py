"""A line of the form: label, editor, unit; keys of its own in the editor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from widgets.actions.action import bindings
from widgets.actions.moves import GROUP
from widgets.drawing.symbols import Symbols
from widgets.drawing.text_field import Entry
from widgets.panes.workload import values
from widgets.panes.workload.choice import Choice, ModelChoice
from widgets.panes.workload.field import Field

LABEL = 10
"""Cells of a label, before the mark of a changed field."""
NUMBERS = ("count", "number", "percent", "crowd", "lengths")


def field_id(key: str) -> str:
    """The widget id of a field."""
    return "field-" + key.replace(".", "-").replace("_", "-")


def group_id(group: str) -> str:
    """The widget id of the heading of a group."""
    return "group-" + group.replace(" ", "-")


class FieldEntry(Entry):
    """The editor of a field: whole when the cursor comes, and in a number `+` and `-` step."""

    def __init__(self, field: Field) -> None:
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


class GroupLine(Static, can_focus=True):
    """The heading of a group of fields, which opens and folds it; folded it says how many of them are set."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(GROUP)]

    @dataclass
    class Folded(Message):
        """The user opened a group, or folded it."""

        group: str
        folded: bool

    def __init__(self, group: str, symbols: Symbols) -> None:
        super().__init__(classes="group-line of-task", id=group_id(group))
        self.group = group
        self._symbols = symbols
        self._folded = False

    def show(self, *, folded: bool, given: int, changed: int) -> None:
        """Whether it is folded, how many of its fields hold a value, and how many are not as the preset has them."""
        self._folded = folded
        sign = self._symbols.folded if folded else self._symbols.drop_down
        told = f"  {given} set" if folded and given else ""
        mark = f" {self._symbols.changed}" if folded and changed else ""
        self.update(Content.assemble((f"{sign} {self.group}", "bold"), (told, "$quiet"), (mark, "$secondary")), layout=False)

    def action_fold(self, fold: str = "") -> None:
        """Open it ('open'), fold it ('fold'), or turn it round."""
        folded = fold == "fold" if fold else not self._folded
        if folded != self._folded:
            self.post_message(self.Folded(self.group, folded))

    def on_click(self) -> None:
        """Turn it round."""
        self.action_fold()


class FieldLine(Horizontal):
    """Label, editor and unit; the problem with the value below."""

    def __init__(self, field: Field, symbols: Symbols) -> None:
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
            if self.field.unit:
                yield Static(self.field.unit, classes="field-unit")

    def mark_changed(self, changed: bool) -> None:
        """Mark a field that is no longer as the preset has it."""
        if changed != self._changed:
            self._changed = changed
            text = f"{self.field.label:<{LABEL}}{self._symbols.changed if changed else ''}"
            self.query_one(".field-label", Static).update(text, layout=False)
            self.set_class(changed, "-changed")
