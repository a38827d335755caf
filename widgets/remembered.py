"""The screen as it was left: form, filter, order, cursor and pane, taken up again at the next start or by its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from planner.errors import UserError
from widgets import state_files
from widgets.background.opened import PlanQuestion, facet_names, load_preset, read_left
from widgets.base_app import BaseApp
from widgets.panes.frame import PANES

if TYPE_CHECKING:
    from planner.present.choice.facets import FacetNames
    from planner.session import Session
    from planner.workload.presets import Preset

MOST_NAME = 50
"""Letters of a preset's name in the name of a session made of it."""


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


def modified_form(app: BaseApp) -> tuple[str, dict[str, Any]] | None:
    """A form that differs from its preset, with the name it would be kept under; None if no session lacks it."""
    left = as_left(app) if app.modified else None
    if left is None or app.preset is None:
        return None
    kept = (state_files.load_session(app.options.state, name) for name in state_files.session_names(app.options.state))
    if any(all(one.get(key) == left[key] for key in ("preset", "workload", "filter")) for one in kept):
        return None
    return re.sub(r"[^A-Za-z0-9_.]+", "-", app.preset.name).strip("-.")[:MOST_NAME] + "-modified", left


def keep_modified(app: BaseApp, form: tuple[str, dict[str, Any]] | None) -> None:
    """Keep the `form` that is about to be replaced as a session, and show how to open it again."""
    if form is not None and state_files.save_session(app.options.state, form[1], form[0]).kept:
        app.notify(f"J restores {form[0]}, also after a restart.", title="The changed form is saved", timeout=6)


def remember(app: BaseApp) -> None:
    """Save the screen for the next start; does nothing where the folder cannot be written."""
    if (left := as_left(app)) is not None:
        state_files.save_session(app.options.state, left)


async def go_on(app: BaseApp) -> bool:
    """Take up what was left at the last start; False if there is nothing that can be used."""
    return await take_up(app, state_files.load_session(app.options.state))


async def take_up(app: BaseApp, left: Mapping[str, Any]) -> bool:
    """Show the screen as it was `left`; False, and nothing changes, where that cannot be used."""
    from planner.present.choice.facets import Facets, read_facets

    state = read_left(left)
    if state is None:
        return False

    def opened(session: Session) -> tuple[Preset, dict[str, Any], FacetNames | None]:
        return *load_preset(session, state.preset), facet_names(session) if state.filter_text else None

    try:
        preset, stated, names = await app.ask(opened)
        facets = read_facets(state.filter_text, names) if names is not None else Facets()
        where = str(preset.path)
        if not await app.plan_loop.foretells(PlanQuestion(facets.over(state.workload), where, state.basis)):
            await app.ask(lambda session: session.workload(state.workload, where))
    except UserError:
        return False
    app.preset, app.preset_fields, app.basis = preset, stated, state.basis
    place = left.get("table")
    app.table.start_anew()
    if isinstance(place, dict):
        with contextlib.suppress(TypeError, ValueError):  # a file that somebody edited
            app.table.go_back_to(place)
    if names is not None:
        app.facet_names = names
    if state.filter_text != app.filter_text:
        app.filter_text, app.facets = state.filter_text, facets
        words = app.main.query_one("#filter", Input)
        with words.prevent(Input.Changed):
            words.value = state.filter_text
        app.table.narrow(app.facets)
    app.trial = None
    app.plan_loop.forget()
    await app.form.open(preset.name, stated, state.workload)
    app.ask_for_plan(state.workload)
    pane = left.get("pane")
    if pane in PANES and pane != app.active_pane:
        app.show_pane(str(pane))
    return True
