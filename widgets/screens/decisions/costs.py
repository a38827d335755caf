"""Rent or buy: every way to pay for the highlighted row, month by month, and where it meets the one the row is priced by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.money.costs import Costs, WayCosts
from planner.present.cells import Paragraph, Section
from planner.present.choice.sentence import count_and_device
from planner.units import digits, percent_text, usd_text
from widgets.base_app import BaseApp
from widgets.drawing.axes import LinearAxis
from widgets.drawing.plot import Plot
from widgets.drawing.symbols import ASCII
from widgets.drawing.text import shorten_end
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow
    from planner.present.money.owning import Owned
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
STYLES = ("$accent", "$primary", "$success", "$stack-gradients", "$stack-logits", "$secondary")
ASCII_SIGNS = "*+ox=%"
"""Signs of the lines where dots smaller than a cell cannot be drawn."""
HIGHEST = 2.0
"""Top of the chart over the most that the first way costs; a dearer way leaves it."""
STEPS = 120
"""Stretches of a line, so that payments at once are seen as steps."""
LEGEND = 34
CHART_HEIGHT, LEAST_HEIGHT = 16, 9


async def open_screen(app: BaseApp) -> None:
    """Compare the ways to pay for the highlighted row."""
    row = app.table.highlighted
    if row is not None:
        await app.push_screen(CostScreen(app, row))


class CostScreen(TurningScreen):
    """What each way to pay has cost by when."""

    TURNS = TURNS
    BINDINGS: ClassVar[list[BindingType]] = [*turn_bindings(TURNS), Binding("O", "dismiss", "back", show=False)]

    def __init__(self, app: BaseApp, row: PlanRow) -> None:
        super().__init__(app, f"Rent or buy · {count_and_device(row)}")
        self._row = row
        self._costs: Costs | None = None
        self._owned: Owned | None = None

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """The ways, the providers, and the price of tokens."""
        from planner.engine.procurement.paying import Terms
        from planner.present.money.costs import cost_sections
        from planner.present.money.owning import owned

        row, basis = self._row, self._planner.basis
        terms = Terms(months=YEARS[chosen["years"]], use=USES[chosen["use"]])

        def asked(session: Session, workload: Workload) -> tuple[Costs | None, Owned | None]:
            return session.costs(workload, row, terms, basis=basis), owned(row, session.part_named(row.gpu))

        self._costs, self._owned = await self._planner.ask_of_plan(asked)
        if self._costs is None:
            return [Section("", [Paragraph(f"No cost of it is known: {row.why}.")])]
        return cost_sections(self._costs)

    def above_sections(self, width: int) -> Iterator[Content]:
        """The answer in a sentence, then the chart with a line for each way."""
        if self._owned is not None:
            pays = self._owned.even.least_utilisation <= 1
            words = f"Buying {self._owned.in_short}." if pays else f"Rent: buying {self._owned.in_short}."
            yield Content.styled(words, "bold")
            yield Content("")
        if self._costs is not None and self._costs.ways:
            height = min(CHART_HEIGHT, max(LEAST_HEIGHT, self._planner.size.height // 2 - 6))
            yield from cost_chart(self._costs, width, height, ascii_only=self._planner.symbols is ASCII)
            yield Content("")


def cost_chart(costs: Costs, width: int, height: int, *, ascii_only: bool) -> Iterator[Content]:
    """Dollars over months, a line for each way, a vertical where another way gets cheaper than the first; then the legend."""
    months, first = costs.horizon_months, costs.ways[0]
    end = partial(_cost_after, months, costs.use)
    top = HIGHEST * max(end(first), min(map(end, costs.ways)))
    y = LinearAxis.from_zero([min(top, max(map(end, costs.ways)))], lambda value: f"{usd_text(value)} $" if value else "0")
    plot = Plot(
        width - 1, height, LinearAxis(0, months, lambda value: f"{value:g} mo" if value else "0", 3), y, ascii_only=ascii_only
    )
    for number, one in reversed(list(enumerate(costs.ways))):
        steps = (months * step / STEPS for step in range(STEPS + 1))
        points = [(month, cost) for month in steps if (cost := one.way.cost(max(month, 1e-6), costs.use)) <= y.high]
        plot.line(points, STYLES[number % len(STYLES)], sign=ASCII_SIGNS[number % len(ASCII_SIGNS)])
    for number, one in enumerate(costs.ways):
        if one.break_even_months is not None and one.break_even_months <= months:
            plot.vertical(one.break_even_months, f"{digits(one.break_even_months)} months", STYLES[number % len(STYLES)])
    yield Content.assemble(("Dollars paid by month", "bold $accent"), (f", in use {percent_text(costs.use)} of the time", "$quiet"))
    yield from plot.lines()
    for number, one in enumerate(costs.ways):
        style, sign = STYLES[number % len(STYLES)], ASCII_SIGNS[number % len(ASCII_SIGNS)] * 2 if ascii_only else "━━"
        gone = "  above the chart" if one.way.cost(months / STEPS, costs.use) > y.high else ""
        total = f"{usd_text(end(one))} $"
        yield Content.assemble(
            (f"{sign} ", style),
            f"{one.way.name:<12}{total:>12}  ",
            (shorten_end(f"{one.way.who}{gone}", max(LEGEND, width - 30)), "$quiet"),
        )


def _cost_after(months: float, use: float, one: WayCosts) -> float:
    return one.way.cost(months, use)
