"""Order of the rows of a plan, and how each solution compares with the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

import msgspec

from planner.engine.answers.plan import PRICE_UNIT, SOLUTIONS, PlanRow, Verdict
from planner.engine.search.deployment import is_bounded
from planner.engine.search.paired_draws import chances_of_first, uncertain
from planner.engine.search.selection import Choice
from planner.units import percent_text
from planner.workload.tasks import Workload

_ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""Order of verdicts among the rows."""
COMPARED = 12
"""Number of rows at the top with which the first is compared."""
BY_PRICE = frozenset({"cheapest", "flop-per-usd"})
"""Objectives that cannot rank a row without a price."""


class Scored(NamedTuple):
    """A row with its score (smaller is better) and the number of its candidate."""

    row: PlanRow
    score: float
    candidate: tuple[Choice, int] | None = None


def ranked(scored: Sequence[Scored], workload: Workload, *, compared: bool = True) -> list[PlanRow]:
    """Rows in order: solutions by score and numbered, those that may not fit after those that do, then rows that miss a target, then the rest.

    In each group, GPUs that nobody rents out come last. Rows that are no solution are ordered by their distance from one.
    `compared`: state how probably the first is better than the next.
    """
    in_order = sorted(scored, key=_order)
    best = in_order[0].score if in_order else 0.0
    chances = _chances(in_order, workload) if compared else {}
    result = []
    for place, (row, score, _) in enumerate(in_order, start=1):
        if row.verdict not in SOLUTIONS:
            result.append(row)
            continue
        why = f"{_comparison(place, score, best, row, workload)}; {row.why}"
        result.append(msgspec.structs.replace(row, rank=place, why=why, probability_first_better=chances.get(place)))
    return result


def _order(item: Scored) -> tuple[int, bool, float, float, str]:
    """Sort key of a row."""
    row = item.row
    return _ORDER.index(row.verdict), _out_of_reach(row), _excess(item), item.score, row.gpu


def _excess(item: Scored) -> float:
    """Distance of a row from a solution: the largest relative excess over a limit; 0 for solutions."""
    if item.candidate is None or item.row.verdict in SOLUTIONS:
        return 0.0
    choice, _ = item.candidate
    memory = choice.deployments.evaluated.memory
    if item.row.verdict == "does-not-fit":
        return float(memory.total[choice.row] / memory.usable[choice.row])
    return float(choice.deployments.bill.overshoot[choice.row])


def _chances(in_order: Sequence[Scored], workload: Workload) -> dict[int, float]:
    """Place -> probability that the first row is truly better, for the next solutions that can be compared."""
    by_price = workload.objective in BY_PRICE
    first = {
        place: (item.score, uncertain(*item.candidate))
        for place, item in enumerate(in_order[:COMPARED], start=1)
        if item.row.verdict in SOLUTIONS and item.candidate is not None and (item.row.usd_per_h is not None or not by_price)
    }
    if 1 not in first:
        return {}
    chances = zip(first, chances_of_first(list(first.values())), strict=True)
    return {place: round(chance, 2) for place, chance in chances if place > 1}


def _out_of_reach(row: PlanRow) -> bool:
    """True if nobody rents out the GPU of `row`, and it is neither here nor owned."""
    return row.usd_per_h is None and not row.here and row.owned is None


def ranked_by_token(row: PlanRow, workload: Workload) -> bool:
    """True if `cheapest` means cheapest per token: for work that neither ends nor arrives at a rate, dollars per month say nothing about what is done."""
    return workload.objective == "cheapest" and not workload.request_rate_per_s and row.job_usd is None


def _comparison(place: int, score: float, best: float, row: PlanRow, workload: Workload) -> str:
    """Comparison of a solution with the first row, in the words of the objective."""
    first, worse, better = {
        "cheapest": ("cheapest", "dearer", "cheaper"),
        "flop-per-usd": ("most compute per dollar", "less compute per dollar", "more compute per dollar"),
        "fastest": ("fastest", "slower", "faster"),
        "fewest-gpus": ("fewest GPUs", "more", "fewer"),
    }[workload.objective]
    if row.usd_per_h is None and workload.objective in BY_PRICE:
        by = "number of GPUs" if is_bounded(workload) else "speed"
        return f"no price is known: by {by}" if place == 1 else "no price: comes last"
    if place > 1 and _out_of_reach(row):
        return "no provider in the catalogue rents it out: comes last"
    each = PRICE_UNIT if ranked_by_token(row, workload) else ""
    if place == 1:
        return f"{first}{each}"
    if workload.objective == "fewest-gpus":
        return f"{row.answer.gpus:,} GPU{'s' * (row.answer.gpus != 1)}"
    if 1.005 * score < best:  # not the first because it may not fit
        return f"{percent_text(1 - score / best if better == 'cheaper' else best / score - 1)} {better}{each}"
    if score < 1.005 * best:
        return f"as good as the first ({first}{each})"
    if workload.objective == "flop-per-usd":
        return f"{percent_text(1 - best / score)} {worse}"
    if score < 3 * best:
        return f"{percent_text(score / best - 1)} {worse}{each}"
    return f"{score / best:.1f} times {'the price' if worse == 'dearer' else 'as slow'}{each}"
