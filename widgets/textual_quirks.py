"""Faults of Textual, each worked round here alone, but for those of its driver (`widgets.background.terminal`); checked against 8.2.8.

- `dismiss` of a screen that is dismissed already takes the next one off, or fails where there is none (as in #2575, #4884): keys and
  clicks typed ahead of a palette that closes. The palette then runs its command twice.
- A screen that was opened as the program is left is mounted without its widgets, and what looks for them fails; so does the search of a
  palette that was closed by a click while a key for it was on its way.
- A palette that is opened while the one before it is still being removed has its id, and fails.
- A page up or down in a list that has not been laid out, or whose lines are gone, fails on a line that is not there.
- A timer for one time never fires where the processor is taken away as it starts: the app then waits for ever to take up a new size.
- Behind a screen of an ANSI theme nothing is dimmed: its colours cannot be blended, so it is either blank or as bright as what is on top.
- The words of the highlighted line of a list keep their colours, which cannot be read on the bar of an ANSI theme; nor is it reversed.
- A theme set before the first paint has every style sheet read once more.
- A fault exits with 1 and shows the local variables of every frame.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ScreenStackError
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import OptionList
from textual.worker import WorkerFailed

from widgets.background.terminal import PromptDriver, leave_from_thread
from widgets.drawing.restyling import is_styled

CRASHED = 70
"""Exit code after a fault of the program itself (EX_SOFTWARE of sysexits.h)."""
GONE = (WorkerFailed, NoMatches, ScreenStackError)
"""Errors of looking for widgets and screens that are gone."""
LEAVING = (*GONE, IndexError)
"""Those of a program that leaves: the palette that opens just then looks for the screen below it by its place."""


class MendedApp(App[None]):
    """An app that leaves when it is told to from outside, and whose fault is kept for whoever ran it."""

    fault: Exception | None = None
    """Error that ended the program; None: none did."""
    key_unanswered = False
    """True if nothing was drawn since the last key."""
    leave_from_thread = leave_from_thread

    async def on_event(self, event: events.Event) -> None:
        """Handle an event; what a key changes is drawn at once (`widgets.drawing.updates`)."""
        if isinstance(event, events.Key):
            self.key_unanswered = True
        await super().on_event(event)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, on Unix with an input and an output that end when the terminal does."""
        driver = super().get_driver_class()
        return driver if driver is not LinuxDriver else PromptDriver

    def begin_with_theme(self, name: str) -> None:
        """Take the theme of this name before there is a screen: what Textual does at a change of themes, but for reading the styles again."""
        self.set_reactive(App.theme, name)
        dark = self.current_theme.dark
        self.update_classes({f"-theme-{name}": True, "-dark-mode": dark, "-light-mode": not dark}, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def update_styles(self, node: DOMNode, animate: bool = True) -> None:
        """Style `node` anew, where its styles are looked at (`widgets.drawing.restyling`)."""
        if node is self or is_styled(node):
            super().update_styles(node, animate=animate)

    def set_timer(self, *given: Any, **named: Any) -> Timer:
        """Call back once, however late."""
        timer = super().set_timer(*given, **named)
        timer._skip = False
        return timer

    def action_command_palette(self) -> None:
        """Open the palette, unless one is open or still being closed."""
        if not any(isinstance(one, CommandPalette) for one in self._nodes):
            super().action_command_palette()

    def _handle_exception(self, error: Exception) -> None:
        if (isinstance(error, LEAVING) and self._exit) or self._of_closed_screen(error):
            return
        self.fault = self.fault or error
        super()._handle_exception(error)
        self._return_code = CRASHED

    def _of_closed_screen(self, error: Exception) -> bool:
        """True if it was raised by a screen that is not open any more."""
        raised = error.error if isinstance(error, WorkerFailed) else error
        if not isinstance(raised, GONE):
            return False
        nodes = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(raised.__traceback__))
        return any(isinstance(node, Screen) and node not in self.screen_stack for node in nodes)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()


_dismiss, _move_page, _option_line = Screen.dismiss, OptionList._move_page, OptionList.render_line
_blended = BackgroundScreen.process_segments
FAINT = Style(dim=True, bold=False, reverse=False)
"""Style of the screen behind one whose ground is transparent: what is reversed is as bright as before however dim it is."""
BLOCKS = "[▀-▟■≡]"
GREY = Style(color="bright_black")
"""Colour of bars there: terminals dim letters, and many draw blocks as bright as before."""


def _dismiss_once(screen: Screen[Any], result: Any = None) -> AwaitComplete:
    """Dismiss a screen that is on top; one that was dismissed before stays so."""
    stack = screen.app.screen_stack
    if len(stack) > 1 and stack[-1] is screen:
        return _dismiss(screen, result)
    if isinstance(screen, CommandPalette):
        screen._selected_command = SimpleNamespace(command=lambda: None)  # type: ignore[assignment]  # it has run
    return AwaitComplete()


def _move_page_of_lines(listing: OptionList, direction: Any) -> None:
    if listing._lines and (listing.highlighted or 0) in listing._index_to_line:
        _move_page(listing, direction)


def _option_line_on_bar(listing: OptionList, y: int) -> Strip:
    """A line of a list; the highlighted one of an ANSI theme in the colours of its bar alone."""
    strip, number = _option_line(listing, y), listing.scroll_offset.y + y
    if not listing.app.native_ansi_color or number >= len(listing._lines) or listing._lines[number][0] != listing.highlighted:
        return strip
    bar = listing.get_component_rich_style("option-list--option-highlighted")
    return Strip(
        [Segment(text, bar + Style.from_meta(style.meta) if style else bar, control) for text, style, control in strip],
        strip.cell_length,
    )


def _behind(segments: Iterable[Segment], color: Color) -> Iterator[Segment]:
    """The screen behind another: blended with the ground of that, or dimmed by the terminal where the ground is transparent."""
    blended = _blended(segments, color)
    if color.a:
        yield from blended
        return
    for text, style, control in blended:
        faint = (style or FAINT) + FAINT
        yield Segment(text, style if control else faint + GREY if re.search(BLOCKS, text) else faint, control)


Screen.dismiss = _dismiss_once  # type: ignore[assignment, method-assign]  # replaced on purpose
OptionList.render_line = _option_line_on_bar  # type: ignore[assignment, method-assign]  # replaced on purpose
OptionList._move_page = _move_page_of_lines  # type: ignore[assignment, method-assign]  # replaced on purpose
BackgroundScreen.process_segments = staticmethod(_behind)  # type: ignore[method-assign]  # replaced on purpose
