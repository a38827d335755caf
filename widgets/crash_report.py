"""A fault of the program itself: shown in one line, kept in a file, survived."""

from __future__ import annotations

import traceback

from textual.content import Content
from textual.widgets import Static

from widgets.base_app import BaseApp
from widgets.state_files import LAST_FAULT, state_folder


def report(app: BaseApp, fault: BaseException | None) -> None:
    """Tell the user and write the trace into the state folder."""
    if fault is None:
        return
    from planner.durable import write_whole

    result = write_whole(state_folder(app.options.state) / LAST_FAULT, "".join(traceback.format_exception(fault)))
    where = f"\nDetails: {result.path}" if result.kept else ""
    if app.plan is None:
        for reason in app.main.query("#reason").results(Static):
            reason.update(Content.styled(f"No plan: {type(fault).__name__}: {fault}", "$text-error"))
    app.notify(
        f"{type(fault).__name__}: {fault}{where}",
        title="Something broke in gpu-planner; the rest goes on",
        severity="error",
        timeout=10,
    )
