"""A fault of the program itself: shown in one line, kept in a file, survived."""

from __future__ import annotations

import traceback
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from planner.text import clean
from widgets.base_app import BaseApp
from widgets.state.state_files import LAST_FAULT, state_folder


def crash_text(fault: BaseException, state: Path | None) -> str:
    """Message after a fault of the program that ended it."""
    return f"{_trace(fault)}gpu-planner crashed because of a bug{_kept(fault, state)}\n"


def _trace(fault: BaseException) -> str:
    return clean("".join(traceback.format_exception(fault)))


def _kept(fault: BaseException, state: Path | None) -> str:
    """Write the trace into the state folder; where it is, for the end of a message."""
    from planner.durable import write_whole

    result = write_whole(state_folder(state) / LAST_FAULT, _trace(fault))
    return f"\nDetails: {result.path}" if result.kept else ""


def report(app: BaseApp, fault: BaseException | None) -> None:
    """Tell the user and write the trace into the state folder."""
    if fault is None:
        return
    where = _kept(fault, app.options.state)
    if app.plan is None:
        for reason in app.main.query("#reason").results(Static):
            reason.update(Content.styled(f"No plan: {type(fault).__name__}: {fault}", "$text-error"))
    app.notify(
        f"{type(fault).__name__}: {fault}{where}",
        title="Part of gpu-planner failed; the rest continues",
        severity="error",
        timeout=10,
    )
