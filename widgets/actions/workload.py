"""Actions on the workload: open, change back, save."""

from __future__ import annotations

from functools import partial

from widgets.actions import conditions as need
from widgets.actions.action import Actions
from widgets.base_app import BaseApp
from widgets.start import open_preset, save_preset

ACTIONS = Actions()


@ACTIONS.key("find", "colon", "find", need.a_workload, key_text=":", rank=4)
def find(app: BaseApp) -> None:
    """One box for a model, a hub id, the path of a config.json, a preset, a GPU, 8 x L40S, i own a 4090, a command, a field of the form, or key=value."""
    from widgets.omnibox.box_actions import open_box

    open_box(app)


@ACTIONS.key("model", "n", "model", need.a_workload)
def find_model(app: BaseApp) -> None:
    """Plan another model: of the catalogue, of the Hugging Face hub, or by the path of its config.json."""
    from widgets.omnibox.box_actions import open_box

    open_box(app, models_only=True)


def plan_model(app: BaseApp, name: str) -> None:
    """Plan another model."""
    app.run_worker(change_model(app, name), group="model", exit_on_error=False)


async def change_model(app: BaseApp, name: str) -> None:
    """Plan another model, and in the format it is published in where that of the form has clearly more bits: it was meant for the model before."""
    weights, of_preset = app.form.workload.get("weight_dtype"), app.form.workload.get("model") == app.preset_fields.get("model")
    if weights and await app.ask(lambda session: session.stores_less(name, weights)):
        await app.form.change({"model": name, "weight_dtype": None})
        app.notify(
            f"{weights} has more bits than the published weights of {name}; undo restores both.",
            title="Weights as published",
            timeout=5,
        )
    else:
        await app.form.change({"model": name})
    if of_preset:
        _say_what_stays(app)


def _say_what_stays(app: BaseApp) -> None:
    """List what the preset still has of the workload, whose model was replaced."""
    from planner.present.choice.chosen import preset_values
    from widgets.panes.workload.history import changed_keys, spelled

    workload = app.form.workload
    kept = preset_values(workload, changed_keys(app.preset_fields, workload))
    if app.preset is not None and workload.get("model") != app.preset_fields.get("model") and (words := spelled(workload, kept)):
        app.notify(f"{words}; 1 edits them.", title=f"The rest is as in {app.preset.name}", timeout=10)


@ACTIONS.key("preset", "o", "preset", need.open_panes, rank=8)
def choose_preset(app: BaseApp) -> None:
    """Open another workload preset."""
    from widgets.screens.picker import PickerScreen

    current = app.preset.name if app.preset else None
    app.push_screen(PickerScreen("Open a preset", app.form.presets, current), partial(open_named, app))


def open_named(app: BaseApp, name: str | None) -> None:
    """Open the preset of this name; None: none was chosen."""
    if name is not None:
        app.run_worker(open_preset(app, name), group="preset", exclusive=True, exit_on_error=False)


def _is_owned(app: BaseApp) -> str | None:
    row = app.table.highlighted if app.panes is not None else None
    return "not my own" if row is not None and row.owned is not None and not row.owned.bought else None


@ACTIONS.key("mine", "I", "I own these", need.a_plan, need.a_row, need.elsewhere, label_now=_is_owned)
async def mine(app: BaseApp) -> None:
    """Plan with as many of the highlighted GPU as your own, without rent; on such a row again: no longer."""
    from widgets.panes.workload.machines import machine, part_of

    row, kept = app.table.highlighted, list(app.form.workload.get("own") or [])
    if row is None:
        return
    others = [one for one in kept if app.facet_names.gpus.get(part_of(one), part_of(one)) != row.gpu]
    layout = row.answer.layout
    new = [] if _is_owned(app) else [machine(row.gpu, layout.gpus_per_node, layout.nodes) if layout else machine(row.gpu, 1)]
    await app.form.change({"own": [*others, *new] or None})


@ACTIONS.key("undo", "u", "undo", need.a_plan, need.a_change, rank=10)
async def undo(app: BaseApp) -> None:
    """Take back the last change of the workload."""
    app.trial = None
    if change := await app.form.undo():
        app.notify(change, title="Undone", timeout=3)


@ACTIONS.key("redo", "U", "redo", need.a_plan, need.an_undone_change)
async def redo(app: BaseApp) -> None:
    """Make the change of the workload again that was taken back last."""
    if change := await app.form.redo():
        app.notify(change, title="Done again", timeout=3)


@ACTIONS.key("save", "w", "save preset", need.a_plan)
def save(app: BaseApp) -> None:
    """Save the workload as a preset of your own."""
    from widgets.screens.dialogs import NameScreen

    def named(name: str | None) -> None:
        if name is not None:
            app.run_worker(save_preset(app, name), group="save", exit_on_error=False)

    suggested = app.preset.name if app.preset else "my-workload"
    hint = "It is saved with your own presets, and replaces a preset of the same name."
    app.push_screen(NameScreen("Save the workload as a preset", suggested, hint), named)
