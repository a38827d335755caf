"""Overlay: a box in the middle, the panes dim behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.worker import Worker, WorkerState

Result = TypeVar("Result")
LEAST_SIDES = 12
"""Cells beside a box, of both sides together, below which it takes them as well: less of the panes cannot be read."""
SCROLLS = "j k scroll · "
"""Keys of a text that is longer than its box."""
MOST_HEIGHT, BORDERS = 0.92, 2
"""Share of the screen that a box takes at most (`max-height` below), and lines of its border."""
GAP = 1
"""Cells between a text and its scroll bar."""


class Overlay(ModalScreen[Result]):
    """A modal screen; its look is read when the first one opens, not at the start."""

    AUTO_FOCUS = "*"
    WAITING = "working it out …"
    """Text in the place of lines that are not known yet."""

    DEFAULT_CSS = """
    Overlay {
        align: center middle;
        .box {
            max-width: 100%; height: auto; max-height: 92%;
            border: round $border; border-title-color: $accent; border-subtitle-color: $quiet;
            background: $surface; padding: 0 2; scrollbar-size-vertical: 1;
        }
        .text { height: auto; max-height: 100%; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
        #picker { width: 92; max-height: 80%; padding: 0 1; }
        #picker-filter { border: none; height: 1; background: $panel; margin: 0 0 1 0; }
        #picker-list { text-wrap: nowrap; text-overflow: ellipsis; height: auto; max-height: 24; border: none; background: $surface; padding: 0; scrollbar-size-vertical: 1; }
        OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
            background: $primary 35%; color: $foreground; text-style: bold;
        }
        .dialog { width: 66; padding: 1 2; }
        .dialog-text { margin: 0 0 1 0; }
        .dialog-hint { color: $quiet; }
        .dialog Static { link-style: none; link-color: $foreground; link-background: transparent; }
    }
    """

    @property
    def is_open(self) -> bool:
        """True if there is something to draw on: an answer may come after the user has left."""
        return self.is_mounted and self.is_attached and self.app.is_running and self in self.app.screen_stack

    def renew(self) -> None:
        """Take up what the lists of models, presets and GPUs hold once they are read."""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of a worker of this screen is reported as every other."""
        if event.state is WorkerState.ERROR:
            self.app.post_message(Worker.StateChanged(event.worker, event.state))


class NarrowedList(Overlay[Result]):
    """A screen with a list, and above it a field that narrows it and keeps the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "back", show=False),
        Binding("down", "move(1)", "next", show=False),
        Binding("up", "move(-1)", "previous", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._laid_out_for = 0
        """Width of the screen that the words of the list are laid out for."""
        self._early: list[events.Key] | None = []
        """Keys that came before the field was there; None: it is."""

    def on_mount(self) -> None:
        """Show everything, and type what came before."""
        self._list("")
        early, self._early = self._early or (), None
        for key in early:
            self.keep(key)

    def keep(self, key: events.Key) -> None:
        """Type a key that was sent elsewhere, as this screen was not there yet."""
        if self._early is None:
            self.query_one(Input).post_message(events.Key(key.key, key.character))
        else:
            self._early.append(key)

    def on_resize(self, event: events.Resize) -> None:
        """Lay the words out for the new width; the cursor stays where it is."""
        if event.size.width != self._laid_out_for:
            listing = self.query_one(OptionList)
            at = listing.highlighted
            self._list(self.query_one(Input).value)
            listing.highlighted = at

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def _list(self, words: str) -> None:
        self._laid_out_for = self.app.size.width
        self._narrow(words)

    def _narrow(self, words: str) -> None:
        """List what agrees with `words`."""
        raise NotImplementedError

    def action_move(self, step: int) -> None:
        """Move in the list; `step` above 0: down."""
        listing = self.query_one(OptionList)
        (listing.action_cursor_down if step > 0 else listing.action_cursor_up)()


class ScrolledOverlay(Overlay[None]):
    """A screen with one box that keys scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back", show=False),
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
        Binding("ctrl+d,pagedown,space", "page(1)", "page down", show=False),
        Binding("ctrl+u,pageup", "page(-1)", "page up", show=False),
        Binding("g,home", "end(False)", "top", show=False),
        Binding("G,end", "end(True)", "bottom", show=False),
    ]

    @property
    def scrolled(self) -> Widget:
        """Box that scrolls."""
        return self.query_one(VerticalScroll)

    def action_scroll(self, step: int) -> None:
        """Scroll by a line."""
        self.scrolled.scroll_relative(y=step, animate=False)

    def action_page(self, direction: int) -> None:
        """Scroll by half a page."""
        self.scrolled.scroll_relative(y=direction * max(1, self.scrolled.size.height // 2), animate=False)

    def action_end(self, bottom: bool) -> None:
        """Scroll to the top or the bottom."""
        (self.scrolled.scroll_end if bottom else self.scrolled.scroll_home)(animate=False)


class TextOverlay(ScrolledOverlay):
    """A screen with one scrolling text, drawn for the width there is."""

    WIDTH: int
    """Cells of the box where there is room."""
    LEAST_WIDTH = 40
    """Cells below which lines are not folded any further."""

    def __init__(self, heading: str, hint: str = f"{SCROLLS}esc back") -> None:
        """`heading` stands in the border above, `hint` in the one below, but for keys that scroll where all is in sight."""
        super().__init__()
        self._heading, self._hint = heading, hint

    def compose(self) -> ComposeResult:
        """Text, below what is above it."""
        with Vertical(id="box", classes="box") as box:
            box.styles.width = self.WIDTH
            box.border_title = Content(self._heading)
            yield from self.above()
            yield from self.body()

    def body(self) -> ComposeResult:
        """Widget that scrolls."""
        with VerticalScroll(id="text", classes="text"):
            yield Static(Content.styled(self.WAITING, "$quiet"))

    @property
    def most_lines(self) -> int:
        """Lines that are in sight at once where the text fills its box."""
        return int(self.app.size.height * MOST_HEIGHT) - BORDERS

    def above(self) -> Iterable[Widget]:
        """Widgets that stay above the text while it scrolls."""
        return ()

    def lines(self, width: int) -> Iterable[Content]:
        """Text in lines of at most `width` cells; none: it is not known yet."""
        raise NotImplementedError

    def entitle(self, heading: str, hint: str) -> None:
        """Change what stands in the border above and below."""
        self.query_one("#box").border_title, self._hint = Content(heading), hint
        self._say_keys()

    def on_mount(self) -> None:
        """Name the keys that scroll as long as there is something to scroll."""
        self.watch(self.scrolled, "show_vertical_scrollbar", self._say_keys)

    def _say_keys(self) -> None:
        hint = self._hint if self.scrolled.show_vertical_scrollbar else self._hint.replace(SCROLLS, "")
        self.query_one("#box").border_subtitle = Content(hint)

    def on_resize(self, event: events.Resize) -> None:
        """Fold for the new width, all of it where little would be left at the sides."""
        for box in self.query("#box"):
            box.styles.width = self.WIDTH if event.size.width - self.WIDTH >= LEAST_SIDES else "100%"
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw what is known by now."""
        if not self.is_open:
            return
        width = self.scrolled.scrollable_content_region.width - GAP
        if width > 0 and (lines := list(self.lines(max(self.LEAST_WIDTH, width)))):
            self.query_one("#text Static", Static).update(Content("\n").join(lines))
