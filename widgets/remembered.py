"""The screen as it was left: form, filter, order, cursor and pane, taken up again at the next start or by its name."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from planner.errors import UserError
from widgets import state_files
from widgets.base_app import BaseApp
from widgets.panes.frame import PANES

if TYPE_CHECKING:
    from planner.session import Session


def as_left(app: BaseApp) -> dict[str, Any] | None:
    """The screen as it is; None before there is a plan."""
    if app.preset is None or app.plan is None or not app.ready:
        return None
    origin = app.preset.name if app.preset.origin != "file" else str(app.preset.path)
    return {
        "preset": origin,
        "workload": dict(app.form.workload),
        "filter": app.filter_text,
        "basis": app.basis,
        "pane": app.active_pane,
        "table": dict(app.table.place),
    }


def remember(app: BaseApp) -> None:
    """Write down how the screen is; a folder that cannot be written loses nothing but this."""
    if (left := as_left(app)) is not None:
        state_files.save_session(app.options.state, left)


async def go_on(app: BaseApp) -> bool:
    """Take up what was left at the last start; False where there is nothing that can be used."""
    return await take_up(app, state_files.load_session(app.options.state))


async def take_up(app: BaseApp, left: Mapping[str, Any]) -> bool:
    """Show the screen as it was `left`; False, and nothing changes, where that cannot be used."""
    from planner.present.choice.facets import Facets, read_facets
    from widgets.opening import facet_names, load_preset

    name, workload, text = left.get("preset"), left.get("workload"), str(left.get("filter") or "")
    if not isinstance(name, str) or not isinstance(workload, dict):
        return False

    def usable(session: Session) -> Any:
        preset, stated = load_preset(session, name)
        session.workload(workload, str(preset.path))
        return preset, stated, facet_names(session) if text else None

    try:
        app.preset, app.preset_fields, names = await app.ask(usable)
    except UserError:
        return False
    app.basis = "spec" if left.get("basis") == "spec" else "measured"
    place = left.get("table")
    app.table.start_anew()
    if isinstance(place, dict):
        with contextlib.suppress(TypeError, ValueError):  # a file that somebody edited
            app.table.go_back_to(place)
    if names is not None:
        app.facet_names = names
    if text != app.filter_text:
        app.filter_text, app.facets = text, read_facets(text, names) if names is not None else Facets()
        words = app.main.query_one("#filter", Input)
        with words.prevent(Input.Changed):
            words.value = text
        app.table.narrow(app.facets)
    app.trial = None
    app.plan_loop.forget()
    await app.form.open(app.preset.name, app.preset_fields, workload)
    app.ask_for_plan(workload)
    pane = left.get("pane")
    if pane in PANES and pane != app.active_pane:
        app.show_pane(str(pane))
    return True
