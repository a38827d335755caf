"""The one-line widgets: headline, tabs and key line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from widgets.actions.registry import BY_ID, PANES, Action, key_line
from widgets.drawing.formatting import shorten_end

RIGHT_KEYS = ("help", "quit")
"""Actions of the key line that stand at its right end."""


TYPING_KEYS = tuple(BY_ID[name] for name in ("form-next", "form-previous", "back"))
"""In a text field plain keys are text; these are not."""
NOTED_KEYS = (TYPING_KEYS[0], TYPING_KEYS[-1])
"""Those that are named beside what is said of the field, the last one always."""


class Headline(Static):
    """What is planned, the age of the prices, and whether this machine was measured; parts go from the right of each side."""

    def __init__(self) -> None:
        super().__init__(id="headline")
        self._left: Sequence[str] = ()
        self._right: Sequence[str] = ()

    def show(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Set the parts of both sides, most telling first."""
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        room = self.content_size.width
        if not room or not self._left:
            return
        right = "   ".join(self._right)
        for kept in range(len(self._right), -1, -1):
            right = "   ".join(self._right[:kept])
            if len(right) + 3 + len("  ·  ".join(self._left)) <= room:
                break
        rest = " · ".join(self._left[1:])
        head = self._left[0]
        space = room - len(head) - len(right) - 3
        rest = _fit_parts(self._left[1:], space)
        gap = room - len(head) - 2 - len(rest) - len(right)
        self.update(
            Content.assemble((head, "bold $accent"), "  ", (rest, "$foreground"), " " * max(1, gap), (right, "$quiet")),
            layout=False,
        )


def _fit_parts(parts: Sequence[str], room: int) -> str:
    """As many whole parts as there is room for; a first one that is too long is cut."""
    for kept in range(len(parts), 0, -1):
        text = " · ".join(parts[:kept])
        if len(text) <= room:
            return text
    return shorten_end(parts[0], max(0, room)) if parts else ""


class Clickable(Static):
    """A line of which stretches do what an action does."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self._stretches: list[tuple[int, int, str]] = []
        """First cell, cell after the last, action id."""

    def on_click(self, event: events.Click) -> None:
        """Do what stands under the pointer."""
        x = event.x - self.styles.padding.left
        action = next((name for first, end, name in self._stretches if first <= x < end), None)
        if action is not None:
            self.post_message(self.Chosen(action))

    @dataclass
    class Chosen(Message):
        """An action was clicked."""

        action: str


class Tabs(Clickable):
    """The panes by number, for screens that show one at a time."""

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self._told = "", ""

    def show(self, active: str, note: str = "") -> None:
        """Mark the active pane; `note` stands behind the benchmark."""
        self._told = active, note
        self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        active, note = self._told
        if not active:
            return
        labels = [
            f"{number} {pane.upper() if pane == active else pane.capitalize()}{f' {note}' if pane == 'benchmark' and note else ''}"
            for number, pane in enumerate(PANES, start=1)
        ]
        room = self.content_size.width
        margin = " " if sum(len(label) + 3 for label in labels) - 1 <= room else ""
        parts: list[Content] = []
        self._stretches = []
        cell = 0
        for pane, label in zip(PANES, labels, strict=True):
            text = f"{margin}{label}{margin}"
            parts.append(Content.assemble((text, "bold reverse" if pane == active else "$quiet")))
            self._stretches.append((cell, cell + len(text), f"pane-{pane}"))
            cell += len(text) + 1
        self.update(Content(" ").join(parts), layout=False)


@dataclass(frozen=True, slots=True)
class KeyState:
    """An action as the key line shows it now."""

    action: Action
    key: str
    label: str
    available: bool


class KeyLine(Clickable):
    """The keys that matter now, by priority; what cannot be done now is dim."""

    def __init__(self, *, state_of: Callable[[Action], KeyState], note_of: Callable[[], str] = str) -> None:
        super().__init__(id="key-line")
        self._state_of, self._note_of = state_of, note_of
        """What an action is now; what is said of the field that is typed in, where there is room."""
        self._shown: tuple[int, str, tuple[KeyState, ...]] = (0, "", ())

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self.draw()

    def draw(self) -> None:
        """Ask for the state of every action again."""
        room = self.content_size.width
        right = [self._state_of(BY_ID[name]) for name in RIGHT_KEYS]
        typing = isinstance(self.screen.focused, Input)
        note = self._note_of() if typing else ""
        typing_keys = TYPING_KEYS if not note else NOTED_KEYS if room >= ROOMY else NOTED_KEYS[-1:]
        wanted = typing_keys if typing else [action for action in key_line() if action.id not in RIGHT_KEYS]
        left = [self._state_of(action) for action in wanted]
        if not room or self._shown == (room, note, (*left, *right)):
            return
        self._shown = (room, note, (*left, *right))
        right = [PALETTE, *right]
        space = room - sum(_width(state) for state in right)
        kept: list[KeyState] = []
        for state in left:
            if not state.available and room < ROOMY:
                continue
            if _width(state) > space + GAP - 1:
                break
            kept.append(state)
            space -= _width(state)
        self._stretches = []
        cell = 0
        for shown, gap in ((kept, space), (right, 0)):
            for state in shown:
                name = "palette" if state is PALETTE else state.action.id
                self._stretches.append((cell, cell + _width(state) - GAP, name))
                cell += _width(state)
            cell += gap
        between = shorten_end(note, space - GAP).ljust(space) if space > LEAST_NOTE else " " * max(0, space)
        self.update(
            Content("").join([*map(_key, kept), Content.styled(between, "italic $foreground"), *map(_key, right)]), layout=False
        )


GAP = 3
"""Cells behind a key and its label."""
LEAST_NOTE = 24
"""Cells below which a note is not begun."""
ROOMY = 100
"""Cells below which only what can be done now is named."""
PALETTE = KeyState(BY_ID["help"], "^p", "palette", available=True)


def _width(state: KeyState) -> int:
    return len(state.key) + 1 + len(state.label) + GAP


def _key(state: KeyState) -> Content:
    key, label = ("bold $accent", "") if state.available else ("$quiet 55%", "$quiet 55%")
    return Content.assemble((state.key, key), " ", (state.label, label), "   ")
