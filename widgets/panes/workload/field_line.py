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
from textual.widget import Widget
from textual.widgets import Input, Static

from widgets.actions.action import bindings
from widgets.actions.moves import GROUP
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import shorten_clauses
from widgets.drawing.text_field import TextField
from widgets.panes.workload import values
from widgets.panes.workload.choice import Choice, ModelChoice
from widgets.panes.workload.field import Field

LABEL = 9
"""Cells of a label, before the mark of a changed field."""
UNIT = 7
"""Cells of a unit, and of the space before it."""
EDITOR, GAP = 28, 2
"""Cells of editor and unit where there is room for words behind them, and of the blanks before these words."""
LEAST_ABOUT, MOST_ABOUT = 36, 72
"""Cells of what a field takes, at least and at most."""
KEY = 24
"""Cells of a field's key in a preset, which stands behind that where there is room for both."""
LEAST_WITH_KEY = 48
"""Cells of what a field takes that its key leaves."""
NUMBERS = ("count", "number", "percent", "crowd", "lengths")


def field_id(key: str) -> str:
    """Widget id of a field."""
    return "field-" + key.replace(".", "-").replace("_", "-")


def group_id(group: str) -> str:
    """Widget id of the heading of a group."""
    return "group-" + group.replace(" ", "-")


def cells_behind(width: int) -> int:
    """Cells of a line of the form for what the field takes; 0: it is not said there."""
    behind = width - LABEL - 1 - EDITOR
    return behind if behind >= LEAST_ABOUT else 0


class FieldInput(TextField):
    """Editor of a field: whole when the cursor comes, and in a number `+` and `-` step."""

    def __init__(self, field: Field) -> None:
        super().__init__(id=field_id(field.key), select_on_focus=True)
        self._kind = field.kind
        self._heard = ""
        self._while_empty: tuple[str, ...] = ("",)
        """What stands in it while it is empty, and what where that has no room."""
        self._lowered = False
        """True if the key before was the one that steps down."""

    @property
    def ahead(self) -> bool:
        """True if keys were typed into it that the form has not heard of yet."""
        return self.value != self._heard

    def hear(self, text: str) -> None:
        """Note what the form has heard of."""
        self._heard = text

    def offer(self, empty: str, chosen: str) -> None:
        """Show, while it is empty, what that means and the value chosen for it: 'auto 5505', or '5505' where there is no more room."""
        self._while_empty = (f"{empty} {chosen}", chosen) if chosen else (empty,)
        self._place()

    def on_resize(self) -> None:
        """Show as much as there is room for now."""
        self._place()

    def _place(self) -> None:
        room = self.content_size.width or len(self._while_empty[0])
        self.placeholder = next((text for text in self._while_empty if len(text) <= room), self._while_empty[-1])

    def write(self, text: str) -> None:
        """Put `text` in without announcing it; whole again where the cursor is."""
        self._heard = text
        with self.prevent(Input.Changed):
            self.value = text
            if self.has_focus:
                self.action_select_all()

    async def _on_key(self, event: events.Key) -> None:
        before = self.value[: self.cursor_position]
        if self._lowered and event.character and event.character.isdigit():
            self.notify("- took the next value down, and the digit begins a new one: none is below 0.", timeout=5)
        self._lowered = False
        if event.character in {"+", "-"} and self._kind in NUMBERS and self.value and not before.casefold().endswith("e"):
            event.stop()
            event.prevent_default()
            self.step(1 if event.character == "+" else -1)
            self._lowered = event.character == "-"
            return
        await super()._on_key(event)

    def step(self, direction: int) -> None:
        """Go to the next sensible value up or down; nothing if the text is no number."""
        try:
            self.value = values.stepped(self._kind, self.value, direction)
        except ValueError:
            return
        self.action_select_all()


class GroupLine(Static, can_focus=True):
    """Heading of a group of fields, which opens and folds it; folded it says how many of them are set."""

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
        count = f"  {given} set" if folded and given else ""
        mark = f" {self._symbols.changed}" if folded and changed else ""
        self.update(Content.assemble((f"{sign} {self.group}", "bold"), (count, "$quiet"), (mark, "$secondary")), layout=False)

    def action_fold(self, fold: str = "") -> None:
        """Open it ('open'), fold it ('fold'), or turn it round."""
        folded = fold == "fold" if fold else not self._folded
        if folded != self._folded:
            self.post_message(self.Folded(self.group, folded))

    def on_click(self) -> None:
        """Turn it round."""
        self.action_fold()

    def on_key(self, event: events.Key) -> None:
        """Tell where a number belongs that no pane has: it was meant for a field."""
        if event.character and event.character.isdigit() and event.key not in self.screen.active_bindings:
            self.notify(f"{self.group} is a heading and takes no number; down goes to its fields.", timeout=4)


class FieldLine(Horizontal):
    """Label, editor and unit, of which the editor is a widget; the problem with the value below, once there was one."""

    def __init__(self, field: Field, symbols: Symbols) -> None:
        super().__init__(classes="field-line of-task")
        self.field = field
        self._symbols = symbols
        self._changed = False
        self._fault = ""
        self._below: Static | None = None
        """Line below the field that shows its fault; None if there was none yet."""
        self.editor: FieldInput | Choice
        """Widget that holds the value."""
        if field.picked:
            kind = ModelChoice if field.key == "model" else Choice
            self.editor = kind(field.label, symbols=symbols, id=field_id(field.key))
        else:
            self.editor = FieldInput(field)
        self.editor.styles.margin = (0, self._unit_cells, 0, LABEL + 1)

    def compose(self) -> ComposeResult:
        """Editor alone; label and unit are drawn beside it."""
        yield self.editor

    @property
    def _unit_cells(self) -> int:
        return UNIT if self.field.unit and not self.field.picked else 0

    def render(self) -> Content:
        """Label and unit, with room for the editor between them; behind it what may be given, where there is room."""
        mark = self._symbols.changed if self._changed else ""
        label = f"{self.field.label:<{LABEL}}{mark}".ljust(LABEL + 1)
        unit = f" {self.field.unit}".ljust(self._unit_cells) if self._unit_cells else ""
        behind = cells_behind(self.size.width)
        room = " " * max(0, self.size.width - behind - len(label) - self._unit_cells)
        return Content.assemble((label, self._label_style), room, (unit, "$quiet"), self._about(behind - GAP) if behind else "")

    def _about(self, room: int) -> Content:
        """What the field takes, and its key in a preset."""
        about = self.field.about or ", ".join(self.field.choices)
        with_key = room - KEY >= LEAST_WITH_KEY
        cells = min(MOST_ABOUT, room - KEY) if with_key else room
        words = shorten_clauses(about, cells - GAP, self._symbols.ellipsis).ljust(cells)
        return Content.assemble(" " * GAP, (words, "$quiet"), (self.field.key if with_key else "", "$quiet 60%"))

    def on_resize(self) -> None:
        """Give the editor the cells that what stands behind it leaves."""
        self.editor.styles.width = EDITOR - self._unit_cells if cells_behind(self.size.width) else "1fr"

    @property
    def _label_style(self) -> str:
        if self.has_class("-faulty"):
            return "$text-error bold"
        if self.has_focus_within:
            return "$accent bold"
        return "$secondary bold" if self._changed else "$quiet"

    def on_descendant_focus(self) -> None:
        """Light the label of the field with the cursor."""
        self.refresh()

    def on_descendant_blur(self) -> None:
        """The cursor is elsewhere."""
        self.refresh()

    def mark_changed(self, changed: bool) -> None:
        """Mark a field that is no longer as the preset has it."""
        if changed != self._changed:
            self._changed = changed
            self.refresh()

    def mark_fault(self, fault: str) -> None:
        """Say what is wrong with the value; empty: nothing is."""
        if fault != self._fault:
            self._fault = fault
            self.set_class(bool(fault), "-faulty")
            self._show_fault()
            self.refresh()

    def on_mount(self) -> None:
        """Show what was wrong before."""
        self._show_fault()

    def _show_fault(self) -> None:
        if self._below is None:
            if not self._fault or not isinstance(self.parent, Widget):
                return
            self._below = Static(classes="fault of-task", id=f"fault-{field_id(self.field.key)}")
            self.parent.mount(self._below, after=self)
        self._below.update(Content(self._fault))
        self._below.display = bool(self._fault)
