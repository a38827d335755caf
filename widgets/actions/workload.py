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
    """Take back the last change, and say which."""
    app.trial = None
    if told := await app.form.undo():
        app.notify(told, title="Undone", timeout=3)


async def redo(app: BaseApp) -> None:
    """Make the change again that was taken back last, and say which."""
    if told := await app.form.redo():
        app.notify(told, title="Done again", timeout=3)


def plan_model(app: BaseApp, name: str) -> None:
    """Plan another model."""
    app.run_worker(change_model(app, name), group="model", exit_on_error=False)


async def change_model(app: BaseApp, name: str) -> None:
    """Plan another model, and in the format it is published in where that of the form has clearly more bits: it was meant for the model before."""
    weights = app.form.workload.get("weight_dtype")
    if weights and await app.ask(lambda session: session.stores_less(name, weights)):
        await app.form.change({"model": name, "weight_dtype": None})
        app.notify(
            f"{weights} has more bits than {name} is published in; undo brings both back.", title="Weights as published", timeout=5
        )
    else:
        await app.form.change({"model": name})


def find(app: BaseApp) -> None:
    """Ask for a model, a preset, a GPU, a command or a setting."""
    from widgets.omnibox.taking import open_box

    open_box(app)


def find_model(app: BaseApp) -> None:
    """Ask for another model."""
    from widgets.omnibox.taking import open_box

    open_box(app, models_only=True)


def save(app: BaseApp) -> None:
    """Ask for a name, then write the preset."""
    from widgets.screens.dialogs import NameScreen

    def named(name: str | None) -> None:
        if name is not None:
            app.run_worker(save_preset(app, name), group="save", exit_on_error=False)

    suggested = app.preset.name if app.preset else "my-workload"
    hint = "Among your own presets; one of the same name is replaced."
    app.push_screen(NameScreen("Save the workload as a preset", suggested, hint), named)


ACTIONS = (
    Action(
        id="find",
        keys="colon",
        key_text=":",
        label="find",
        description="One box for a model, a hub id, the path of a config.json, a preset, a GPU, 8 x L40S, a command, or key=value.",
        run=find,
        needs=(need.a_workload,),
        rank=4,
    ),
    Action(
        id="model",
        keys="n",
        label="model",
        description="Plan another model: of the catalogue, of the Hugging Face hub, or by the path of its config.json.",
        run=find_model,
        needs=(need.a_workload,),
    ),
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
        id="redo",
        keys="U",
        label="redo",
        description="Make the change of the workload again that was taken back last.",
        run=redo,
        needs=(need.a_plan, need.an_undone_change),
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
