"""Conditions of actions: each function returns the reason why a condition does not hold now, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from widgets.base_app import BaseApp

STILL_OPENING = "Still opening."
NO_PLAN = "The first plan is being computed."
"""Reason given before the first plan; an action requested before it runs once the plan is there."""


def open_panes(app: BaseApp) -> str | None:
    """The panes have their content."""
    return STILL_OPENING if app.panes is None else None


def a_workload(app: BaseApp) -> str | None:
    """A preset was opened."""
    return open_panes(app) or (STILL_OPENING if app.preset is None else None)


def a_plan(app: BaseApp) -> str | None:
    """A workload was planned."""
    return NO_PLAN if app.plan is None else None


def a_row(app: BaseApp) -> str | None:
    """The cursor is on a row."""
    return "No row is highlighted." if app.table.highlighted is None else None


def elsewhere(app: BaseApp) -> str | None:
    """The highlighted row is not this machine, which is ranked without rent as it is."""
    row = app.table.highlighted
    return "This machine is ranked without rent already." if row and row.here else None


def known_memory(app: BaseApp) -> str | None:
    """The memory of the highlighted row was worked out."""
    row = app.table.highlighted
    return "The memory of this row is unknown, because it is not supported." if row and row.answer.memory_bytes is None else None


def known_time(app: BaseApp) -> str | None:
    """The time of the highlighted row was worked out."""
    row = app.table.highlighted
    return "The time of this row is unknown, because it is not supported." if row and not row.answer.seconds_by_class else None


def a_latency(app: BaseApp) -> str | None:
    """The highlighted row serves requests."""
    row = app.table.highlighted
    return "Only a service has a latency against load." if row and row.answer.request_s is None else None


def no_benchmark(app: BaseApp) -> str | None:
    """No benchmark runs that another one would disturb."""
    return "A benchmark is running; x stops it." if app.benchmark_runs else None


def no_new_results(app: BaseApp) -> str | None:
    """No benchmark runs whose results are read as they come."""
    return "A benchmark is running; the plan uses its results automatically." if app.benchmark_runs else None


def a_benchmark(app: BaseApp) -> str | None:
    """A benchmark runs."""
    return None if app.benchmark_runs else "No benchmark is running; b starts one."


def a_change(app: BaseApp) -> str | None:
    """The workload was changed."""
    return None if app.form.history.can_undo else "Nothing has changed since the preset was opened."


def an_undone_change(app: BaseApp) -> str | None:
    """A change was taken back."""
    return None if app.form.history.can_redo else "Nothing was taken back."


def telemetry(app: BaseApp) -> str | None:
    """This machine is watched, or a recording is shown."""
    return None if app.telemetry.running else "This machine is not being watched."


def a_watched_gpu(app: BaseApp) -> str | None:
    """The last reading has a GPU."""
    return None if app.telemetry.sees_gpus else "No GPU is watched."


def readings(app: BaseApp) -> str | None:
    """Something was read that advice can rest on."""
    return None if app.telemetry.window else "No GPU has been read yet."
