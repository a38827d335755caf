"""Saved state of the screen: form, filter, order, cursor and pane, restored at the next start or by its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from textual.widgets import Input

from planner.errors import UserError
from widgets.background.opened import PlanQuestion, facet_names, load_preset, read_saved
from widgets.base_app import BaseApp
from widgets.panes.frame import PANES
from widgets.state import state_files

if TYPE_CHECKING:
    from planner.present.choice.facets import FacetNames
    from planner.session import Session
    from planner.workload.presets import Preset

MOST_NAME = 50
"""Maximum letters of a preset's name in the name of a session."""


def current_state(app: BaseApp) -> dict[str, Any] | None:
    """Present state of the screen; None before there is a plan."""
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
    """Name and state of a form that differs from its preset, to be saved; None if a session has it already."""
    left = current_state(app) if app.modified else None
    if left is None or app.preset is None:
        return None
    kept = (state_files.load_session(app.options.state, name) for name in state_files.session_names(app.options.state))
    if any(all(one.get(key) == left[key] for key in ("preset", "workload", "filter")) for one in kept):
        return None
    return re.sub(r"[^A-Za-z0-9_.]+", "-", app.preset.name).strip("-.")[:MOST_NAME] + "-modified", left


def save_modified(app: BaseApp, form: tuple[str, dict[str, Any]] | None) -> None:
    """Save the `form` that is about to be replaced as a session, and show how to open it again."""
    if form is not None and state_files.save_session(app.options.state, form[1], form[0]).kept:
        app.notify(f"J restores {form[0]}, also after a restart.", title="The changed form is saved", timeout=6)


def save_screen(app: BaseApp) -> None:
    """Save the screen for the next start; does nothing if the folder cannot be written."""
    if (left := current_state(app)) is not None:
        state_files.save_session(app.options.state, left)


async def restore_last(app: BaseApp) -> bool:
    """Restore the screen of the last start; returns False if there is nothing usable."""
    return await restore(app, state_files.load_session(app.options.state))


async def restore(app: BaseApp, left: Mapping[str, Any]) -> bool:
    """Restore the saved state `left`; returns False without changes if it cannot be used."""
    from planner.present.choice.facets import Facets, read_facets

    state = read_saved(left)
    if state is None:
        return False

    def opened(session: Session) -> tuple[Preset, dict[str, Any], FacetNames | None]:
        return *load_preset(session, state.preset), facet_names(session) if state.filter_text else None

    try:
        preset, stated, names = await app.ask(opened)
        facets = read_facets(state.filter_text, names) if names is not None else Facets()
        where = str(preset.path)
        if not await app.plan_loop.has_first_plan(PlanQuestion(facets.over(state.workload), where, state.basis)):
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
