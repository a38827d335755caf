"""The columns of the ranking: what each shows, how it sorts, and which go first when there is no room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from planner.units import UNKNOWN, duration_text, percent_text, si_text

from .formatting import (
    TRAINING,
    bar_text,
    device_name,
    memory_share,
    money_text,
    rate_text,
    shorten_end,
    shorten_middle,
    spread_text,
    throughput,
)
from .symbols import Symbols

if TYPE_CHECKING:
    from planner.engine.answers import Figure, PlanRow

ORDER_WORDS: Mapping[str, str] = {
    "rank": "rank",
    "gpu": "name",
    "gpus": "number of GPUs",
    "layout": "layout",
    "memory": "share of memory",
    "rate": "tokens/s",
    "job-usd": "$ of the job",
    "usd-per-million": "$ per million tokens",
    "usd-per-h": "$/h",
    "provider": "provider",
    "job-h": "time of the job",
    "mfu": "MFU",
    "usd-per-month": "$ a month",
    "ttft": "first token",
    "request": "whole request",
    "flop-per-usd": "FLOP per $",
    "limit": "what limits",
}
"""What rows are sorted by, per column."""

Piece = tuple[str, str]
"""Text and the name of its style."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Sort keys are None where the row has no such figure; those rows go last."""

    id: str
    title: str
    width: int
    keep: int
    """Columns with the lowest number are left out first."""
    cells: Callable[[PlanRow, Symbols, int], Sequence[Piece]]
    key: Callable[[PlanRow], float | str | None]
    align: Literal["left", "right"] = "right"
    best_is_high: bool = False
    """Whether the first sort shows the highest value on top."""
    solutions_only: bool = True
    """Rows that are no solution show their reason instead."""


def _right(text: str, width: int) -> str:
    return text.rjust(width)


def _figure(figure: Figure | None, text: Callable[[float | None], str], width: int) -> list[Piece]:
    return [(_right(text(figure.value) if figure else UNKNOWN, width), "figure" if figure else "quiet")]


def _value(figure: Figure | None) -> float | None:
    return figure.value if figure else None


def _rank(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    if row.rank is not None:
        return [(_right(str(row.rank), width), "quiet")]
    return [(_right(symbols.verdict[row.verdict], width), row.verdict)]


def _gpu(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    style = "here" if row.here else "name" if row.verdict == "fits" else "quiet"
    return [(shorten_middle(device_name(row.gpu), width, symbols.ellipsis).ljust(width), style)]


def _count(row: PlanRow, _symbols: Symbols, width: int) -> list[Piece]:
    return [(_right(str(row.answer.layout.gpus) if row.answer.layout else UNKNOWN, width), "figure")]


def _layout(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    text = row.answer.layout.text if row.answer.layout else ""
    return [(shorten_end(text, width, symbols.ellipsis).ljust(width), "quiet")]


def _memory(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    share = memory_share(row.answer)
    if share is None:
        return [(_right(UNKNOWN, width), "quiet")]
    style = "does-not-fit" if share > 1 else "tight" if share > 0.95 else "fits"
    return [
        (bar_text(share, width - 5, symbols.filled, symbols.empty), style),
        (_right(f"{share * 100:.0f}%" if share < 9.995 else ">999%", 5), "figure"),
    ]


def columns_for(task: str) -> tuple[Column, ...]:
    """The columns of one task, in the order they stand."""
    training = task in TRAINING
    spread_width = 5

    def rate(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
        figure = throughput(task, row.answer)
        if figure is None:
            return [(_right(UNKNOWN, width), "quiet")]
        return [
            (_right(rate_text(figure.value), width - spread_width - 2), "figure"),
            (_right(spread_text(figure), spread_width), "quiet"),
            (f" {symbols.basis[figure.basis]}", figure.basis),
        ]

    money = (
        Column("job-usd", "$/job", 7, 9, lambda r, _, w: _figure(r.job_usd, money_text, w), lambda r: _value(r.job_usd))
        if training
        else Column(
            "usd-per-million",
            "$/M tok",
            7,
            9,
            lambda r, _, w: _figure(r.answer.usd_per_million_tokens, money_text, w),
            lambda r: _value(r.answer.usd_per_million_tokens),
        )
    )
    extra = (
        (
            Column(
                "job-h",
                "job",
                8,
                6,
                lambda r, _, w: [(_right(duration_text(r.job_h.value * 3600) if r.job_h else UNKNOWN, w), "figure")],
                lambda r: _value(r.job_h),
            ),
            Column(
                "mfu",
                "MFU",
                6,
                2,
                lambda r, _, w: _figure(r.answer.mfu, percent_text, w),
                lambda r: _value(r.answer.mfu),
                best_is_high=True,
            ),
        )
        if training
        else (
            Column(
                "usd-per-month",
                "$/month",
                8,
                3,
                lambda r, _, w: _figure(r.usd_per_month, money_text, w),
                lambda r: _value(r.usd_per_month),
            ),
            Column("ttft", "1st tok", 8, 2, lambda r, _, w: _figure(_ttft(r), duration_text, w), lambda r: _value(_ttft(r))),
            Column(
                "request", "request", 8, 2, lambda r, _, w: _figure(_request(r), duration_text, w), lambda r: _value(_request(r))
            ),
        )
    )
    return (
        Column("rank", "", 3, 12, _rank, lambda r: r.rank, solutions_only=False),
        Column("gpu", "GPU", 14, 12, _gpu, lambda r: r.gpu.casefold(), align="left", solutions_only=False),
        Column("gpus", "×", 3, 11, _count, lambda r: r.answer.layout.gpus if r.answer.layout else None, solutions_only=False),
        Column(
            "layout",
            "layout",
            11,
            5,
            _layout,
            lambda r: r.answer.layout.text if r.answer.layout else None,
            align="left",
            solutions_only=False,
        ),
        Column("memory", "memory", 9, 10, _memory, lambda r: memory_share(r.answer), solutions_only=False),
        Column("rate", "tokens/s     ", 13, 10, rate, lambda r: _value(throughput(task, r.answer)), best_is_high=True),
        money,
        Column("usd-per-h", "$/h", 7, 8, lambda r, _, w: _figure(r.usd_per_h, money_text, w), lambda r: _value(r.usd_per_h)),
        Column(
            "provider",
            "where",
            10,
            7,
            lambda r, s, w: [(shorten_end(r.offer.provider if r.offer else UNKNOWN, w, s.ellipsis).ljust(w), "quiet")],
            lambda r: r.offer.provider.casefold() if r.offer else None,
            align="left",
        ),
        *extra,
        Column(
            "flop-per-usd",
            "FLOP/$",
            8,
            4,
            lambda r, _, w: _figure(r.answer.flop_per_usd, si_text, w),
            lambda r: _value(r.answer.flop_per_usd),
            best_is_high=True,
        ),
        Column(
            "limit",
            "limit",
            9,
            7,
            lambda r, s, w: [(shorten_end(r.answer.bottleneck or UNKNOWN, w, s.ellipsis).ljust(w), "limit")],
            lambda r: r.answer.bottleneck,
            align="left",
        ),
    )


def _ttft(row: PlanRow) -> Figure | None:
    latency = row.answer.ttft_s
    return (latency.p95 or latency.mean) if latency else None


def _request(row: PlanRow) -> Figure | None:
    latency = row.answer.request_s
    return (latency.p95 or latency.mean) if latency else None


GAP_WIDE, GAP_TIGHT = 2, 1
WANTED = 7
"""Columns that are kept at least this much make the gaps narrow before they go."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns there is room for."""

    columns: tuple[tuple[Column, int], ...] = ()
    """Each with its width."""
    gap: int = GAP_WIDE


def fit_columns(columns: Sequence[Column], width: int, rows: Sequence[PlanRow]) -> Fitted:
    """Choose columns for `width` cells; those no row fills are left out, providers and then GPUs take what is left over."""
    filled = [
        replace(column, width=_count_width(rows)) if column.id == "gpus" else column
        for column in columns
        if column.keep >= 10 or any(column.key(row) is not None for row in rows)
    ]
    longest = {
        "provider": max((len(row.offer.provider) for row in rows if row.offer), default=0),
        "gpu": max((len(device_name(row.gpu)) for row in rows), default=16),
    }
    wide = _kept(filled, width, GAP_WIDE)
    tight = _kept(filled, width, GAP_TIGHT)
    wanted = [column for column in filled if column.keep >= WANTED]
    kept, gap = (wide, GAP_WIDE) if all(column in wide for column in wanted) else (tight, GAP_TIGHT)
    spare = max(0, width - _width(kept, gap))
    widths = {column.id: column.width for column in kept}
    for name in ("provider", "gpu"):
        more = min(spare, max(0, longest[name] - widths.get(name, longest[name])))
        if more:
            widths[name] += more
            spare -= more
    return Fitted(tuple((column, widths[column.id]) for column in kept), gap)


def _count_width(rows: Sequence[PlanRow]) -> int:
    """Cells of the largest count of GPUs, at least three."""
    return max([3, *(len(str(row.answer.layout.gpus)) for row in rows if row.answer.layout)])


def _kept(columns: Sequence[Column], width: int, gap: int) -> list[Column]:
    """The most wanted columns that fit, in the order they stand."""
    kept: list[Column] = []
    for column in sorted(columns, key=lambda column: -column.keep):
        if _width([*kept, column], gap) <= width or column.keep >= 12:
            kept.append(column)
    return [column for column in columns if column in kept]


def _width(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns) - gap
