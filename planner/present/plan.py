"""Ranking: its columns, the reasons of its rows, and the text above and below the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from planner.engine.answers.figure import Figure, Percentiles, value_of
from planner.present.cells import Cell, Column, NumberText, Table, basis_legend, figure_cell, range_cell
from planner.present.names import VERDICT_SIGNS, model_name, row_device
from planner.present.prices import network_text, provider_text
from planner.units import (
    SECONDS_PER_HOUR,
    UNKNOWN,
    count_text,
    digits,
    duration_text,
    is_known,
    number_text,
    percent_text,
    si_text,
    usd_text,
)
from planner.workload.tasks import trains

if TYPE_CHECKING:
    from planner.engine.answers.answer import Answer
    from planner.engine.answers.plan import Plan, PlanRow

GENERATING = ("serve", "generate")
IDENTITY = ("rank", "gpu", "gpus", "layout", "memory")
"""Columns that identify a row and its verdict; the others are empty for a row that cannot run."""
ALWAYS = (*IDENTITY, "rate", "usd-per-h", "usd-per-million", "flop-per-usd", "limit", "provider", "why")
"""Columns that are kept even if all rows are unknown."""
LEAST_WHY_WIDTH = 28
FIRST_REASONS, OTHER_REASONS = 3, 2
"""Numbers of rows whose reasons are listed below a table without room for them: solutions, and others."""

PlanColumn = Column["PlanRow"]
FigureOf = Callable[["PlanRow"], "Figure | None"]


def throughput(answer: Answer) -> Figure | None:
    """Tokens/s of the whole deployment: output tokens if there are any, else all tokens."""
    return answer.output_tokens_per_s or answer.tokens_per_s or answer.decode_tokens_per_s


def throughput_label(task: Mapping[str, Any]) -> str:
    """Long name of `throughput`."""
    return "output tokens/s" if task.get("task") in GENERATING else "tokens/s"


def rate_text(value: float | None) -> str:
    """Tokens per second with three digits in at most six characters: '5,210', '41.8', '185 k', '1.24 M', '0.0075'."""
    if value is None or not is_known(value):
        return UNKNOWN
    if 0 < value < 0.001:
        return "<0.001"
    return si_text(value) if value >= 99_950 else digits(value, 2 if value < 0.01 else 3)


def money_text(value: float | None) -> str:
    """Dollars in at most seven characters: '0.00123', '22.41', '16,400', '1.24 M'."""
    if value is None or not is_known(value):
        return UNKNOWN
    if value >= 999_500:
        return count_text(value)
    if 0 < value < 0.0001:
        return "<0.0001"
    return digits(value, 2) if 0 < value < 0.001 else usd_text(value)


def hours_text(value: float) -> str:
    """Hours in a convenient unit: '4.1 h', '12 d'."""
    return duration_text(value * SECONDS_PER_HOUR)


def memory_share(answer: Answer) -> float | None:
    """Used fraction of the usable memory of the fullest GPU."""
    memory = answer.memory_bytes
    return memory.total.value / memory.capacity if memory is not None and memory.capacity > 0 else None


def p95_or_mean(latency: Percentiles | None) -> Figure | None:
    """95th percentile of a latency, or its mean if only that is known."""
    return (latency.p95 or latency.mean) if latency else None


def percentile_of(row: PlanRow, name: str, percentile: str) -> Figure | None:
    """One percentile of the latency `name` ('request', 'ttft', 'tpot', 'wait')."""
    latency = getattr(row.answer, f"{name}_s")
    found: Figure | None = getattr(latency, percentile) if latency is not None else None
    return found


def columns_for(plan: Plan) -> list[PlanColumn]:
    """Columns for the task of `plan`, from left to right, without those that are empty in all rows."""
    return [
        column
        for column in _columns(plan.task)
        if column.id in ALWAYS or column.sort is None or any(column.sort(row) is not None for row in plan.rows)
        if column.id != "network" or any(row.answer.network and row.answer.network.nodes > 1 for row in plan.rows)
    ]


def plan_table(plan: Plan) -> Table[PlanRow]:
    """Table of the whole ranking; the first row is emphasised, and rows that are no solution are faint."""
    return Table(columns_for(plan), plan.rows, lambda row: "strong" if row.rank == 1 else "faint" if row.rank is None else "")


def _columns(task: Mapping[str, Any]) -> list[PlanColumn]:
    training = trains(task.get("task"))
    ends = training or task.get("requests") is not None
    month = _figures("usd-per-month", "$/month", lambda row: row.usd_per_month, money_text, 94, "$ a month")
    return [
        Column("rank", "#", _rank, right=True, sort=lambda row: row.rank, sorts_by="rank"),
        Column("gpu", "GPU", row_device, sort=lambda row: row.gpu.casefold(), sorts_by="name"),
        Column("gpus", "×", _gpus, right=True, priority=99, sort=_gpu_count, sorts_by="number of GPUs"),
        Column("layout", "layout", lambda row: _layout(row) or UNKNOWN, priority=40, sort=_layout, sorts_by="layout"),
        Column(
            "memory",
            "memory",
            _memory,
            right=True,
            priority=92,
            sort=lambda row: memory_share(row.answer),
            sorts_by="share of memory",
        ),
        Column(
            "rate",
            "out tok/s" if task.get("task") in GENERATING else "tokens/s",
            lambda row: range_cell(_rate(row), rate_text),
            right=True,
            priority=98,
            sort=lambda row: value_of(_rate(row)),
            sorts_by="tokens/s",
            best_is_high=True,
        ),
        _figures("usd-per-h", "$/h", lambda row: row.usd_per_h, money_text, 95, "$/h"),
        Column(
            "purchase",
            "buy, $",
            lambda row: money_text(_purchase(row)),
            right=True,
            priority=91,
            sort=_purchase,
            sorts_by="price of what is bought",
        ),
        *(job_columns() if ends else [month]),
        *([] if training else _latency_columns()),
        *_efficiency_columns(60 if training else 85, 97 if task.get("objective") == "flop-per-usd" else 20),
        Column("limit", "limit", lambda row: _limit(row) or UNKNOWN, priority=75, sort=_limit, sorts_by="what limits"),
        Column(
            "provider",
            "provider",
            lambda row: provider_text(row, task) or UNKNOWN,
            priority=93,
            sort=lambda row: provider_text(row, task),
            sorts_by="provider",
        ),
        Column("network", "network", lambda row: network_text(row) or UNKNOWN, priority=50, sort=network_text, sorts_by="network"),
        Column("why", "why", lambda row: row.why, least_width=LEAST_WHY_WIDTH),
    ]


def _efficiency_columns(of_tokens: int, of_flop: int) -> Iterator[PlanColumn]:
    """Columns of dollars per million tokens and FLOP per dollar, with the given priorities."""
    tokens, flop = (_if_it_fits(attrgetter(f"answer.{name}")) for name in ("usd_per_million_tokens", "flop_per_usd"))
    yield _figures("usd-per-million", "$/M tok", tokens, money_text, of_tokens, "$ per million tokens")
    yield _figures("flop-per-usd", "FLOP/$", flop, si_text, of_flop, "FLOP per $", best_is_high=True)


def job_columns() -> list[PlanColumn]:
    """Columns of cost and duration of a job that ends."""
    return [
        _figures("job-usd", "$/job", _if_it_fits(lambda row: row.job_usd), money_text, 94, "$ of the job"),
        _figures("job-h", "job takes", _if_it_fits(lambda row: row.job_h), hours_text, 80, "time of the job"),
        _figures("mfu", "MFU", _if_it_fits(lambda row: row.answer.mfu), percent_text, 15, "MFU", best_is_high=True),
    ]


def _latency_columns() -> list[PlanColumn]:
    """Columns of the latencies of a request."""
    return [
        _figures("ttft", "1st tok", _if_it_fits(lambda row: p95_or_mean(row.answer.ttft_s)), duration_text, 12, "first token"),
        _figures(
            "request", "request", _if_it_fits(lambda row: p95_or_mean(row.answer.request_s)), duration_text, 10, "whole request"
        ),
    ]


def _figures(
    id: str,  # noqa: A002  # the field's name
    title: str,
    figure_of: FigureOf,
    text: NumberText,
    priority: int,
    sorts_by: str,
    *,
    best_is_high: bool = False,
) -> PlanColumn:
    """Column of figures without ranges, sorted by value."""
    return Column(
        id,
        title,
        lambda row: figure_cell(figure_of(row), text),
        right=True,
        priority=priority,
        sort=lambda row: value_of(figure_of(row)),
        sorts_by=sorts_by,
        best_is_high=best_is_high,
    )


def _if_it_fits(figure_of: FigureOf) -> FigureOf:
    """`figure_of`, but None for a candidate that cannot run."""
    return lambda row: figure_of(row) if row.answer.fits else None


def _purchase(row: PlanRow) -> float | None:
    """Price of GPUs to buy; None for others."""
    return row.owned.price_usd if row.owned is not None and row.owned.bought else None


def _rank(row: PlanRow) -> str:
    return str(row.rank) if row.rank else VERDICT_SIGNS[row.verdict]


def _gpu_count(row: PlanRow) -> int | None:
    return row.answer.layout.gpus if row.answer.layout else None


def _gpus(row: PlanRow) -> str:
    return number_text(_gpu_count(row))


def _layout(row: PlanRow) -> str | None:
    return row.answer.layout.text if row.answer.layout else None


def _memory(row: PlanRow) -> Cell:
    """Used share of the usable memory of the fullest GPU; as a multiple if it is far too high."""
    share = memory_share(row.answer)
    if share is None:
        return Cell()
    return Cell(percent_text(share) if share < 9.995 else f"{digits(share)}×", share=share)


def _rate(row: PlanRow) -> Figure | None:
    """Throughput of a candidate that can run."""
    return throughput(row.answer) if row.answer.fits else None


def _limit(row: PlanRow) -> str | None:
    return row.answer.bottleneck if row.answer.fits else None


def legend(rows: Sequence[PlanRow]) -> str:
    """Explanation of the signs in the column of throughput; empty if there are none."""
    return basis_legend(figure for row in rows if (figure := _rate(row)))


def reason(row: PlanRow, *, limit_shown: bool) -> str:
    """Reason for the rank of a row, without the limit if a column shows it."""
    if not limit_shown:
        return row.why
    return row.why.removesuffix(f"limited by {row.answer.bottleneck}").rstrip("; ") or row.why


def reasons(plan: Plan, *, limit_shown: bool) -> list[str]:
    """Reasons for the ranks of the first rows, of this machine, and of the nearest rows that are no solution."""
    solutions = [row for row in plan.rows if row.rank]
    others = [row for row in plan.rows if not row.rank and not row.here]
    listed = [*solutions[:FIRST_REASONS], *others[:OTHER_REASONS], *(row for row in plan.rows if row.here)]
    return list(dict.fromkeys(f"{_rank(row)} {row_device(row)}: {reason(row, limit_shown=limit_shown)}" for row in listed))


def heading(plan: Plan) -> list[str]:
    """Summary of a plan: the workload, the number of candidates that fit, the objective, and the age of the prices."""
    task, counts = plan.task, plan.counts
    parts = [
        task.get("title") or f"{model_name(task)}, {task['task']}",
        fit_text(plan),
        str(task.get("objective", "cheapest")),
    ]
    if counts.shown < counts.considered:
        parts.append(f"{counts.shown} shown")
    return [*parts, *([f"prices {plan.prices_as_of}"] if plan.prices_as_of else [])]


def fit_text(plan: Plan) -> str:
    """Number of candidates that fit, or that fit in memory if some of them miss a target."""
    counts = plan.counts
    missing = plan.best is None or any(row.verdict == "misses-target" and not row.here for row in plan.rows)
    return f"{counts.fit:,} of {counts.considered:,} fit{' in memory' if missing and counts.fit else ''}"
