"""Verdicts of models on given hardware, and the order they are listed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import get_args

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.fit import FitRow, Order
from planner.engine.answers.plan import SOLUTIONS, Verdict
from planner.units import digits, duration_text, percent_text
from planner.workload.tasks import Request
from planner.workload.weights import FORMATS

LARGE = 0.5
"""Minimum parameters of models of similar size, as a share of the largest: otherwise the smallest model would always be the fastest."""
FULL = 0.75
"""Share of the bits of a class from which on a format belongs to it: 6-bit formats to 8 bits."""
KEEPS_UP = 0.99
"""Share of a request rate that has to be answered."""
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def verdict_of(answer: Answer, request: Request, chance: float) -> tuple[Verdict, str]:
    """(verdict, why) of a candidate that fits with probability `chance`."""
    if not answer.fits:
        return "does-not-fit", answer.reason or ""
    late = [
        f"{limit.share} {limit.latency} {duration_text(figure.value)}, wanted {duration_text(limit.seconds)}"
        for limit in request.targets.latency_limits()
        if (latency := getattr(answer, f"{limit.latency}_s")) is not None
        and (figure := getattr(latency, limit.share)) is not None
        and figure.value > limit.seconds
    ]
    wanted, reached = request.request_rate_per_s, answer.requests_per_s
    if wanted and reached is not None and reached.value < wanted * KEEPS_UP:
        late.append(f"{digits(reached.value)} requests/s of the {digits(wanted)} that come")
    if late:
        return "misses-target", f"misses: {'; '.join(late)}"
    limit = f"limited by {answer.bottleneck}"
    if chance >= request.confidence:
        return "fits", limit
    return "may-not-fit", f"{chance_text(chance)}; {limit}"


def chance_text(chance: float) -> str:
    """Words for the probability that the memory is enough."""
    return f"fits with a chance of {percent_text(chance)}"


def ranked(rows: Sequence[FitRow], order: Order) -> list[FitRow]:
    """Solutions first, in the wanted order and numbered; then rows that miss a target, and then the rest, the nearest first.

    Except by size, models at least half as large as the largest that fits come first, then those at least half as large as these, and so on.
    """
    measure, largest = _ORDERS[order], max(map(parameters, _solutions(rows)), default=0)

    def by(row: FitRow) -> tuple[float, ...]:
        return measure(row) if order == "size" else (_halvings(parameters(row), largest), *measure(row))

    in_order = sorted(rows, key=lambda row: (_VERDICTS.index(row.verdict), _short(row), *by(row), row.model))
    return [
        msgspec.structs.replace(row, rank=place) if row.verdict in SOLUTIONS else row for place, row in enumerate(in_order, start=1)
    ]


def _solutions(rows: Sequence[FitRow]) -> list[FitRow]:
    """Rows that surely fit; without one, those that may."""
    return [row for row in rows if row.verdict == "fits"] or [row for row in rows if row.verdict in SOLUTIONS]


def _halvings(size: int, largest: int) -> float:
    """Class of a model's size: 0 from `LARGE` of the largest on, 1 from `LARGE` of that on."""
    if not size:
        return math.inf
    return max(0, math.ceil(math.log(size / largest, LARGE)) - 1) if size < largest else 0


def parameters(row: FitRow) -> int:
    """Total parameters of the model; 0: unknown."""
    return row.answer.parameters.total if row.answer.parameters else 0


def _short(row: FitRow) -> float:
    """Memory needed over memory available for a row that does not fit; 0 for a row that does."""
    memory = row.answer.memory_bytes
    return 0.0 if row.fits or memory is None else memory.total.value / memory.capacity


def precision_bits(weight_dtype: str) -> int:
    """Class of a weight's precision, in bits: 32, 16, 8 or 4; formats of one class are ranked by speed."""
    bits = FORMATS[weight_dtype].bits if weight_dtype in FORMATS else 0.0
    return next((size for size in (32, 16, 8) if bits >= size * FULL), 4)


def _size(row: FitRow) -> tuple[float, ...]:
    return -parameters(row), -precision_bits(row.weight_dtype), -_speed(row)


def _speed(row: FitRow) -> float:
    rate = row.answer.output_tokens_per_s or row.answer.tokens_per_s
    return rate.value if rate else 0.0


_ORDERS: dict[Order, Callable[[FitRow], tuple[float, ...]]] = {
    "size": _size,
    "speed": lambda row: (-_speed(row),),
    "users": lambda row: (-(row.at_once or 0), *_size(row)),
    "context": lambda row: (-(row.longest_context_tokens or 0), *_size(row)),
}
