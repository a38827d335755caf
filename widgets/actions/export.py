"""Copying rows and commands to the clipboard, and writing plans and decisions into files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from planner.durable import write_whole
from planner.text import clean
from widgets.actions.plan_files import FORMATS, REPORTS, FileFormat, plan_command, plan_text, report_text, row_text, write_export
from widgets.base_app import BaseApp
from widgets.state.state_files import LAST_COPY, state_folder

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan
    from planner.workload.presets import Preset


def copy(app: BaseApp, text: str, what: str) -> None:
    """Send text to the terminal's clipboard, and write it to a file for terminals without a clipboard."""
    text = clean(text)
    app.copy_to_clipboard(text)
    result = write_whole(state_folder(app.options.state) / LAST_COPY, text + "\n")
    app.notify(f"{what}: sent to the terminal's clipboard{f', and in {result.path}' if result.kept else ''}.", timeout=3)


def copy_row(app: BaseApp) -> None:
    """Copy the highlighted row as text."""
    row = app.table.highlighted
    if row is not None and app.plan is not None:
        copy(app, row_text(row, app.plan.task), "Row")


def copy_command(app: BaseApp) -> None:
    """Copy the command line that gives the same answer."""
    if app.preset is not None:
        copy(app, plan_command(app.preset, app.preset_fields, app.facets.over(app.form.workload), app.basis).text, "Command")


def export(app: BaseApp) -> None:
    """Write the plan as JSON, CSV or Markdown, the decision as a report, or the screen as SVG."""
    from widgets.screens.picker import Item, PickerScreen

    items = [Item(known.id, known.label, known.detail) for known in FORMATS]
    app.push_screen(PickerScreen("Export the plan as", items), partial(_export, app))


def _export(app: BaseApp, chosen: str | None) -> None:
    form = next((known for known in FORMATS if known.id == chosen), None)
    if form is None or app.plan is None or app.preset is None:
        return
    if form.id in REPORTS:
        app.run_worker(_report(app, app.plan, app.preset, form), group="export", exit_on_error=False)
    else:
        text = app.export_screenshot(simplify=True) if form.id == "svg" else plan_text(app.plan, form)
        write_file(app, file_name(app.preset, app.planned[0]), form.suffix, text)


def file_name(preset: Preset, task: Mapping[str, Any]) -> str:
    """Name of a file about `task`: that of the preset it was made of while its title holds, else its model and task."""
    from planner.present.names import model_name

    return preset.name if task.get("title") or not preset.workload.title else f"{model_name(task)}-{task['task']}"


async def _report(app: BaseApp, plan: Plan, preset: Preset, form: FileFormat) -> None:
    """Write the decision, with what takes a moment to work out."""
    command = plan_command(preset, app.preset_fields, app.planned[0], app.basis)
    text = await app.ask_of_plan(lambda session, workload: report_text(session, workload, plan, form, command))
    write_file(app, file_name(preset, app.planned[0]), form.suffix, text)


def write_file(app: BaseApp, name: str, suffix: str, text: str) -> None:
    """Write an export, and show its path, or why it could not be written."""
    result = write_export(text, name, suffix, app.options.state, dt.datetime.now(tz=dt.UTC))
    if result.kept:
        app.notify(str(result.path), title="Exported", timeout=5)
    else:
        app.notify(f"{result.path} {result.reason}.", title="Not exported", severity="error", timeout=8)
