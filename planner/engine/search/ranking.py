"""The order of the rows of a plan, and how each solution compares with the first."""

from __future__ import annotations

from typing import get_args

import msgspec

from planner.engine.answers.plan import SOLUTIONS, PlanRow, Verdict
from planner.units import percent_text
from planner.workload.tasks import Workload

_ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""The order of verdicts among the rows."""


def ranked(scored: list[tuple[PlanRow, float]], workload: Workload) -> list[PlanRow]:
    """Solutions first by score and numbered, those that may not fit after those that do, then rows that miss a target, then the rest."""
    in_order = sorted(scored, key=lambda item: (_ORDER.index(item[0].verdict), item[1], item[0].gpu))
    best = in_order[0][1] if in_order else 0.0
    result = []
    for place, (row, score) in enumerate(in_order, start=1):
        if row.verdict not in SOLUTIONS:
            result.append(row)
            continue
        result.append(msgspec.structs.replace(row, rank=place, why=f"{_comparison(place, score, best, row, workload)}; {row.why}"))
    return result


def _comparison(place: int, score: float, best: float, row: PlanRow, workload: Workload) -> str:
    """Comparison of a solution with the first, in the words of the objective."""
    first, more = {
        "cheapest": ("cheapest", "dearer"),
        "flop-per-usd": ("most compute per dollar", "less compute per dollar"),
        "fastest": ("fastest", "slower"),
        "fewest-gpus": ("fewest GPUs", "more"),
    }[workload.objective]
    if row.usd_per_h is None and workload.objective in {"cheapest", "flop-per-usd"}:
        return "no price is known: by speed" if place == 1 else "no price, so after all that have one"
    if place == 1:
        return first
    if workload.objective == "fewest-gpus":
        count = row.answer.layout.gpus if row.answer.layout else 1
        return f"{count:,} GPU{'s' * (count != 1)}"
    if score < 1.005 * best:
        return f"as good as the first ({first})"
    if workload.objective == "flop-per-usd":
        return f"{percent_text(1 - best / score)} {more}"
    if score < 3 * best:
        return f"{percent_text(score / best - 1)} {more}"
    return f"{score / best:.1f} times {'the price' if more == 'dearer' else 'as slow'}"
