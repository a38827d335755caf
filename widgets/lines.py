"""The one-line widgets: headline, tabs and key line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Input, Static

from .actions import BY_ID, PANES, Action, key_line
from .formatting import shorten_end
from .symbols import UNICODE, Symbols

RIGHT_KEYS = ("help", "quit")
"""Actions of the key line that stand at its right end."""


TYPING_KEYS = tuple(BY_ID[name] for name in ("form-next", "form-previous", "back"))
"""In a text field plain keys are text; these are not."""


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
        self.update(Content.assemble((head, "bold $accent"), "  ", (rest, "$foreground"), " " * max(1, gap), (right, "$quiet")))


def _fit_parts(parts: Sequence[str], room: int) -> str:
    """As many whole parts as there is room for; a first one that is too long is cut."""
    for kept in range(len(parts), 0, -1):
        text = " · ".join(parts[:kept])
        if len(text) <= room:
            return text
    return shorten_end(parts[0], max(0, room)) if parts else ""


class Tabs(Static):
    """The panes by number, for screens that show one at a time."""

    def __init__(self) -> None:
        super().__init__(id="tabs")

    def show(self, active: str, note: str = "") -> None:
        """Mark the active pane; `note` stands behind the benchmark."""
        parts: list[Content] = []
        for number, pane in enumerate(PANES, start=1):
            label = pane.upper() if pane == active else pane.capitalize()
            suffix = f" {note}" if pane == "benchmark" and note else ""
            style = "bold reverse" if pane == active else "$quiet"
            text = Content.assemble((f" {number} {label}{suffix} ", style))
            parts.append(
                Content.from_markup("[@click=app.act('pane-" + pane + "')]$text[/]", text=text) if pane != active else text
            )
        self.update(Content(" ").join(parts))


@dataclass(frozen=True, slots=True)
class KeyState:
    """An action as the key line shows it now."""

    action: Action
    key: str
    label: str
    available: bool


class KeyLine(Static):
    """The keys that matter now, by priority; what cannot be done now is dim."""

    def __init__(self, *, state_of: Callable[[Action], KeyState], symbols: Symbols = UNICODE) -> None:
        super().__init__(id="key-line")
        self._state_of = state_of
        self._symbols = symbols
        self._shown: tuple[int, tuple[KeyState, ...]] = (0, ())

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
        wanted = TYPING_KEYS if typing else [action for action in key_line() if action.id not in RIGHT_KEYS]
        left = [self._state_of(action) for action in wanted]
        if not room or self._shown == (room, (*left, *right)):
            return
        self._shown = (room, (*left, *right))
        right_width = sum(_width(state) for state in right) + len("^p palette") + 3
        kept: list[KeyState] = []
        used = 0
        for state in left:
            if used + _width(state) + right_width > room:
                break
            kept.append(state)
            used += _width(state)
        palette = Content.from_markup("[@click=app.command_palette][bold $accent]^p[/] [$quiet]palette[/][/]   ")
        line = Content("").join(
            [
                *(_key(state) for state in kept),
                Content(" " * max(1, room - used - right_width)),
                palette,
                *(_key(state) for state in right),
            ]
        )
        self.update(line)


def _width(state: KeyState) -> int:
    return len(state.key) + 1 + len(state.label) + 3


def _key(state: KeyState) -> Content:
    styles = ("bold $accent", "$foreground") if state.available else ("$quiet 60%", "$quiet 60%")
    return Content.from_markup(
        "[@click=app.act('" + state.action.id + f"')][{styles[0]}]$key[/] [{styles[1]}]$label[/][/]   ",
        key=state.key,
        label=state.label,
    )
