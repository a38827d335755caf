"""Columns for choosing a row: the figure that ranks, the requested latency, and the certainty of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from planner.engine.answers.figure import Figure, value_of
from planner.engine.answers.plan import PRICE_UNIT, Plan, PlanRow
from planner.present.cells import Cell, Column
from planner.present.plan import PlanColumn, percentile_of, throughput
from planner.units import duration_text, percent_text
from planner.workload.tasks import trains

FigureOf = Callable[["PlanRow"], "Figure | None"]
PERCENTILES = ("p95", "p99", "p50")
LATENCIES = {"request": "", "ttft": " first", "tpot": " next"}
"""Latency -> its word after the percentile; none for a whole request."""


class RankedBy(msgspec.Struct, frozen=True):
    """Figure by which rows are ranked."""

    id: str
    """Identifier of the column."""
    figure: FigureOf
    per: str = ""
    """Unit that a comparison has to name because the displayed price has another one: ' a token', if dollars per month are shown."""


def ranked_by(plan: Plan) -> RankedBy:
    """Figure by which solutions of `plan` are ordered, depending on the objective."""
    task = plan.task
    objective, rate = task.get("objective") or "cheapest", task.get("request_rate_per_s")
    job = ends(plan)
    if objective == "fewest-gpus":
        return RankedBy("gpus", lambda _: None)
    if objective == "flop-per-usd":
        return RankedBy("usd-per-million", lambda row: row.answer.usd_per_million_tokens)
    if objective == "fastest":
        if rate:
            return RankedBy("latency", _latency("request", "p95"))
        return RankedBy("job-h", lambda row: row.job_h) if job else RankedBy("rate", lambda row: throughput(row.answer))
    if rate:
        return RankedBy("usd-per-month", lambda row: row.usd_per_month)
    if job:
        return RankedBy("job-usd", lambda row: row.job_usd)
    return RankedBy("usd-per-million", lambda row: row.answer.usd_per_million_tokens, PRICE_UNIT)


def ends(plan: Plan) -> bool:
    """True if the work ends, so that it has total hours and dollars."""
    stated = trains(plan.task.get("task")) or plan.task.get("requests") is not None
    return stated and any(row.job_h is not None for row in plan.rows)


class Latency(msgspec.Struct, frozen=True):
    """Latency by which a service is chosen."""

    title: str
    figure: FigureOf
    limit_s: float | None
    """Target; None: none."""


def latency_of(task: Mapping[str, Any]) -> Latency | None:
    """`requested_latency` of a service; None for tasks without."""
    return requested_latency(task) if task.get("task") == "serve" else None


def requested_latency(task: Mapping[str, Any]) -> Latency:
    """Latency with a target; without targets the 95th percentile of the whole request."""
    targets = task.get("targets", {})
    for percentile in PERCENTILES:
        for name, word in LATENCIES.items():
            if limit := targets.get(f"{percentile}_{name}_s"):
                return Latency(f"{percentile}{word}", _latency(name, percentile), float(limit))
    return Latency("p95", _latency("request", "p95"), None)


def deciding_columns(plan: Plan) -> list[PlanColumn]:
    """Columns of the latency of a service, and of the probability that a row fits and meets every target."""
    columns: list[PlanColumn] = []
    if (latency := latency_of(plan.task)) is not None:
        columns.append(
            Column(
                "latency",
                latency.title,
                lambda row: _with_basis(latency.figure(row)),
                right=True,
                sort=lambda row: value_of(latency.figure(row)),
                sorts_by=f"{latency.title} latency",
            )
        )
    chance = Column(
        "sure", "sure", _sure, right=True, sort=lambda row: row.probability_meets, sorts_by="probability", best_is_high=True
    )
    return [*columns, chance]


def _latency(name: str, percentile: str) -> FigureOf:
    return lambda row: percentile_of(row, name, percentile) if row.answer.fits else None


def _with_basis(figure: Figure | None) -> Cell:
    return Cell(duration_text(figure.value), basis=figure.basis) if figure is not None else Cell()


def _sure(row: PlanRow) -> Cell:
    chance = row.probability_meets
    return Cell(percent_text(chance), share=chance) if chance is not None else Cell()
