"""What is taken away from the screen: rows and commands to the clipboard, plans and decisions into files."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING

from widgets import state_files

if TYPE_CHECKING:
    from planner.workload.presets import Preset
    from widgets.actions.exporting import Form
    from widgets.app import PlannerApp


def copy(app: PlannerApp, text: str, what: str) -> None:
    """Send text to the terminal's clipboard, and keep it in a file for terminals that take none."""
    app.copy_to_clipboard(text)
    path = state_files.folder(app.options.state) / state_files.LAST_COPY
    try:
        state_files.write_whole(path, text + "\n")
    except OSError:
        app.notify(f"{what}: sent to the terminal's clipboard.", timeout=3)
    else:
        app.notify(f"{what}: sent to the terminal's clipboard, and in {path}.", timeout=3)


def copy_row(app: PlannerApp) -> None:
    """The highlighted row as text."""
    from widgets.drawing.formatting import row_text

    row = app.table.highlighted
    if row is not None and app.plan is not None:
        copy(app, row_text(row, str(app.plan.task.get("task", ""))), "Row")


def copy_command(app: PlannerApp) -> None:
    """The same plan without the screen."""
    from widgets.actions.exporting import command_line

    if app.preset is not None:
        copy(app, command_line(preset_argument(app.preset), app.preset_fields, app.form.workload, app.basis), "Command")


def preset_argument(preset: Preset) -> str:
    """What names the preset on the command line."""
    return preset.name if preset.origin != "file" else str(preset.path)


def export(app: PlannerApp) -> None:
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


def _export(app: PlannerApp, form: str | None) -> None:
    from widgets.actions.exporting import REPORTS, SUFFIXES, plan_text

    if form is None or app.plan is None or app.preset is None:
        return
    kind = next(known for known in SUFFIXES if known == form)
    if kind in REPORTS:
        app.run_worker(_report(app, kind), group="export", exit_on_error=False)
    else:
        _write_export(app, kind, app.export_screenshot(simplify=True) if kind == "svg" else plan_text(app.plan, kind))


async def _report(app: PlannerApp, kind: Form) -> None:
    """The decision, with what takes a moment to work out."""
    from widgets.actions.exporting import command_line, report_text

    plan, preset = app.plan, app.preset
    if plan is None or preset is None:
        return
    (workload, where), basis = app.planned, app.basis
    command = command_line(preset_argument(preset), app.preset_fields, workload, basis)
    text = await app.session_thread.ask(lambda session: report_text(session, workload, where, plan, kind, command, basis))
    _write_export(app, kind, text)


def _write_export(app: PlannerApp, kind: Form, text: str) -> None:
    from widgets.actions.exporting import write_export

    name = app.preset.name if app.preset else "plan"
    try:
        path = write_export(text, name, kind, app.options.state, dt.datetime.now(tz=dt.UTC))
    except OSError as error:
        app.notify(f"{error.filename}: {error.strerror}.", title="Not exported", severity="error", timeout=8)
    else:
        app.notify(str(path), title="Exported", timeout=5)
