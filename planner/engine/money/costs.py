"""Costs of a row over years in every way it can be paid for."""

from __future__ import annotations

import msgspec

from planner.engine.money.ways import Way


class WayCosts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to pay, month by month, and where it meets the first way."""

    way: Way
    usd_after_months: dict[str, float]
    """Months -> dollars owed by then."""
    break_even_months: float | None = None
    """Months after which the dearer start of the two has cost no more; None: never, or from the start on."""
    break_even_use: float | None = None
    """Share of the time in use at which both cost the same over the horizon; above 1: never."""


class ProviderCosts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cost of the same GPUs at one provider over the horizon."""

    provider: str
    instance: str
    """Instance of the lowest figure."""
    other_instances: dict[str, str] = {}
    """Market -> instance, where it is another one."""
    usd: dict[str, float]
    """Market -> dollars over the horizon, at the use asked for."""


class Costs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ways to pay for one row, compared."""

    gpu: str
    gpus: int
    use: float
    """Share of the time in use."""
    horizon_months: int
    ways: list[WayCosts]
    providers: list[ProviderCosts] = []
    usd_per_million_prompt_tokens: float | None = None
    usd_per_million_answer_tokens: float | None = None
    usd_per_million_tokens_owned: float | None = None
    """Tokens (of answers, where there are prompts) on GPUs that are one's own, at the use asked for."""
    gco2_per_million_tokens: float | None = None
    assumed: dict[str, str] = {}
