"""Actions on sessions: keep the screen as it is under a name, and take it up again."""

from __future__ import annotations

import re
from functools import partial

from planner.present.names import model_name
from widgets.actions import conditions as need
from widgets.actions.action import Actions
from widgets.base_app import BaseApp
from widgets.start import start_afresh
from widgets.state import state_files
from widgets.state.saved_screen import current_state, modified_form, restore, save_modified

ACTIONS = Actions()
MOST_NAMED = 6
"""Names of sessions that are listed before another one is kept."""


def a_session(app: BaseApp) -> str | None:
    """A session was kept."""
    return None if state_files.session_names(app.options.state) else "There are no saved sessions; K saves this one."


@ACTIONS.key("keep-session", "K", "keep session", need.a_plan)
def keep(app: BaseApp) -> None:
    """Keep this session under a name: form, filter, order and cursor."""
    from widgets.screens.dialogs import NameScreen

    suggested = app.preset.name if app.preset else "my-session"
    kept = state_files.session_names(app.options.state)
    named = f"; saved sessions: {', '.join(kept[:MOST_NAMED])}{', …' * (len(kept) > MOST_NAMED)}" if kept else ""
    hint = f"Form, filter, order and cursor; a session of the same name is replaced{named}."
    app.push_screen(NameScreen("Keep this session", suggested, hint), partial(_keep, app))


def _keep(app: BaseApp, name: str | None) -> None:
    left = current_state(app)
    if name is None or left is None:
        return
    if not re.fullmatch(state_files.SESSION_NAME, name):
        message = f"{name!r} is not a valid session name; use letters, digits, '-', '_' and '.', at most 64."
        app.notify(message, title="Not kept", severity="error", timeout=8)
        return
    result = state_files.save_session(app.options.state, left, name)
    if result.kept:
        app.notify(str(result.path), title="Session kept", timeout=5)
    else:
        app.notify(f"{result.path} {result.reason}.", title="Not kept", severity="error", timeout=8)


@ACTIONS.key("session", "J", "session", need.open_panes, a_session)
def choose(app: BaseApp) -> None:
    """Take up a session that was kept under a name."""
    from widgets.screens.picker import Item, PickerScreen

    items = [Item(name, detail=described(app, name)) for name in state_files.session_names(app.options.state)]
    app.push_screen(PickerScreen("Take up a session", items), partial(open_session, app))


def described(app: BaseApp, name: str) -> str:
    """Day on which a session was kept, model, preset where that is not its name, and filter."""
    left = state_files.load_session(app.options.state, name)
    if not left:
        return "cannot be read"
    workload = left.get("workload")
    model = model_name(workload) if isinstance(workload, dict) else ""
    parts = [model, *(str(left[key]) for key in ("preset", "filter") if left.get(key) and left[key] != name)]
    return " · ".join(filter(None, [f"kept {state_files.day_of_session(app.options.state, name)}", *parts]))


def open_session(app: BaseApp, name: str | None) -> None:
    """Take up the session of this name; None: none was chosen."""
    if name is not None:
        app.run_worker(_open(app, name), group="preset", exclusive=True, exit_on_error=False)


async def _open(app: BaseApp, name: str) -> None:
    left = state_files.load_session(app.options.state, name)
    now = modified_form(app)
    if await restore(app, left):
        save_modified(app, now)
    else:
        app.notify(
            f"{name} cannot be read, or uses a preset or model that no longer exists.",
            title="Not opened",
            severity="error",
            timeout=8,
        )


@ACTIONS.key("afresh", "N", "start afresh", need.a_workload)
async def afresh(app: BaseApp) -> None:
    """Show what a first start does: the usual preset, no filter; a form that was changed is kept, and J restores it."""
    await start_afresh(app)
