"""Actions that go to a pane, zoom one, or back out."""

from __future__ import annotations

from functools import partial

from textual.widgets import Input

from widgets.actions import conditions as need
from widgets.actions.action import Action
from widgets.actions.narrowing import clear_filter
from widgets.base_app import BaseApp

DESCRIPTIONS = {
    "workload": "Go to the workload form.",
    "ranking": "Go to the ranking.",
    "memory": "Go to the memory of the highlighted row.",
    "machine": "Go to this machine.",
    "benchmark": "Go to the benchmark.",
}


def show(name: str, app: BaseApp) -> None:
    """Go to the pane of this name."""
    app.show_pane(name)


def zoom(app: BaseApp) -> None:
    """Show one pane, or all of them."""
    app.main.toggle_class("-zoomed")
    app.refresh_keys()


def back(app: BaseApp) -> None:
    """Back out one level: the filter, then the zoom, then the form or another pane."""
    words = app.main.query_one("#filter", Input)
    if words.has_focus or app.filter_text:
        with words.prevent(Input.Changed):
            words.value = ""
        words.display = False
        clear_filter(app)
        app.show_pane("ranking")
    elif app.zoomed:
        zoom(app)
    elif app.active_pane != "ranking":
        app.show_pane("ranking")


ACTIONS = (
    *(
        Action(
            id=f"pane-{name}",
            keys=str(number),
            label=name,
            description=description,
            run=partial(show, name),
            needs=(need.open_panes,),
        )
        for number, (name, description) in enumerate(DESCRIPTIONS.items(), start=1)
    ),
    Action(
        id="zoom",
        keys="z,plus",
        label="zoom",
        label_now=lambda app: "all panes" if app.zoomed else None,
        description="Give the whole screen to one pane, or give it back; this machine then shows every figure with its history.",
        run=zoom,
        needs=(need.open_panes,),
    ),
    Action(
        id="back",
        keys="escape",
        key_text="esc",
        label="back",
        label_now=lambda app: "all rows" if app.filter_text else "all panes" if app.zoomed else None,
        description="Back out one level: filter, zoom, form.",
        run=back,
        needs=(need.open_panes,),
    ),
)
