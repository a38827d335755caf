"""The filter: what is typed narrows the search over all candidates, and the rows that are shown of it."""

from __future__ import annotations

from textual.widgets import Input

from widgets.background import questions
from widgets.background.opened import PlanQuestion
from widgets.base_app import BaseApp
from widgets.panes.answer import AnswerLine


def use_filter(app: BaseApp, text: str) -> None:
    """Use this filter from now on; the workload is planned again if the filter changes the search."""
    from planner.present.choice.facets import read_facets

    before, app.facets = app.facets, read_facets(text, app.facet_names)
    app.filter_text = text
    app.table.narrow(app.facets)
    if app.facets.changes != before.changes:
        app.ask_for_plan(app.form.workload)
    elif app.plan is not None and not app.rows_outdated:
        line = app.main.query_one(AnswerLine)
        problem = line.problem
        show_answer(app)
        if problem:
            line.refuse(problem)
    show_chips(app)


def take_filter(app: BaseApp, text: str) -> None:
    """Write this filter into its line, and use it."""
    line = app.main.query_one("#filter", Input)
    with line.prevent(Input.Changed):
        line.value = text
    use_filter(app, text)


def take_gpu(app: BaseApp, name: str) -> None:
    """Look at one GPU alone."""
    take_filter(app, f"gpu:{name.replace(' ', '-')}")


def show_answer(app: BaseApp) -> None:
    """Show the answer of the plan, from the rows that pass the filter."""
    if app.plan is not None:
        app.main.query_one(AnswerLine).show(app.plan, app.trial, app.facets.keeps if app.facets.tests else None)


def show_chips(app: BaseApp) -> None:
    """Show the conditions of the filter, and how many of all candidates it leaves."""
    counts = ""
    if app.plan is not None and app.facets.changes:
        fit, whole = f"{app.plan.counts.fit:,}", app.whole
        counts = f"{fit} of {whole[1]:,} that fit" if whole is not None and whole[0] == app.form.workload else f"{fit} fit"
    app.content.ranking.show_chips(app.facets, counts)


async def count_all(app: BaseApp) -> None:
    """Find out how many candidates fit without the filter, unless that is known of this workload."""
    workload, where = dict(app.form.workload), str(app.preset.path) if app.preset else ""
    if not app.facets.changes or (app.whole is not None and app.whole[0] == workload) or app.form.faults:
        return
    plan, _ = await app.session_thread.search(questions.ranking, PlanQuestion(workload, where, app.basis))
    app.whole = workload, plan.counts.fit
    if app.ready:
        show_chips(app)
