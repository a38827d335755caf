"""Slow facts of the highlighted row: the changes that would help it or put another first, and what it costs to own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.timer import Timer

    from planner.engine.answers.lever import Lever
    from planner.engine.answers.plan import PlanRow
    from planner.present.money.owning import Owned
    from planner.session import Session
    from planner.workload.tasks import Workload
    from widgets.base_app import BaseApp

QUIET_S = 0.3
"""Rows that the cursor leaves sooner are not looked into."""


class RowDetails:
    """Looks into the row that the cursor rests on."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._timer: Timer | None = None

    def look_into(self, row: PlanRow | None) -> None:
        """Find out about `row` once the cursor has rested on it, and add that to its reason."""
        if self._timer is not None:
            self._timer.stop()
        if row is None or row.verdict == "not-supported" or self._app.single:
            return
        self._timer = self._app.set_timer(QUIET_S, lambda: self._begin(row))

    def _begin(self, row: PlanRow) -> None:
        if self._app.ready and row is self._app.table.highlighted:
            self._app.run_worker(self._complete(row), group="why", exit_on_error=False)

    async def _complete(self, row: PlanRow) -> None:
        plan, basis = self._app.plan, self._app.basis

        def details(session: Session, workload: Workload) -> tuple[list[Lever], Owned | None, list[str]]:
            from planner.present.choice.certainty import sensitivity
            from planner.present.money.owning import owned

            levers = [] if row.rank or row.here else session.levers(workload, row)
            flips = sensitivity(session.with_flips(workload, plan, basis=basis)) if row.rank == 1 and plan is not None else []
            return levers, owned(row, session.part_named(row.gpu)), flips

        levers, own, flips = await self._app.ask_of_plan(details)
        if self._app.ready:
            self._app.content.why.add(row, levers, own, flips)
