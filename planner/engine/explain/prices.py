"""Dollars of an answer: from a price per hour to a million tokens, and the computation a dollar buys."""

from __future__ import annotations

import msgspec

from planner.engine.answers.answer import Answer
from planner.units import SECONDS_PER_HOUR


def priced(answer: Answer, usd_per_h: float | None) -> Answer:
    """`answer` with dollars per million tokens and FLOPs per dollar, at the price of the whole deployment.

    USD/M tokens = 1e6 · USD/h ÷ 3600 ÷ tokens/s; FLOP/USD = FLOP/token · tokens/s · 3600 ÷ USD/h.
    """
    rate = answer.tokens_per_s
    if usd_per_h is None or rate is None or rate.value <= 0:
        return answer
    return msgspec.structs.replace(
        answer,
        usd_per_million_tokens=rate.inverse(1e6 * usd_per_h / SECONDS_PER_HOUR),
        flop_per_usd=rate.scaled(answer.flop_per_token * SECONDS_PER_HOUR / usd_per_h) if answer.flop_per_token else None,
    )
