"""Actions that go to a pane, zoom one, or back out."""

from __future__ import annotations

from functools import partial

from textual.widgets import Input

from widgets.actions import conditions as need
from widgets.actions.action import Action, Actions
from widgets.actions.narrowing import take_filter
from widgets.base_app import BaseApp

DESCRIPTIONS = {
    "workload": "Go to the workload form.",
    "ranking": "Go to the ranking.",
    "memory": "Go to the memory of the highlighted row.",
    "machine": "Go to this machine.",
    "benchmark": "Go to the benchmark.",
}


ACTIONS = Actions(
    Action(f"pane-{name}", str(number), name, description, partial(BaseApp.show_pane, name=name), (need.open_panes,))
    for number, (name, description) in enumerate(DESCRIPTIONS.items(), start=1)
)


@ACTIONS.key("zoom", "z,plus", "zoom", need.open_panes, label_now=lambda app: "all panes" if app.zoomed else None)
def zoom(app: BaseApp) -> None:
    """Give the whole screen to one pane, or give it back; this machine then shows every figure with its history."""
    app.main.toggle_class("-zoomed")
    app.refresh_keys()


def _back_to(app: BaseApp) -> str | None:
    """The label of `back` where there is something to back out of."""
    return "all rows" if app.filter_text else "all panes" if app.zoomed else None


@ACTIONS.key("back", "escape", "back", need.open_panes, key_text="esc", label_now=_back_to)
def back(app: BaseApp) -> None:
    """Back out one level: filter, zoom, form."""
    words = app.main.query_one("#filter", Input)
    if words.has_focus or app.filter_text:
        words.display = False
        take_filter(app, "")
        app.show_pane("ranking")
    elif app.zoomed:
        zoom(app)
    elif app.active_pane != "ranking":
        app.show_pane("ranking")
