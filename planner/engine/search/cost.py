"""Dollars: from a price per hour to a token, a job and a month."""

from __future__ import annotations

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.units import SECONDS_PER_HOUR


def inverse(figure: Figure, factor: float) -> Figure:
    """Factor ÷ figure; the range turns round."""
    return Figure(factor / figure.value, factor / figure.high, factor / figure.low, figure.basis)


def scaled(figure: Figure, factor: float) -> Figure:
    """Figure · factor."""
    return Figure(figure.value * factor, figure.low * factor, figure.high * factor, figure.basis)


def priced(answer: Answer, usd_per_gpu_h: float | None, usd_per_h: float | None = None) -> Answer:
    """`answer` with dollars per million tokens and FLOPs per dollar, at a price a GPU or of the whole deployment.

    USD/M tokens = 1e6 · USD/h ÷ 3600 ÷ tokens/s; FLOP/USD = FLOP/token · tokens/s · 3600 ÷ USD/h.
    """
    layout, rate = answer.layout, answer.tokens_per_s
    price = usd_per_h if usd_per_h is not None else usd_per_gpu_h * layout.gpus if usd_per_gpu_h and layout else None
    if price is None or rate is None or rate.value <= 0:
        return answer
    return msgspec.structs.replace(
        answer,
        usd_per_million_tokens=inverse(rate, 1e6 * price / SECONDS_PER_HOUR),
        flop_per_usd=scaled(rate, answer.flop_per_token * SECONDS_PER_HOUR / price) if answer.flop_per_token else None,
    )
