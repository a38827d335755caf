"""Table of models that given GPUs can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.answers.fit import Fit, FitRow
from planner.engine.fit.ranking import parameters
from planner.present.cells import Cell, Column, Table, range_cell
from planner.present.names import VERDICT_SIGNS
from planner.present.plan import rate_text, throughput
from planner.units import UNKNOWN, count_text, number_text, percent_text
from planner.workload.tasks import trains

ANSWERING = ("serve", "generate")
"""Tasks whose speed is that of output tokens."""
LEAST_NAME = 22
"""Width for names of models; longer names continue on a second line if users and speeds would have no room."""


def fit_table(found: Fit, rows: Sequence[FitRow]) -> Table[FitRow]:
    """`rows` as a table with numbered solutions; the first is emphasised, and rows that are no solution are faint."""
    task = found.task.get("task")
    training = trains(task)
    places = {id(row): place for place, row in enumerate((row for row in rows if row.rank), start=1)}
    columns: list[Column[FitRow]] = [
        Column("rank", "#", lambda row: _place(row, places.get(id(row))), right=True),
        Column("model", "model", lambda row: row.model, least_width=LEAST_NAME),
        Column("parameters", "params", lambda row: count_text(parameters(row)) if parameters(row) else UNKNOWN, right=True, priority=90),
        Column("weights", "weights", lambda row: row.weight_dtype, priority=99),
        *([Column[FitRow]("method", "trained", lambda row: row.method, priority=95)] if training else []),
        Column("layout", "layout", lambda row: row.answer.layout.text if row.answer.layout else UNKNOWN, priority=60),
        Column("headroom", "free", _headroom, right=True, priority=55),
        Column("rate", "out tok/s" if task in ANSWERING else "tok/s", _rate, right=True, priority=98),
        *([] if training else _columns_of_requests(str(task))),
        Column("context", "context", lambda row: number_text(row.context_tokens), right=True, priority=85),
        Column("longest", "longest", lambda row: number_text(row.longest_context_tokens), right=True, priority=50),
        Column("chance", "fits", lambda row: percent_text(row.probability_fits), right=True, priority=45),
        Column("why", "why", lambda row: row.why, priority=40, least_width=20),
    ]  # fmt: skip
    return Table(columns, rows, lambda row: "strong" if places.get(id(row)) == 1 else "faint" if row.rank is None else "")


def _place(row: FitRow, place: int | None) -> str:
    """Number among the solutions, marked if it may not fit; a sign for other rows."""
    sign = "" if row.verdict == "fits" else VERDICT_SIGNS[row.verdict]
    return " ".join(filter(None, (sign, str(place) if place else "")))


def _columns_of_requests(task: str) -> Iterator[Column[FitRow]]:
    """Columns of requests at once and their speed, if the task has them."""
    at_once = "users" if task == "serve" else "at once"
    yield Column("users", at_once, lambda row: number_text(row.at_once), right=True, priority=92)
    if task in ANSWERING:
        yield Column("stream", "tok/s each", _stream, right=True, priority=65)
    if task == "serve":
        yield Column("alone", "tok/s alone", lambda row: rate_text(row.alone_tokens_per_s), right=True, priority=88)
    yield Column("cached", "cached", lambda row: number_text(row.concurrency), right=True, priority=48)


def _rate(row: FitRow) -> Cell:
    return range_cell(throughput(row.answer) if row.answer.fits else None, rate_text)


def _stream(row: FitRow) -> Cell:
    rate = row.answer.decode_tokens_per_s if row.answer.fits else None
    return Cell(rate_text(rate.value)) if rate else Cell()


def _headroom(row: FitRow) -> Cell:
    """Share of the fullest GPU's memory that is left for caches, or in training left free."""
    if row.headroom is None:
        return Cell()
    return Cell(percent_text(row.headroom) if row.headroom > -9.995 else f"{row.headroom:.0f}×", share=max(0.0, row.headroom))
