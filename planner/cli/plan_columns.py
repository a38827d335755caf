"""The columns of a plan, and how its figures read: value, range, and the sign of what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan, PlanRow
from planner.units import SECONDS_PER_HOUR, UNKNOWN, digits, duration_text, percent_text, si_text, usd_text

BASIS_SIGNS = {"measured": "●", "transferred": "◐", "public": "○", "spec": "·"}
"""Shown beside the figure they qualify; strongest first."""
BASIS_WORDS = {
    "measured": "measured here",
    "transferred": "carried over from a part measured here",
    "public": "published measurement",
    "spec": "vendor figures",
}
VERDICT_SIGNS = {"fits": "✓", "misses-target": "~", "does-not-fit": "✗", "not-supported": "–"}
MARKETING = ("(R)", "(TM)", "(tm)", " Processor", " CPU")
LEAST_WHY_WIDTH = 28


class PlanColumn(NamedTuple):
    """One column: its cell for a row, and which columns go first where there is no room."""

    title: str
    cell: Callable[[PlanRow], str]
    keep: int
    """Columns with the lowest number are left out first."""
    right: bool = True


def throughput(answer: Answer) -> Figure | None:
    """Tokens/s of the whole deployment: output tokens where there are any, else all tokens."""
    return answer.output_tokens_per_s or answer.tokens_per_s or answer.decode_tokens_per_s


NEARLY = 1 - 1e-9
"""Of the side below: a side above that is smaller was cut at what cannot be exceeded, as a share at 100 %."""


def spread_text(figure: Figure) -> str:
    """The wider side of a range: '±14 %', or '×÷2.4' where a percentage would reach below zero; both where its top is cut: '+4/-13 %'."""
    if not figure.value or figure.low == figure.high:
        return ""
    above, below = figure.high / figure.value - 1, 1 - figure.low / figure.value
    if above < below * NEARLY:
        up = f"+{above * 100:.0f}/" if above >= 0.005 else ""
        return f"{up}-{percent_text(below)}"
    wider = max(above, below)
    if wider < 0.995:
        return f"±{percent_text(wider)}"
    factor = max(figure.high / figure.value, figure.value / figure.low if figure.low > 0 else 1.0)
    return f"×÷{digits(factor, 2)}"


def device_name(row: PlanRow) -> str:
    """What a row's device is called: without what marketing adds, and told when it is in this machine."""
    name = row.gpu
    for noise in MARKETING:
        name = name.replace(noise, "")
    return " ".join(name.split()) + (", here" if row.here else "")


def columns_for(plan: Plan) -> list[PlanColumn]:
    """The columns that mean something for the task of `plan`, in the order they stand; the reason comes last."""
    by_compute = plan.task.get("objective") == "flop-per-usd"
    return [
        PlanColumn("#", lambda row: str(row.rank) if row.rank else VERDICT_SIGNS[row.verdict], 100),
        PlanColumn("GPU", device_name, 100, right=False),
        PlanColumn("×", lambda row: f"{row.answer.layout.gpus:,}" if row.answer.layout else UNKNOWN, 99),
        PlanColumn("layout", lambda row: row.answer.layout.text if row.answer.layout else UNKNOWN, 40, right=False),
        PlanColumn("memory", _memory, 70),
        PlanColumn(throughput_title(plan), _rate, 98),
        PlanColumn("$/h", lambda row: _value(row.usd_per_h, usd_text), 95),
        *_money_of_the_task(plan),
        PlanColumn("$/M tok", lambda row: _value(_runs(row) and row.answer.usd_per_million_tokens, usd_text), 60),
        PlanColumn("FLOP/$", lambda row: _value(_runs(row) and row.answer.flop_per_usd, si_text), 97 if by_compute else 20),
        PlanColumn("limit", lambda row: (_runs(row) and row.answer.bottleneck) or UNKNOWN, 50, right=False),
        PlanColumn("provider", lambda row: row.offer.provider if row.offer else UNKNOWN, 93, right=False),
        PlanColumn("why", lambda row: row.why, 100, right=False),
    ]


def throughput_title(plan: Plan) -> str:
    """What `throughput` counts for the task of `plan`."""
    return "out tok/s" if plan.task.get("task") in {"serve", "generate"} else "tokens/s"


def reason(row: PlanRow, *, limit_shown: bool) -> str:
    """Why a row is where it is; without its limit where a column has it."""
    if not limit_shown:
        return row.why
    return row.why.removesuffix(f"limited by {row.answer.bottleneck}").rstrip("; ") or row.why


def basis_legend(rows: Iterable[PlanRow]) -> str:
    """The meaning of the signs that `rows` use; empty when they use none."""
    figures = [figure for row in rows if _runs(row) and (figure := throughput(row.answer))]
    used = {figure.basis for figure in figures}
    signs = [f"{sign} {BASIS_WORDS[basis]}" for basis, sign in BASIS_SIGNS.items() if basis in used]
    marks = " and ".join(mark for mark in ("±", "×÷") if any(mark in spread_text(figure) for figure in figures))
    return "   ".join([*signs, *([f"{marks}: the truth lies inside 9 times in 10"] if marks else [])])


def _runs(row: PlanRow) -> bool:
    """Whether the candidate can run at all; how fast it would be if it could is nothing to plan with."""
    return row.answer.fits


def _money_of_the_task(plan: Plan) -> list[PlanColumn]:
    """Dollars and time of a job that ends; dollars a month of a service that does not."""
    if any(row.job_h for row in plan.rows):
        return [
            PlanColumn("$ job", lambda row: _value(_runs(row) and row.job_usd, usd_text), 94),
            PlanColumn(
                "job takes", lambda row: _value(_runs(row) and row.job_h, lambda hours: duration_text(hours * SECONDS_PER_HOUR)), 80
            ),
        ]
    if plan.task.get("task") in {"serve", "generate"}:
        return [PlanColumn("$/month", lambda row: _value(row.usd_per_month, usd_text), 94)]
    return []


def _memory(row: PlanRow) -> str:
    """Share of the usable memory of the fullest GPU; as a multiple where it is far beyond."""
    memory = row.answer.memory_bytes
    if memory is None or not memory.capacity:
        return UNKNOWN
    share = memory.total.value / memory.capacity
    return percent_text(share) if share < 9.995 else f"{digits(share)}×"


def _rate(row: PlanRow) -> str:
    figure = throughput(row.answer)
    if not _runs(row) or figure is None:
        return UNKNOWN
    value = si_text(figure.value) if figure.value >= 999_500 else digits(figure.value)
    return " ".join(filter(None, (value, spread_text(figure), BASIS_SIGNS[figure.basis])))


def _value(figure: Figure | Literal[False] | None, show: Callable[[float], str]) -> str:
    return show(figure.value) if figure else UNKNOWN
