"""Rent or buy: every way to pay for the highlighted row, month by month, and where it meets the one the row is priced by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from planner.engine.money import Costs
from planner.present.cells import Paragraph, Section
from planner.present.choice.sentence import count_and_device
from widgets.base_app import BaseApp
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow
    from planner.session import Session
    from planner.workload.tasks import Workload

YEARS = {"3 years": 36, "1 year": 12, "5 years": 60}
USES = {
    "in use all the time": 1.0,
    "in use half the time": 0.5,
    "in use a fifth of the time": 0.2,
    "in use a twentieth of the time": 0.05,
}
TURNS = (Turn("y", "years", tuple(YEARS)), Turn("u", "use", tuple(USES)))


async def open_screen(app: BaseApp) -> None:
    """Compare the ways to pay for the highlighted row."""
    row = app.table.highlighted
    if row is not None:
        await app.push_screen(CostScreen(app, row))


class CostScreen(TurningScreen):
    """Ways to pay for a row: what each has cost by when."""

    TURNS = TURNS
    ENTITLED = True
    BINDINGS: ClassVar[list[BindingType]] = [*turn_bindings(TURNS), Binding("O", "dismiss", "back", show=False)]

    def __init__(self, app: BaseApp, row: PlanRow) -> None:
        super().__init__(app, f"Rent or buy · {count_and_device(row)}")
        self._row = row

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """Ways, the providers, the price of tokens, and all solutions by cost and time."""
        from planner.engine.procurement.paying import Terms
        from planner.present.choice.frontier import frontier_chart
        from planner.present.money.costs import cost_sections

        row, basis = self._row, self._planner.basis
        terms = Terms(months=YEARS[chosen["years"]], use=USES[chosen["use"]])

        def asked(session: Session, workload: Workload) -> Costs | None:
            return session.costs(workload, row, terms, basis=basis)

        costs = await self._planner.ask_of_plan(asked)
        if costs is None:
            return [Section("", [Paragraph(f"Its cost is unknown: {row.why}.")])]
        chart = frontier_chart(self._planner.plan) if self._planner.plan is not None else None
        return [*cost_sections(costs), *([Section("", [chart])] if chart else [])]
