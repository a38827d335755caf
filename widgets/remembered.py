"""The screen as it was left: form, filter, order, cursor and pane, taken up again at the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from planner.errors import UserError
from widgets import state_files
from widgets.base_app import BaseApp
from widgets.panes.frame import PANES

if TYPE_CHECKING:
    from planner.session import Session


def remember(app: BaseApp) -> None:
    """Write down how the screen is; a folder that cannot be written loses nothing but this."""
    if app.preset is None or app.plan is None or not app.ready:
        return
    origin = app.preset.name if app.preset.origin != "file" else str(app.preset.path)
    left = {
        "preset": origin,
        "workload": dict(app.form.workload),
        "filter": app.filter_text,
        "basis": app.basis,
        "pane": app.active_pane,
        "table": dict(app.table.place),
    }
    state_files.save_session(app.options.state, left)


async def go_on(app: BaseApp) -> bool:
    """Take up what was left at the last start; False where there is nothing that can be used."""
    from planner.present.choice.facets import read_facets
    from widgets.opening import facet_names, load_preset

    left = state_files.load_session(app.options.state)
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
    if isinstance(place, dict):
        app.table.go_back_to(place)
    if names is not None:
        app.filter_text, app.facet_names, app.facets = text, names, read_facets(text, names)
        words = app.main.query_one("#filter", Input)
        with words.prevent(Input.Changed):
            words.value = text
        app.table.narrow(app.facets)
    await app.form.open(app.preset.name, app.preset_fields, workload)
    app.ask_for_plan(workload)
    pane = left.get("pane")
    if pane in PANES and pane != app.active_pane:
        app.show_pane(str(pane))
    return True
