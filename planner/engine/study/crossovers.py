"""GPUs with the most FLOP per dollar along the axis of a study, and the points where another one takes over."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.engine.answers.figure import Figure, weakest
from planner.engine.answers.study import Crossover, Lead, StudyCurve, place_of
from planner.engine.study.sizes import Study
from planner.engine.study.upper_envelope import Takeover, crossing_range, highest
from planner.units import SECONDS_PER_HOUR


def _line(curve: StudyCurve) -> list[float | None]:
    return [math.log(point.flop_per_usd.value) if point.flop_per_usd else None for point in curve.points]


def _spreads(one: StudyCurve, other: StudyCurve) -> list[float]:
    """Half width of the logarithm of the ratio of two curves, whose errors are treated as independent."""
    return [math.hypot(_half(a.flop_per_usd), _half(b.flop_per_usd)) for a, b in zip(one.points, other.points, strict=True)]


def _half(figure: Figure | None) -> float:
    return math.log(figure.high / figure.low) / 2 if figure and figure.low > 0 else 0.0


def leaders(study: Study, curves: Sequence[StudyCurve]) -> tuple[list[Lead], list[Crossover]]:
    """Parts of the axis by their leader, and the crossovers between them."""
    if not curves:
        return [], []
    grid = [math.log(place_of(study.axis, point)) for point in curves[0].points]
    stretches, changes = highest(grid, {curve.gpu: _line(curve) for curve in curves})
    leads = []
    for stretch in stretches:
        low, high = math.exp(stretch.start), math.exp(stretch.end)
        leads.append(
            Lead(
                gpu=stretch.name,
                from_parameters=_parameters(study, curves, low),
                to_parameters=_parameters(study, curves, high),
                from_tokens_per_step=_tokens(study, low),
                to_tokens_per_step=_tokens(study, high),
            )
        )
    by_name = {curve.gpu: curve for curve in curves}
    return leads, [_crossover(study, grid, by_name[change.left], by_name[change.right], change) for change in changes]


def pairs_of(study: Study, curves: Sequence[StudyCurve]) -> list[Crossover]:
    """Crossovers of every pair of GPUs, whatever a third GPU does."""
    found = []
    for number, one in enumerate(curves):
        grid = [math.log(place_of(study.axis, point)) for point in one.points]
        for other in curves[number + 1 :]:
            lines = {curve.gpu: _line(curve) for curve in (one, other)}
            by_name = {one.gpu: one, other.gpu: other}
            changes = [change for change in highest(grid, lines)[1] if not change.dropped]
            found += [_crossover(study, grid, by_name[change.left], by_name[change.right], change) for change in changes]
    return found


def _crossover(study: Study, grid: Sequence[float], left: StudyCurve, right: StudyCurve, change: Takeover) -> Crossover:
    basis = weakest(left.basis, right.basis)
    if change.dropped:
        low, high = max(x for x in grid if x <= change.at), min(x for x in grid if x >= change.at)
        open_low = open_high = False
    else:
        found = crossing_range(grid, _line(left), _line(right), _spreads(left, right), change.at)
        low, high, open_low, open_high = found.low, found.high, found.low_open, found.high_open
    place = Figure(math.exp(change.at), math.exp(low), math.exp(high), basis)
    parameters, tokens = (_parameters(study, (left, right), 0.0), _tokens(study, 0.0))
    return Crossover(
        parameters=place if study.axis == "width" else Figure.exact(parameters, basis),
        tokens_per_step=place if study.axis == "batch" else Figure.exact(tokens, basis),
        left=left.gpu,
        right=right.gpu,
        cause="memory" if change.dropped else "price",
        open_low=open_low,
        open_high=open_high,
    )


def _parameters(study: Study, curves: Sequence[StudyCurve], place: float) -> float:
    return place if study.axis == "width" else float(curves[0].points[0].parameters)


def _tokens(study: Study, place: float) -> float:
    return float(study.sequences * study.sequence) if study.axis == "width" else place


def leading_price(curve: StudyCurve, curves: Sequence[StudyCurve]) -> float | None:
    """USD per hour below which the curve is the highest somewhere; None if it has no speed, or no other has a price."""
    found = []
    for number, point in enumerate(curve.points):
        rivals = [rival.value for other in curves if other is not curve and (rival := other.points[number].flop_per_usd)]
        if point.flop_per_s and rivals:
            found.append(point.flop_per_s.value * SECONDS_PER_HOUR / max(rivals))
    return max(found, default=None)
