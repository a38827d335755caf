"""The columns of the ranking: what each shows, how it sorts, and which go first when there is no room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from planner.units import UNKNOWN, duration_text, percent_text, si_text
from widgets.drawing.formatting import TRAINING, device_name, memory_share, money_text, rate_text, spread_text, throughput
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, shorten_end, shorten_middle

if TYPE_CHECKING:
    from planner.engine.answers.figure import Figure
    from planner.engine.answers.plan import PlanRow

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


def _layout_text(row: PlanRow) -> str | None:
    return row.answer.layout.text if row.answer.layout else None


def _provider(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    return [(shorten_end(row.offer.provider if row.offer else UNKNOWN, width, symbols.ellipsis).ljust(width), "quiet")]


def _limit(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
    return [(shorten_end(row.answer.bottleneck or UNKNOWN, width, symbols.ellipsis).ljust(width), "limit")]


def _job_time(row: PlanRow, _symbols: Symbols, width: int) -> list[Piece]:
    return [(_right(duration_text(row.job_h.value * 3600 if row.job_h else None), width), "figure")]


def _ttft(row: PlanRow) -> Figure | None:
    latency = row.answer.ttft_s
    return (latency.p95 or latency.mean) if latency else None


def _request(row: PlanRow) -> Figure | None:
    latency = row.answer.request_s
    return (latency.p95 or latency.mean) if latency else None


def _figures(
    name: str,
    title: str,
    width: int,
    keep: int,
    of: Callable[[PlanRow], Figure | None],
    text: Callable[[float | None], str],
    *,
    best_is_high: bool = False,
) -> Column:
    """A column of figures, drawn as `text` and sorted by value."""
    return Column(
        name, title, width, keep, lambda r, _, w: _figure(of(r), text, w), lambda r: _value(of(r)), best_is_high=best_is_high
    )


def _rate_column(task: str) -> Column:
    """Tokens/s with their spread and what they rest on."""

    def rate(row: PlanRow, symbols: Symbols, width: int) -> list[Piece]:
        figure = throughput(task, row.answer)
        if figure is None:
            return [(_right(UNKNOWN, width), "quiet")]
        return [
            (_right(rate_text(figure.value), width - SPREAD_WIDTH - 2), "figure"),
            (_right(spread_text(figure), SPREAD_WIDTH), "quiet"),
            (f" {symbols.basis[figure.basis]}", figure.basis),
        ]

    return Column("rate", "tokens/s     ", 13, 10, rate, lambda r: _value(throughput(task, r.answer)), best_is_high=True)


SPREAD_WIDTH = 5
PLACE = (
    Column("rank", "", 3, 12, _rank, lambda r: r.rank, solutions_only=False),
    Column("gpu", "GPU", 14, 12, _gpu, lambda r: r.gpu.casefold(), align="left", solutions_only=False),
    Column("gpus", "×", 3, 11, _count, lambda r: r.answer.layout.gpus if r.answer.layout else None, solutions_only=False),
    Column("layout", "layout", 11, 5, _layout, _layout_text, align="left", solutions_only=False),
    Column("memory", "memory", 9, 10, _memory, lambda r: memory_share(r.answer), solutions_only=False),
)
"""What the row is, and whether it fits."""
OFFER = (
    _figures("usd-per-h", "$/h", 7, 8, lambda r: r.usd_per_h, money_text),
    Column("provider", "where", 10, 7, _provider, lambda r: r.offer.provider.casefold() if r.offer else None, align="left"),
)
WORTH = (
    _figures("flop-per-usd", "FLOP/$", 8, 4, lambda r: r.answer.flop_per_usd, si_text, best_is_high=True),
    Column("limit", "limit", 9, 7, _limit, lambda r: r.answer.bottleneck, align="left"),
)
JOB_USD = _figures("job-usd", "$/job", 7, 9, lambda r: r.job_usd, money_text)
JOB = (
    Column("job-h", "job", 8, 6, _job_time, lambda r: _value(r.job_h)),
    _figures("mfu", "MFU", 6, 2, lambda r: r.answer.mfu, percent_text, best_is_high=True),
)
TOKENS_USD = _figures("usd-per-million", "$/M tok", 7, 9, lambda r: r.answer.usd_per_million_tokens, money_text)
SERVICE = (
    _figures("usd-per-month", "$/month", 8, 3, lambda r: r.usd_per_month, money_text),
    _figures("ttft", "1st tok", 8, 2, _ttft, duration_text),
    _figures("request", "request", 8, 2, _request, duration_text),
)


def columns_for(task: str) -> tuple[Column, ...]:
    """The columns of one task, in the order they stand."""
    money, own = (JOB_USD, JOB) if task in TRAINING else (TOKENS_USD, SERVICE)
    return (*PLACE, _rate_column(task), money, *OFFER, *own, *WORTH)


GAP_WIDE, GAP_TIGHT = 2, 1
WANTED = 7
"""Columns that are kept at least this much make the gaps narrow before they go."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns there is room for."""

    columns: tuple[tuple[Column, int], ...] = ()
    """Each with its width."""
    gap: int = GAP_WIDE


def fit_columns(columns: Sequence[Column], width: int, rows: Sequence[PlanRow], *, every: bool = False) -> Fitted:
    """Choose columns for `width` cells; those no row fills are left out, and what is left over goes to words that were cut.

    `every`: keep all of them and cut no word, however wide that is, except names of GPUs at a quarter of the width.
    """
    filled = [
        replace(column, width=_count_width(rows)) if column.id == "gpus" else column
        for column in columns
        if column.keep >= 10 or any(column.key(row) is not None for row in rows)
    ]
    longest = _longest_words(rows)
    if every:
        longest["gpu"] = min(longest["gpu"], width // 4)
        return Fitted(tuple((column, max(column.width, longest.get(column.id, 0))) for column in filled), GAP_WIDE)
    kept, gap = _chosen(filled, width)
    spare = max(0, width - _width(kept, gap))
    widths = {column.id: column.width for column in kept}
    for name, cells in longest.items():
        more = min(spare, max(0, cells - widths.get(name, cells)))
        if more:
            widths[name] += more
            spare -= more
    return Fitted(tuple((column, widths[column.id]) for column in kept), gap)


def _longest_words(rows: Sequence[PlanRow]) -> dict[str, int]:
    """Cells of the longest entry of the columns of words, those that get spare room first in front."""
    return {
        "provider": max((len(row.offer.provider) for row in rows if row.offer), default=0),
        "layout": max((len(_layout_text(row) or "") for row in rows), default=0),
        "gpu": max((len(device_name(row.gpu)) for row in rows), default=16),
        "limit": max((len(row.answer.bottleneck or "") for row in rows), default=0),
    }


def _chosen(columns: Sequence[Column], width: int) -> tuple[list[Column], int]:
    """The columns kept and the gap between them: a narrow one where that saves one of those that are wanted."""
    wide = _kept(columns, width, GAP_WIDE)
    if all(column in wide for column in columns if column.keep >= WANTED):
        return wide, GAP_WIDE
    return _kept(columns, width, GAP_TIGHT), GAP_TIGHT


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
