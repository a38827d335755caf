"""Answers as CSV with SI units in the names and empty cells for unknown values."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.numbers import as_number
from planner.present.plan import throughput
from planner.present.prices import network_text
from planner.text import one_line

if TYPE_CHECKING:
    from planner.engine.answers.figure import Figure
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.engine.answers.study import StudyAnswer

PLAN_FIGURES: dict[str, Callable[[PlanRow], Figure | None]] = {
    "memory_bytes_per_gpu": lambda row: row.answer.memory_bytes.total if row.answer.memory_bytes else None,
    "tokens_per_s": lambda row: throughput(row.answer),
    "usd_per_h": lambda row: row.usd_per_h,
    "usd_per_month": lambda row: row.usd_per_month,
    "job_h": lambda row: row.job_h,
    "job_usd": lambda row: row.job_usd,
    "usd_per_million_tokens": lambda row: row.answer.usd_per_million_tokens,
    "flop_per_usd": lambda row: row.answer.flop_per_usd,
}
"""Figures of a row; each becomes four columns: value, low, high, basis."""
STUDY_FACTS = ("parameters", "non_embedding_parameters", "width", "depth", "sequences", "tokens_per_step")
FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""First characters of a cell that a spreadsheet reads as a formula (owasp.org/www-community/attacks/CSV_Injection)."""
STUDY_FIGURES = ("flop_per_s", "flop_per_usd", "step_s", "mfu", "memory_bytes")


class PlainColumns(NamedTuple):
    """An answer as columns of plain values; unknown ones are None."""

    heads: Sequence[str]
    lines: Sequence[Sequence[Any]]


def plan_csv(plan: Plan) -> str:
    """CSV with one line per row of `plan`."""
    return csv_text(*plan_lines(plan))


def plan_lines(plan: Plan) -> PlainColumns:
    """One line per row of `plan`, with SI units in the names."""
    names = ("rank", "verdict", "gpu", "here", "gpus", "layout", "provider", "instance", "market", "network", "bottleneck", "why")

    def cells(row: PlanRow) -> list[Any]:
        layout, offer = row.answer.layout, row.offer
        spread = [layout.gpus, layout.text] if layout else [None, None]
        kept = None if row.owned is None else "bought" if row.owned.bought else "own"
        place = [offer.provider, offer.instance, offer.market] if offer else [kept, None, None]
        known = [row.rank, row.verdict, row.gpu, int(row.here), *spread, *place, network_text(row), row.answer.bottleneck, row.why]
        return [*known, *_figures(read(row) for read in PLAN_FIGURES.values())]

    return PlainColumns([*names, *_heads(PLAN_FIGURES)], [cells(row) for row in plan.rows])


def study_csv(answer: StudyAnswer) -> str:
    """CSV with one line per GPU and size."""
    return csv_text(*study_lines(answer))


def study_lines(answer: StudyAnswer) -> PlainColumns:
    """One line per GPU and size, with SI units in the names."""
    names = ("gpu", "here", "usd_per_gpu_h", *STUDY_FACTS, "flop_per_byte", "bottleneck", "reason")
    lines = [
        [
            *(curve.gpu, int(curve.here), curve.usd_per_gpu_h),
            *(getattr(point, fact) for fact in STUDY_FACTS),
            *(point.flop_per_byte, point.bottleneck, point.reason),
            *_figures(getattr(point, name) for name in STUDY_FIGURES),
        ]
        for curve in answer.curves
        for point in curve.points
    ]
    return PlainColumns([*names, *_heads(STUDY_FIGURES)], lines)


def csv_text(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """CSV of `heads` and `lines`; texts that a spreadsheet would run as formulas are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(one) for one in line] for line in lines)
    return out.getvalue()


def _cell(value: Any) -> Any:
    """`value`; text is cleaned and cannot be a formula, numbers may begin with a sign."""
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA_SIGNS) and as_number(text) is None else text


def _heads(names: Iterable[str]) -> list[str]:
    return [f"{name}{part}" for name in names for part in ("", "_low", "_high", "_basis")]


def _figures(figures: Iterable[Figure | None]) -> list[float | str | None]:
    return [
        cell for figure in figures for cell in ((figure.value, figure.low, figure.high, figure.basis) if figure else [None] * 4)
    ]
