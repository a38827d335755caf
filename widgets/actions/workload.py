"""Actions on the workload: open, change back, save."""

from __future__ import annotations

from functools import partial

from widgets.actions import conditions as need
from widgets.actions.action import Action
from widgets.base_app import BaseApp
from widgets.opening import open_preset, save_preset


def choose_preset(app: BaseApp) -> None:
    """List the presets; the one chosen is opened."""
    from widgets.screens.picker import PickerScreen

    current = app.preset.name if app.preset else None
    app.push_screen(PickerScreen("Open a preset", app.form.presets, current), partial(open_named, app))


def open_named(app: BaseApp, name: str | None) -> None:
    """Open the preset of this name; None: none was chosen."""
    if name is not None:
        app.run_worker(open_preset(app, name), group="preset", exclusive=True, exit_on_error=False)


async def undo(app: BaseApp) -> None:
    """Take back the last change."""
    await app.form.undo()


def save(app: BaseApp) -> None:
    """Ask for a name, then write the preset."""
    from widgets.screens.dialogs import NameScreen

    def named(name: str | None) -> None:
        if name is not None:
            app.run_worker(save_preset(app, name), group="save", exit_on_error=False)

    suggested = app.preset.name if app.preset else "my-workload"
    hint = "Goes to the presets of your own config folder; a name of yours again replaces it."
    app.push_screen(NameScreen("Save the workload as a preset", suggested, hint), named)


ACTIONS = (
    Action(
        id="preset",
        keys="o",
        label="preset",
        description="Open another workload preset.",
        run=choose_preset,
        needs=(need.open_panes,),
        rank=8,
    ),
    Action(
        id="undo",
        keys="u",
        label="undo",
        description="Take back the last change of the workload.",
        run=undo,
        needs=(need.a_plan, need.a_change),
        rank=10,
    ),
    Action(
        id="save",
        keys="w",
        label="save preset",
        description="Save the workload as a preset of your own.",
        run=save,
        needs=(need.a_plan,),
    ),
)
