"""Slow facts of the highlighted row: the changes that would help it or put another first, and what it costs to own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from widgets.background import questions

if TYPE_CHECKING:
    from textual.timer import Timer

    from planner.engine.answers.plan import PlanRow
    from widgets.base_app import BaseApp

QUIET_S = 0.3
"""Rows that the cursor leaves sooner have no details computed."""


class RowDetails:
    """Computes details of the row that the cursor rests on."""

    def __init__(self, app: BaseApp) -> None:
        self._app = app
        self._timer: Timer | None = None

    def look_into(self, row: PlanRow | None) -> None:
        """Compute the details of `row` once the cursor has rested on it, and add them to its reason."""
        if self._timer is not None:
            self._timer.stop()
        if row is None or row.verdict == "not-supported" or self._app.single:
            return
        self._timer = self._app.set_timer(QUIET_S, lambda: self._begin(row))

    def _begin(self, row: PlanRow) -> None:
        if self._app.ready and row is self._app.table.highlighted:
            self._app.run_worker(self._complete(row), group="why", exit_on_error=False)

    async def _complete(self, row: PlanRow) -> None:
        levers, own, flips = await self._app.search(questions.details, row)
        if self._app.ready:
            self._app.content.why.add(row, levers, own, flips)
