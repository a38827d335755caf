"""What lies over the panes: a box in the middle, the panes dim behind it."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.worker import Worker, WorkerState

Result = TypeVar("Result")


class Overlay(ModalScreen[Result]):
    """A modal screen; its look is read when the first one opens, not at the start."""

    AUTO_FOCUS = "*"

    DEFAULT_CSS = """
    Overlay {
        align: center middle;
        background: $background 60%;
        .box {
            max-width: 96%; height: auto; max-height: 92%;
            border: round $border; border-title-color: $accent; border-subtitle-color: $quiet;
            background: $surface; padding: 0 2; scrollbar-size-vertical: 1;
        }
        #picker { width: 92; max-height: 80%; padding: 0 1; }
        #picker-filter { border: none; height: 1; background: $panel; margin: 0 0 1 0; }
        #picker-list { height: auto; max-height: 24; border: none; background: $surface; padding: 0; scrollbar-size-vertical: 1; }
        .dialog { width: 66; padding: 1 2; }
        .dialog-text { margin: 0 0 1 0; }
        .dialog-hint { color: $quiet; }
        .dialog Static { link-style: none; link-color: $foreground; link-background: transparent; }
        #why, #help { width: 112; }
        #items { width: 176; }
        #advice { width: 132; scrollbar-gutter: stable; }
        #items-stack { height: 1; margin: 0 0 1 0; }
        #items-text { height: auto; max-height: 100%; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    }
    """

    @property
    def is_open(self) -> bool:
        """Whether there is something to draw on: what was asked for may be answered after the user has left."""
        return self.is_mounted and self.is_attached and self.app.is_running and self in self.app.screen_stack

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of a worker of this screen is said where every other is."""
        if event.state is WorkerState.ERROR:
            self.app.post_message(Worker.StateChanged(event.worker, event.state))


class ScrolledOverlay(Overlay[None]):
    """One text that keys scroll; `SCROLLED` is the selector of its box."""

    SCROLLED: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", "down", show=False),
        Binding("k,up", "scroll(-1)", "up", show=False),
        Binding("ctrl+d,pagedown,space", "page(1)", "page down", show=False),
        Binding("ctrl+u,pageup", "page(-1)", "page up", show=False),
        Binding("g,home", "end(False)", "top", show=False),
        Binding("G,end", "end(True)", "bottom", show=False),
    ]

    @property
    def scrolled(self) -> VerticalScroll:
        """The box that scrolls."""
        return self.query_one(self.SCROLLED, VerticalScroll)

    def action_scroll(self, step: int) -> None:
        """Scroll by a line."""
        self.scrolled.scroll_relative(y=step, animate=False)

    def action_page(self, direction: int) -> None:
        """Scroll by half a page."""
        self.scrolled.scroll_relative(y=direction * max(1, self.scrolled.size.height // 2), animate=False)

    def action_end(self, bottom: bool) -> None:
        """Scroll to the top or the bottom."""
        (self.scrolled.scroll_end if bottom else self.scrolled.scroll_home)(animate=False)
