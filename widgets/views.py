"""Carrying what happened into the panes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.errors import Problem
    from planner.observe.snapshot import Snapshot
    from widgets.app import PlannerApp
    from widgets.panes.benchmark import Run


def show_plan(app: PlannerApp, plan: Plan, basis: str) -> None:
    """A new plan, into the form, the ranking and what the benchmark changed."""
    from widgets.panes.ranking.pane import RankingView

    app.form.show_problems(())
    app.form.filled_in(plan.task)
    app.main.query_one(RankingView).show(plan, basis)
    if app.measuring is not None:
        app.measuring.compare(plan)


def show_problems(app: PlannerApp, problems: Sequence[Problem]) -> None:
    """What is wrong with the workload, at its fields; the last plan stays, marked stale."""
    from widgets.panes.ranking.pane import RankingView

    elsewhere = app.form.show_problems(problems)
    count = len(problems) + app.form.fault_count
    words = [f"{problem.key}: {problem.message}" if problem.key else problem.message for problem in elsewhere[:2]]
    summary = f"{count} field{'s' * (count != 1)} to mend; the rows answer the workload before."
    app.main.query_one(RankingView).refuse(words or [summary])


def show_row(app: PlannerApp, row: PlanRow | None) -> None:
    """The highlighted row: its reason and its memory."""
    from widgets.panes.ranking.pane import MemoryStrip, MemoryView, RankingView

    app.main.query_one(RankingView).explain(row, app.plan)
    app.main.query_one(MemoryView).show(row, app.plan)
    app.main.query_one(MemoryStrip).show_row(row, app.plan)


def show_order(app: PlannerApp) -> None:
    """Order and filter, in the ranking's frame."""
    from widgets.panes.ranking.pane import RankingView

    if app.plan is not None:
        app.main.query_one(RankingView).title(app.plan, app.basis)


def show_snapshot(app: PlannerApp, snapshot: Snapshot) -> None:
    """One reading of this machine."""
    from widgets.panes.machine.pane import MachineView
    from widgets.panes.ranking.pane import MachineLine

    view = app.main.query_one(MachineView)
    view.show(snapshot)
    if app.single:
        app.main.query_one(MachineLine).update(view.summary(app.size.width))


def show_run(app: PlannerApp, run: Run) -> None:
    """How far the benchmark is; while it times something, this machine is read seldom."""
    from widgets.panes.benchmark import BenchmarkView
    from widgets.panes.machine.pane import MachineView

    app.main.query_one(BenchmarkView).show(run)
    if app.measuring is not None:
        app.watching.thin(app.measuring.timing)
        app.main.query_one(MachineView).mark(app.measuring.marks)
