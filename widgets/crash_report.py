"""A fault of the program itself: said in one line, kept in a file, survived."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from widgets import state_files

if TYPE_CHECKING:
    from widgets.app import PlannerApp

LOG = "last-fault.txt"


def report(app: PlannerApp, fault: BaseException | None) -> None:
    """Tell the user and write the trace into the state folder."""
    if fault is None:
        return
    where = ""
    with contextlib.suppress(OSError):
        path = state_files.folder(app.options.state) / LOG
        state_files.write_whole(path, "".join(traceback.format_exception(fault)))
        where = f"\nDetails: {path}"
    if app.plan is None:
        for reason in app.main.query("#reason").results(Static):
            reason.update(Content.styled(f"No plan: {type(fault).__name__}: {fault}", "$text-error"))
    app.notify(
        f"{type(fault).__name__}: {fault}{where}",
        title="Something broke in gpu-planner; the rest goes on",
        severity="error",
        timeout=10,
    )
