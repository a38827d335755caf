"""Bottom line: the keys that matter now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from widgets.actions.action import Action, ActionState
from widgets.actions.conditions import NO_PLAN
from widgets.drawing.text import shorten_end
from widgets.panes.clickable import Clickable

RIGHT = ("palette", "help", "quit")
"""Actions at the right end."""
TYPING = ("form-next", "form-previous", "back")
"""Actions whose keys a text field leaves alone; plain keys are text there."""
NOTED = ("form-next", "back")
"""Ones that stay beside a note on the field; in a narrow line the last one alone."""
CHOOSING = ("choice-open", "choice-previous", "choice-next", "form-next", "form-reset", "back")
"""Actions on a field that holds one of several values."""
FOLDING = ("group-turn", "group-fold", "group-open", "form-next", "back")
"""Actions on the heading of a group of fields."""
OF_PANE = {
    "memory-view": ("memory", "change", "time", "zoom", "find"),
    "machine-view": ("zoom", "processes", "running", "rightsize", "pause", "longer", "shorter", "benchmark", "find"),
    "points": ("stop", "benchmark", "suite", "rightsize", "zoom", "find"),
}
"""Widget that has the cursor -> its actions, most wanted first; elsewhere those of the ranking."""
GAP = 3
"""Cells behind a key and its label."""
LEAST_NOTE = 24
"""Cells below which a note is not begun."""
ROOMY = 100
"""Cells below which the keys beside a note on a field are fewer."""


class KeyLine(Clickable):
    """Keys of actions that can run now, by rank; actions that need the first plan are dim until then."""

    def __init__(
        self,
        actions: Iterable[Action],
        state_of: Callable[[Action], ActionState],
        note_of: Callable[[], str],
        narrowed: Callable[[], bool],
    ) -> None:
        """`note_of`: what may be typed in the field that has the cursor; `narrowed`: whether there is more than is shown."""
        super().__init__(id="key-line")
        self._by_id = {action.id: action for action in actions}
        ranked = sorted((action for action in self._by_id.values() if action.rank), key=lambda action: action.rank)
        self._ranked = [action.id for action in ranked if action.id not in RIGHT]
        self._state_of, self._note_of, self._narrowed = state_of, note_of, narrowed
        self._shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw every action as it stands now, unless that is what is there."""
        room = self.content_size.width
        focused = self.screen.focused
        note = self._note_of() if isinstance(focused, Input) else ""
        if self.app.screen is self.screen:
            wanted = self._wanted(focused, roomy=room >= ROOMY, noted=bool(note))
            left, right = ([self._state_of(self._by_id[name]) for name in names] for names in (wanted, RIGHT))
        else:  # under a box, whose other keys are named on its border
            left, right, note = [self._state_of(self._by_id["back"])._replace(label=self._by_id["back"].label)], [], ""
        if not room or self._shown == (room, note, left, right):
            return
        self._shown = (room, note, left, right)
        space = room - sum(map(_width, right))
        kept: list[ActionState] = []
        for state in left:
            if state.reason not in {None, NO_PLAN}:
                continue
            if _width(state) <= space + GAP - 1:
                kept.append(state)
                space -= _width(state)
        self._stretches = []
        cell = 0
        for shown, gap in ((kept, space), (right, 0)):
            for state in shown:
                self._stretches.append((cell, cell + _width(state) - GAP, state.action.id))
                cell += _width(state)
            cell += gap
        between = _whole_parts(note, space - GAP).ljust(space) if space > LEAST_NOTE else " " * max(0, space)
        self.update(
            Content("").join([*map(_key, kept), Content.styled(between, "italic $foreground"), *map(_key, right)]), layout=False
        )

    def _wanted(self, focused: Widget | None, *, roomy: bool, noted: bool) -> Sequence[str]:
        """Ids of the actions to name where the cursor is."""
        in_form = focused is not None and isinstance(focused.parent, Widget) and "field-line" in focused.parent.classes
        if isinstance(focused, Input):
            return (NOTED if roomy and in_form else NOTED[-1:]) if noted or not in_form else TYPING
        if in_form:
            return CHOOSING
        if focused is not None and focused.has_class("group-line"):
            return FOLDING
        of_pane = OF_PANE.get(focused.id or "") if focused is not None else None
        return of_pane or (["back", *self._ranked] if self._narrowed() else self._ranked)


def _whole_parts(note: str, room: int) -> str:
    """As many of the parts of `note` as there is room for; a first one that is too long is cut."""
    parts = note.split("; ")
    while len(parts) > 1 and len("; ".join(parts)) > room:
        parts.pop()
    return shorten_end("; ".join(parts), room)


def _width(state: ActionState) -> int:
    return len(state.keys) + 1 + len(state.label) + GAP


def _key(state: ActionState) -> Content:
    key, label = ("bold $accent", "") if state.reason is None else ("$quiet 55%", "$quiet 55%")
    return Content.assemble((state.keys, key), " ", (state.label, label), " " * GAP)
