"""Copying rows and commands to the clipboard, and writing plans and decisions into files."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

from widgets.base_app import BaseApp
from widgets.state_files import LAST_COPY, state_folder

if TYPE_CHECKING:
    from planner.workload.presets import Preset
    from widgets.actions.plan_files import Form


def copy(app: BaseApp, text: str, what: str) -> None:
    """Send text to the terminal's clipboard, and keep it in a file for terminals that take none."""
    from planner.paths import write_whole

    app.copy_to_clipboard(text)
    path = state_folder(app.options.state) / LAST_COPY
    try:
        write_whole(path, text + "\n")
    except OSError:
        app.notify(f"{what}: sent to the terminal's clipboard.", timeout=3)
    else:
        app.notify(f"{what}: sent to the terminal's clipboard, and in {path}.", timeout=3)


def copy_row(app: BaseApp) -> None:
    """The highlighted row as text."""
    from widgets.actions.plan_files import row_text

    row = app.table.highlighted
    if row is not None and app.plan is not None:
        copy(app, row_text(row, app.plan.task), "Row")


def copy_command(app: BaseApp) -> None:
    """The same plan without the screen."""
    from widgets.actions.plan_files import command_line

    if app.preset is not None:
        copy(app, command_line(preset_argument(app.preset), app.preset_fields, app.form.workload, app.basis), "Command")


def preset_argument(preset: Preset) -> str:
    """What names the preset on the command line."""
    return preset.name if preset.origin != "file" else str(preset.path)


def export(app: BaseApp) -> None:
    """Ask for the form, then write the file."""
    from widgets.screens.picker import Item, PickerScreen

    items = [
        Item("json", "JSON", "everything: inputs, rows, ranges, reasons"),
        Item("csv", "CSV", "the rows, SI units"),
        Item("markdown", "Markdown", "the rows as a table"),
        Item("report", "Report", "the decision with its reasons, Markdown"),
        Item("page", "Report", "the decision with its reasons, an HTML page"),
        Item("svg", "SVG", "this screen"),
    ]
    app.push_screen(PickerScreen("Export the plan as", items), partial(_export, app))


def _export(app: BaseApp, form: str | None) -> None:
    from widgets.actions.plan_files import REPORTS, SUFFIXES, plan_text

    if form is None or app.plan is None or app.preset is None:
        return
    kind = next(known for known in SUFFIXES if known == form)
    if kind in REPORTS:
        app.run_worker(_report(app, kind), group="export", exit_on_error=False)
    else:
        _write_export(app, kind, app.export_screenshot(simplify=True) if kind == "svg" else plan_text(app.plan, kind))


async def _report(app: BaseApp, kind: Form) -> None:
    """The decision, with what takes a moment to work out."""
    from widgets.actions.plan_files import command_line, report_text

    plan, preset = app.plan, app.preset
    if plan is None or preset is None:
        return
    basis = app.basis
    command = command_line(preset_argument(preset), app.preset_fields, app.planned[0], basis)
    text = await app.ask_of_plan(lambda session, workload: report_text(session, workload, plan, kind, command, basis))
    _write_export(app, kind, text)


def _write_export(app: BaseApp, form: Form, text: str) -> None:
    write_file(app, app.preset.name if app.preset else "plan", form, text)


def write_file(app: BaseApp, name: str, form: Form, text: str) -> None:
    """Write an export, and tell where it is, or why it could not be written."""
    from widgets.actions.plan_files import write_export

    try:
        path = write_export(text, name, form, app.options.state, dt.datetime.now(tz=dt.UTC))
    except OSError as error:
        app.notify(f"{error.filename}: {error.strerror}.", title="Not exported", severity="error", timeout=8)
    else:
        app.notify(str(path), title="Exported", timeout=5)
