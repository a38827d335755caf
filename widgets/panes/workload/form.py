"""Workload form: a preset to begin with, then a line a number; every keystroke asks for a new plan."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.css.query import NoMatches
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from planner.errors import Problem
from planner.present.labels import with_labels
from planner.workload.changes import LOADS, with_title
from planner.workload.hardware.owned import People
from widgets.actions.action import bindings
from widgets.actions.moves import FORM
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.panes.workload import fields as spec
from widgets.panes.workload import values
from widgets.panes.workload.choice import Choice
from widgets.panes.workload.field import CHOSEN, Field
from widgets.panes.workload.field_line import EDITOR, FieldInput, FieldLine, GroupLine, cells_behind, field_id, group_id
from widgets.panes.workload.history import History, changed_keys, difference
from widgets.screens.picker import Item

ALWAYS_SET = ("objective", "market", "disaggregated")
"""Choices that are never left to the planner; absent means the first."""


class Form(VerticalScroll, can_focus=False):
    """Edits the wire form of a workload; keys it does not show stay as they are."""

    DEFAULT_CSS = """
    Form {
        scrollbar-size-vertical: 1;
        .field-line { height: 1; }
        .field-label { width: 10; color: $quiet; }
        TextField { width: 1fr; background: $panel 60%; padding: 0; }
        TextField:focus { background: $panel; }
        TextField > .input--placeholder { color: $quiet 80%; }
        Choice { width: 1fr; height: 1; }
        Choice:focus { background: $primary 35%; text-style: bold; &:ansi { background: ansi_default; text-style: bold reverse; } }
        Choice:hover { background: $panel; }
        .field-line:focus-within .field-label { color: $accent; text-style: bold; }
        .field-line.-faulty TextField { background: $error 25%; }
        &:ansi .field-line.-faulty TextField { background: ansi_default; color: $text-error; text-style: underline; }
        .group-line { height: 1; color: $secondary; }
        .group-line:focus { background: $primary 35%; &:ansi { background: ansi_default; color: ansi_default; text-style: reverse; } }
        .fault { display: none; height: auto; color: $text-error; padding: 0 0 0 2; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FORM)]

    @dataclass
    class Changed(Message):
        """Workload as it stands now; not validated."""

        workload: dict[str, Any]

    @dataclass
    class Wanted(Message):
        """The user wants another preset, or another model."""

        what: Literal["preset", "model"]
        name: str

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="form")
        self._symbols = symbols
        self.workload: dict[str, Any] = {}
        """Workload as it stands now."""
        self._filled_in: Mapping[str, Any] = {}
        self.history = History()
        self._base: dict[str, Any] = {}
        """Workload as the preset has it."""
        self._preset = ""
        self.presets: Sequence[Item] = ()
        """Presets that can be opened."""
        self.models: Sequence[Item] = ()
        """Models of the catalogue."""
        self.faults: dict[str, str] = {}
        """Field that holds something unreadable -> what is wrong with it."""
        self._last: Widget | None = None
        self._lines: list[FieldLine] = []
        self._headings: list[GroupLine] = []
        self._folded = set(spec.FOLDED)

    @property
    def first_field(self) -> Widget:
        """Field of the cursor when the form is entered: the field it was in last, or the preset."""
        return self._last or self.query_one("#field-preset")

    def on_resize(self) -> None:
        """Let the field of the preset end where the others do."""
        self.query_one("#field-preset").styles.width = EDITOR if cells_behind(self.scrollable_content_region.width) else "1fr"

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Remember the field; what is typed from now on is another change."""
        if event.widget is not self._last:
            self.history.close()
        self._last = event.widget

    @property
    def about(self) -> str:
        """Accepted input of the field with the cursor, in words; empty if none has it."""
        focused = self.screen.focused
        if not isinstance(focused, Input) or self not in focused.ancestors:
            return ""
        return self._field_of(focused).about

    def offer(self, presets: Sequence[Item], models: Sequence[Item]) -> None:
        """Set what the two big pickers list."""
        self.presets, self.models = presets, models
        self._fill()

    async def open(self, preset: str, base: Mapping[str, Any], workload: Mapping[str, Any] | None = None) -> None:
        """Show a preset, and forget earlier changes; `workload`: the preset with changes already made."""
        self._preset, self.faults = preset, {}
        self.history.forget()
        self._base = copy.deepcopy(dict(base))
        self.workload = copy.deepcopy(dict(base if workload is None else workload))
        await self._rebuild()

    async def change(self, changes: Mapping[str, Any], words: str = "", *, typed: bool = False) -> None:
        """Set several keys at once, by dotted name (None: take it out): one change. `typed`: part of what is typed in that field."""
        before, changed = self.workload, dict(self.workload)
        for key, value in changes.items():
            changed = values.turned_to(changed, value) if key == "task" else values.put(changed, key, value)
        if changed != before:
            self.faults = {key: fault for key, fault in self.faults.items() if key not in changes}
            await self._show(changed, words or ",".join(changes), typed=typed)

    async def undo(self) -> str:
        """Take the last change back and return it in words; empty if there is none."""
        return await self._step_to(self.history.undo(self.workload))

    async def redo(self) -> str:
        """Make the change again that was taken back last and return it in words; empty if there is none."""
        return await self._step_to(self.history.redo(self.workload))

    async def _step_to(self, workload: dict[str, Any] | None) -> str:
        if workload is None:
            return ""
        change = difference(self.workload, workload)
        self.workload, self.faults = workload, {}
        await self._rebuild()
        self.post_message(self.Changed(self.workload))
        return change

    async def action_reset(self) -> None:
        """Put the field with the cursor back to what the preset has; a value that was refused does not come back by undo."""
        focused = self.screen.focused
        if focused is None or focused.id == "field-preset" or self not in focused.ancestors or isinstance(focused, GroupLine):
            return
        field, before = self._field_of(focused), self.workload
        faulty = self.faults.pop(field.key, None) is not None
        refused = focused.query_ancestor(FieldLine).has_class("-faulty")
        await self.change({field.key: values.get(self._base, field.key)}, typed=refused)
        self.history.close()
        self._fill()
        if faulty and self.workload is before:
            self.post_message(self.Changed(self.workload))

    def action_move(self, by: int) -> None:
        """Go `by` fields on; from the last to the first, as the panes beside the form have keys of their own."""
        fields = [widget for widget in self.screen.focus_chain if self in widget.ancestors]
        if (focused := self.screen.focused) in fields:
            self.screen.set_focus(fields[(fields.index(focused) + by) % len(fields)])  # at once: what is typed next belongs to it

    def filled_in(self, task: Mapping[str, Any]) -> None:
        """Show what the planner chose for the fields left empty."""
        self._filled_in = task
        self._fill()

    def show_problems(self, problems: Sequence[Problem]) -> list[Problem]:
        """Mark the fields at fault; returns the problems that no field shows."""
        elsewhere = []
        shown = {line.field.key: line for line in self._lines}
        faults = {line: self.faults.get(key, "") for key, line in shown.items()}
        for problem in problems:
            key = problem.key.split("[")[0]
            at_fault = shown.get(key) or shown.get(key.rpartition(".")[0])
            if at_fault is None:
                elsewhere.append(problem)
            else:
                hint = f" Did you mean {' or '.join(problem.nearest)}?" if problem.nearest else ""
                faults[at_fault] = with_labels(problem.message) + hint
        for line, fault in faults.items():
            line.mark_fault(fault)
        return elsewhere

    def compose(self) -> ComposeResult:
        """Preset; the fields come with the first workload."""
        with Horizontal(classes="field-line"):
            yield Static("preset", classes="field-label")
            yield Choice("preset", symbols=self._symbols, id="field-preset")

    async def go_to(self, label: str) -> None:
        """Put the cursor into the field of this label, and open its group."""
        key = next(field.key for field in spec.fields_for(self.workload) if field.label == label)
        await self.unfold(key)
        self._focus(field_id(key))

    async def unfold(self, key: str) -> None:
        """Open the group of the field of this key."""
        group = next((field.group for field in spec.fields_for(self.workload) if field.key == key), "")
        if group in self._folded:
            self._folded.remove(group)
            await self._rebuild()

    @on(GroupLine.Folded)
    async def _fold(self, event: GroupLine.Folded) -> None:
        event.stop()
        (self._folded.add if event.folded else self._folded.discard)(event.group)
        hidden = {field.key for field in spec.FIELDS if field.group in self._folded}
        before, self.faults = self.faults, {key: fault for key, fault in self.faults.items() if key not in hidden}
        await self._rebuild()
        self._focus(group_id(event.group))
        if len(self.faults) < len(before):
            self.post_message(self.Changed(self.workload))

    async def _rebuild(self) -> None:
        """Put up the fields of the task, each group below its heading, unless they are there already."""
        fields = spec.fields_for(self.workload)
        wanted = [field for field in fields if field.group not in self._folded]
        headings = [group for group in spec.GROUPS if group and any(field.group == group for field in fields)]
        if ([line.field for line in self._lines], [line.group for line in self._headings]) == (wanted, headings):
            self._fill()
            return
        widget = self.screen.focused
        focused = widget.id if widget is not None and self in widget.ancestors else None
        async with self.batch():
            self._last = None
            await self.query(".of-task").remove()
            self._lines = [FieldLine(field, self._symbols) for field in wanted]
            self._headings = [GroupLine(group, self._symbols) for group in headings]
            self._fill()
            shown: list[Widget] = [line for line in self._lines if not line.field.group]
            for heading in self._headings:
                shown += [heading, *(line for line in self._lines if line.field.group == heading.group)]
            await self.mount_all(shown)
        if focused:
            self._focus(focused)

    def _fill_headings(self, changed: Collection[str]) -> None:
        """Show for each folded group how many of its fields are set."""
        fields = spec.fields_for(self.workload)
        for heading in self._headings:
            keys = [field.key for field in fields if field.group == heading.group]
            given = sum(values.get(self.workload, key) is not None for key in keys)
            heading.show(folded=heading.group in self._folded, given=given, changed=sum(key in changed for key in keys))

    def _focus(self, widget_id: str) -> None:
        try:
            self.query_one(f"#{widget_id}").focus()
        except NoMatches:
            return

    def _fill(self) -> None:
        """Write the workload into the fields without announcing it."""
        if not self.workload:
            return
        self.query_one("#field-preset", Choice).offer(self.presets, self._preset)
        changed = set(changed_keys(self._base, self.workload))
        self._fill_headings(changed)
        for line in self._lines:
            field, value, editor = line.field, values.get(self.workload, line.field.key), line.editor
            line.mark_changed(field.key in changed)
            chosen = values.show(field.kind, values.get(self._filled_in, field.key))
            text = values.show(field.kind, value)
            if isinstance(editor, Choice):
                text = text or (field.choices[0] if field.key in ALWAYS_SET else "")
                editor.offer(self._items(field, text), text, chosen)
                continue
            editor.offer("" if value is not None else field.empty, chosen if value is None and field.empty == CHOSEN else "")
            kept = editor.ahead or field.key in self.faults  # what cannot be read stays beside the words on it
            if not kept and _differs(field, editor.value, value):
                editor.write(text)
            line.mark_fault(self.faults.get(field.key, ""))

    def _items(self, field: Field, current: str) -> Sequence[Item]:
        if field.key == "model":
            known = any(item.value == current for item in self.models)
            return self.models if known or not current else [Item(current, detail="of this preset"), *self.models]
        listed = [Item(name, detail=words) for name, words in zip_longest(field.choices, field.words, fillvalue="")]
        if field.key == "task":
            return listed
        optional = field.key not in ALWAYS_SET
        extra = [Item(current)] if current and current not in field.choices else []
        return [*([Item("", "auto", "choose for me")] if optional else []), *extra, *listed]

    @on(Choice.Changed)
    async def _chosen(self, event: Choice.Changed) -> None:
        event.stop()
        if event.choice.id == "field-preset":
            self.post_message(self.Wanted("preset", event.value))
            return
        field = self._field_of(event.choice)
        if field.key == "model" and event.value:
            self.post_message(self.Wanted("model", event.value))
        else:
            await self._set(field, values.parse(field.kind, event.value))

    @on(Input.Changed)
    async def _typed(self, event: Input.Changed) -> None:
        event.stop()
        field = self._field_of(event.input)
        if isinstance(event.input, FieldInput):
            event.input.hear(event.value)
        if not _differs(field, event.value, values.get(self.workload, field.key)):
            if field.key in self.faults:
                del self.faults[field.key]
                self._fill()
                self.post_message(self.Changed(self.workload))
            return
        try:
            value = field.read(event.value)
        except ValueError as wrong:
            self.faults[field.key] = str(wrong)
            event.input.query_ancestor(FieldLine).mark_fault(str(wrong))
            self.post_message(self.Changed(self.workload))
            return
        self.faults.pop(field.key, None)
        await self._set(field, value, typed=True)

    async def _set(self, field: Field, value: Any, *, typed: bool = False) -> None:
        turned = values.turned_to(self.workload, value) if field.key == "task" else values.put(self.workload, field.key, value)
        await self._show(turned, field.key, typed=typed)

    async def _show(self, workload: dict[str, Any], change: str, *, typed: bool = False) -> None:
        """Show another workload, to which `change` led."""
        self.history.keep(self.workload, change, typed=typed)
        self._say_what_load_means(workload, change)
        self.workload = with_title(workload, self._base)
        await self._rebuild()
        self.post_message(self.Changed(self.workload))

    def _say_what_load_means(self, workload: dict[str, Any], change: str) -> None:
        """Name the load that `change` replaced, and what is taken for granted of people who were not there before."""
        gone = [key for key in LOADS if key in self.workload and key not in workload and change != key]
        first = change == "daily_users" and change not in self.workload and "people" not in workload
        means = f"Taken for granted of the users: {People().words}." if first and change in workload else ""
        if gone:
            without = {key: value for key, value in self.workload.items() if key not in gone}
            words = f"{difference(self.workload, without)}. {means}".rstrip()
            self.notify(words, title="The load was replaced; u restores it", timeout=8 if means else 5)
        elif means:
            self.notify(means, timeout=8)

    def _field_of(self, editor: Widget) -> Field:
        return editor.query_ancestor(FieldLine).field


def _differs(field: Field, text: str, value: Any) -> bool:
    """True if what is typed means another value than the workload's; '8,192' and '8192' are the same."""
    try:
        return bool(field.read(text) != value) and text != values.show(field.kind, value)
    except ValueError:
        return True
