"""Tour of a first start: five steps over the panes, each beside what it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from planner.paths import read_shipped_part
from widgets.base_app import BaseApp
from widgets.screens.overlay import Overlay
from widgets.state import state_files

SEEN = "tour"
"""Choice that says the tour was seen, or left."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the tour."""

    title: str
    pane: str
    """Pane that is in sight during this step."""
    lit: str
    """Widget that is lit."""
    text: str
    """`$` and the name of an action, such as `$find`, stand for its keys."""


STEPS = read_shipped_part(tuple[Step, ...], "steps", "screen", "tour.toml")


def wanted(app: BaseApp) -> bool:
    """True if this is the first start, and nothing else was asked for."""
    new = SEEN not in app.choices and not state_files.load_session(app.options.state)
    return new and app.options.tour and app.options.preset is None and app.options.replay is None


def open_screen(app: BaseApp, then: Callable[[None], None] | None = None) -> None:
    """Begin the tour; `then` is called once it was seen or left."""
    app.push_screen(TourScreen(app), then)


class TourScreen(Overlay[None]):
    """A box at the bottom; keys go on, back, and out, or do what they do elsewhere. It does not come again by itself."""

    DEFAULT_CSS = """
    TourScreen {
        align: center bottom;
        #tour { width: 80; max-width: 100%; margin: 0 0 2 0; }
        &.-above { align: center top; #tour { margin: 3 0 0 0; } }
        ToastRack { dock: top; margin: 3 0 0 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space,right,l,down,j", "step(1)", "next", show=False),
        Binding("left,h,backspace,up,k", "step(-1)", "previous", show=False),
        Binding("escape", "leave", "skip", show=False),
    ]

    def __init__(self, app: BaseApp) -> None:
        super().__init__()
        self._planner, self._step = app, 0
        self._before = app.active_pane

    def compose(self) -> ComposeResult:
        """One text in a box."""
        with Vertical(id="tour", classes="box"):
            yield Static()

    def on_mount(self) -> None:
        """Show the first step; from now on it was seen."""
        self._planner.choices[SEEN] = "seen"
        state_files.save_choices(self._planner.options.state, self._planner.choices)
        self._draw()

    def action_step(self, by: int) -> None:
        """Next step, the one before, or out behind the last."""
        self._step = max(0, self._step + by)
        if self._step >= len(STEPS):
            self.action_leave()
        else:
            self._draw()

    def action_leave(self) -> None:
        """Out, to the pane there was before."""
        self._light("")
        self.dismiss()
        self._planner.show_pane(self._before)

    def on_key(self, event: events.Key) -> None:
        """Leave for what a key of the program does: the tour names many of them."""
        if event.key in self._bindings.key_to_bindings:
            return
        for action in (one for actions in self._planner.ACTION_GROUPS.values() for one in actions if one.scope == "app"):
            if event.key in self._planner.keymap.get(action.id, action.keys).split(","):
                event.stop()
                self.action_leave()
                self._planner.call_later(self._planner.run_action, f"act('{action.id}')")  # not of this screen, which is gone
                return

    def _light(self, lit: str) -> None:
        """Light this widget alone; empty: none."""
        self._planner.main.query(".-lit").remove_class("-lit")
        if lit:
            self._planner.main.query(lit).add_class("-lit")

    def _draw(self) -> None:
        step = STEPS[self._step]
        self._planner.show_pane(step.pane, focus=False)
        self._light(step.lit)
        self.set_class(step.pane == "machine" and not self._planner.single, "-above")
        box = self.query_one("#tour")
        box.border_title = Content(f"{self._step + 1} of {len(STEPS)} · {step.title}")
        last = self._step == len(STEPS) - 1
        box.border_subtitle = Content(f"enter {'ends' if last else 'goes on'} · {'' if last else 'esc skips'}".rstrip(" ·"))
        self.query_one(Static).update(self._text(step.text))

    def _text(self, text: str) -> Content:
        """`text` with the keys of its actions, as the user has them."""
        keys = {state.action.id: state.keys for states in self._planner.action_groups().values() for state in states}
        parts: list[str | tuple[str, str]] = []
        for word in text.split(" "):
            parts += [(keys[word[1:]], "bold $accent") if word[1:] in keys and word[0] == "$" else word, " "]
        return Content.assemble(*parts[:-1])
