"""Chart of cost against time: a dot for each solution of a plan, with labels for those that no other beats in both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from planner.engine.answers.figure import value_of
from planner.engine.answers.plan import Plan, PlanRow
from planner.present.choice.ranked_by import FigureOf, ends, requested_latency
from planner.present.choice.sentence import count_and_device
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, axis_around
from planner.present.prices import provider_text
from planner.units import SECONDS_PER_HOUR, digits, short_usd_text, usd_text
from planner.workload.tasks import trains

MOST_NAMED = 12
"""Maximum number of labelled rows of the frontier."""
UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


class _Measures(NamedTuple):
    """Cost and time by which rows are compared."""

    usd: FigureOf
    usd_title: str
    seconds: Callable[[PlanRow], float | None]
    time_title: str
    most_usd: float | None
    most_seconds: float | None


class _Place(NamedTuple):
    """A solution with its cost and its time."""

    usd: float
    time: float
    row: PlanRow


def frontier_chart(plan: Plan) -> Chart | None:
    """Chart of `plan`; None if fewer than two solutions have a cost and a time."""
    measures = _measures(plan)
    known = list(_places(plan, measures)) if measures is not None else []
    if measures is None or len(known) < 2:
        return None
    size, unit = _unit(max(place.time for place in known))
    places = [place._replace(time=place.time / size) for place in known]
    best = list(frontier(places))
    named = best[:: -(-len(best) // MOST_NAMED)]
    steps = [point for before, after in pairwise(best) for point in _step(before, after)]
    limits = [Limit(measures.most_usd, "budget")] if measures.most_usd else []
    limits += [Limit(measures.most_seconds / size, "wanted", upright=False)] if measures.most_seconds else []
    return Chart(
        f"Cost against time of {len(places):,} solutions",
        axis_around([one.usd for one in places], short_usd_text),
        axis_around([one.time for one in places], lambda time: f"{time:g} {unit}"),
        measures.usd_title,
        measures.time_title,
        [Curve("", steps)] if steps else [],
        [_dot(one, f"{digits(one.time)} {unit}", plan, named=one in named) for one in places],
        limits,
        note="No solution is both cheaper and faster than those on the line.",
        unnamed="another solution" if len(named) < len(places) else "",
    )


def _places(plan: Plan, measures: _Measures) -> Iterator[_Place]:
    for row in plan.rows:
        usd, seconds = measures.usd(row), measures.seconds(row)
        if row.rank and usd is not None and usd.value > 0 and seconds:
            yield _Place(usd.value, seconds, row)


def _unit(longest_s: float) -> tuple[float, str]:
    """Seconds and name of the unit in which the longest time has a few digits."""
    return next((one for one in UNITS if longest_s >= 2 * one[0]), UNITS[-1])


def frontier(places: Sequence[_Place]) -> Iterator[_Place]:
    """Solutions that no other beats in both cost and time, the cheapest first."""
    fastest = float("inf")
    for one in sorted(places, key=lambda place: (place.usd, place.time)):
        if one.time < fastest:
            fastest = one.time
            yield one


def _step(before: _Place, after: _Place) -> list[tuple[float, float]]:
    return [(before.usd, before.time), (after.usd, before.time), (after.usd, after.time)]


def _measures(plan: Plan) -> _Measures | None:
    """Dollars and hours of a job, or dollars per month and the latency of a service; None if neither is known."""
    targets = plan.task.get("targets", {})
    if ends(plan):
        deadline_h = targets.get("deadline_h")
        return _Measures(
            lambda row: row.job_usd,
            "dollars for the job",
            lambda row: hours * SECONDS_PER_HOUR if (hours := value_of(row.expected_job_h or row.job_h)) is not None else None,
            "time of the job",
            targets.get("budget_usd"),
            deadline_h * SECONDS_PER_HOUR if deadline_h else None,
        )
    if trains(plan.task.get("task")):
        return None
    latency = requested_latency(plan.task)
    figure, limit_s = latency.figure, latency.limit_s
    title = f"{latency.title} token" if " " in latency.title else f"{latency.title} of a request"
    return _Measures(lambda row: row.usd_per_month, "dollars a month", lambda row: value_of(figure(row)), title, None, limit_s)


def _dot(one: _Place, time: str, plan: Plan, *, named: bool) -> Dot:
    who = provider_text(one.row, plan.task)
    label = f"{count_and_device(one.row)}{f', {who}' if who else ''}"
    return Dot(one.usd, one.time, label if named else "", f"{label}: {usd_text(one.usd)} $, {time}")
