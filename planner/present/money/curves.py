"""Charts of costs: what each way to pay has cost by when, and over the share of the time it is in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.money.costs import Costs, WayCosts
from planner.present.drawing.axes import LinearAxis
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, Point
from planner.units import percent_text, short_usd_text, usd_text

MOST_TIMES = 4.0
"""Ways that cost more than this many times the first one would flatten all others, and are named instead."""
QUARTER_MONTHS = 3.0
JUST_AFTER = 1e-6
"""Months after a payment at which it counts."""


def cost_charts(costs: Costs) -> list[Chart]:
    """Dollars by month, and dollars by use; none where there are no two ways to compare."""
    shown = list(_shown(costs))
    return [_by_month(costs, shown), _by_use(costs, shown)] if len(shown) > 1 else []


def _shown(costs: Costs) -> Iterator[WayCosts]:
    """The first way and those near it in price."""
    end = str(costs.horizon_months)
    for ways in costs.ways:
        if ways is costs.ways[0] or ways.usd_after_months[end] <= MOST_TIMES * costs.ways[0].usd_after_months[end]:
            yield ways


def _by_month(costs: Costs, shown: Sequence[WayCosts]) -> Chart:
    """Dollars paid by each month, and the months at which a way has cost as much as the first."""
    months = costs.horizon_months
    curves = [Curve(_name(ways), _steps(ways, months, costs.use)) for ways in shown]
    meetings = [
        Dot(even, ways.way.once(even, costs.use), f"{even:.1f} months", f"{ways.way.name} has cost as much as {shown[0].way.name}")
        for ways in shown
        if (even := ways.break_even_months) is not None and even <= min(months, ways.way.life_months or months)
    ]
    return Chart(
        f"What has been paid by when, in use {percent_text(costs.use)} of the time",
        LinearAxis(0.0, float(months), lambda month: f"{month:g}", QUARTER_MONTHS),
        LinearAxis(0.0, _top(curves), short_usd_text),
        "months",
        "dollars",
        curves,
        meetings,
        note=_left_out(costs, shown),
    )


def _by_use(costs: Costs, shown: Sequence[WayCosts]) -> Chart:
    """Cost over the horizon at every use, and the uses at which a way costs as much as the first."""
    months = costs.horizon_months
    curves = [Curve(_name(ways), [(use, ways.way.cost(months, use)) for use in (0.0, 1.0)]) for ways in shown]
    meetings = [
        Dot(even, ways.way.cost(months, even), percent_text(even), f"{ways.way.name} costs as much as {shown[0].way.name}")
        for ways in shown
        if (even := ways.break_even_use) is not None and even <= 1
    ]
    return Chart(
        f"What {months} months cost, by the time in use",
        LinearAxis(0.0, 1.0, percent_text),
        LinearAxis(0.0, _top(curves), short_usd_text),
        "share of the time in use",
        "dollars",
        curves,
        meetings,
        [Limit(costs.use, "asked")] if costs.use < 1 else [],
        note=_left_out(costs, shown),
    )


def _steps(ways: WayCosts, months: int, use: float) -> list[Point]:
    """The curve of one way: straight stretches between payments, and a step at each of them."""
    way = ways.way
    terms = [way.commitment_months, way.life_months]
    payments = {0.0} | {float(term * number) for term in terms if term for number in range(1, int(months / term) + 1)}
    points = [(0.0, 0.0)]
    for payment in sorted(payments):
        points += [(payment, way.cost(payment, use)), (payment, way.cost(payment + JUST_AFTER, use))]
    inside = [point for point in points if point[0] < months]
    return [*inside, (float(months), way.cost(months, use))]


def _top(curves: Sequence[Curve]) -> float:
    return 1.05 * max(usd for curve in curves for _, usd in curve.points) or 1.0


def _name(ways: WayCosts) -> str:
    return f"{ways.way.name}, {ways.way.who}" if ways.way.who else ways.way.name


def _left_out(costs: Costs, shown: Sequence[WayCosts]) -> str:
    end = str(costs.horizon_months)
    names = [f"{ways.way.name} ({usd_text(ways.usd_after_months[end])} $)" for ways in costs.ways if ways not in shown]
    return f"Beyond the chart: {', '.join(names)}." if names else ""
