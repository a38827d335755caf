"""Opening the box, and running the chosen suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from widgets.actions.narrowing import take_gpu
from widgets.actions.sessions import described, open_session
from widgets.actions.workload import change_model
from widgets.base_app import BaseApp
from widgets.omnibox.finding import Suggestion, of_fields, setting
from widgets.omnibox.screen import HINT, MODEL_HINT, OmniScreen
from widgets.start import open_preset
from widgets.state import state_files


def open_box(app: BaseApp, *, models_only: bool = False) -> None:
    """Open the box, then run the chosen suggestion."""
    suggestions = partial(_models if models_only else _everything, app)
    title, hint = ("Model", MODEL_HINT) if models_only else ("Find or set", HINT)

    def taken(suggestion: Suggestion | None) -> None:
        if suggestion is not None:
            app.run_worker(run_suggestion(app, suggestion), group="take", exit_on_error=False)

    app.push_screen(OmniScreen(app, suggestions, title, hint), taken)


async def run_suggestion(app: BaseApp, suggestion: Suggestion) -> None:
    """Run a suggestion: change the model, open a preset or session, narrow to a GPU, show what GPUs can run, set or show a key, run a command."""
    if suggestion.kind == "model":
        await change_model(app, suggestion.value)
    elif suggestion.kind == "preset":
        await open_preset(app, suggestion.value)
    elif suggestion.kind == "session":
        open_session(app, suggestion.value)
    elif suggestion.kind == "setting":
        changes = setting(suggestion.value, app.form.workload)
        await (change_model(app, changes["model"]) if changes.get("model") else app.form.change(changes))
    elif suggestion.kind == "field":
        app.show_pane("workload")
        await app.form.go_to(suggestion.value)
    elif suggestion.kind == "gpu":
        take_gpu(app, suggestion.value)
    elif suggestion.kind == "machines":
        from widgets.screens.decisions.fit import open_fit

        count, _, gpu = suggestion.value.partition(" × ")
        open_fit(app, gpu, int(count))
    else:
        await app.run_action(f"act('{suggestion.value}')")


def _models(app: BaseApp) -> list[Suggestion]:
    return [Suggestion("model", item.value, item.detail) for item in app.form.models]


def _everything(app: BaseApp) -> Sequence[Suggestion]:
    gpus = [Suggestion("gpu", name, "looks at it alone") for name in dict.fromkeys(app.facet_names.gpus.values())]
    presets = [Suggestion("preset", item.value, item.detail) for item in app.form.presets]
    sessions = [Suggestion("session", name, described(app, name)) for name in state_files.session_names(app.options.state)]
    states = (state for states in app.action_groups().values() for state in states if state.action.scope == "app")
    commands = [
        Suggestion("command", state.action.id, state.action.description, state.action.label)
        for state in states
        if state.reason is None
    ]
    return [*_models(app), *presets, *sessions, *gpus, *commands, *of_fields(app.form.workload)]
