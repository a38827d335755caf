"""Options of costs over years, shared by `plan` and `report`, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from planner.cli.options import Number, options

if TYPE_CHECKING:
    from planner.engine.procurement.paying import Terms
    from planner.session import Session

NAMES = ("months", "use", "api", "api_rate", "against")
"""Parameters that `terms_of` takes by name."""


money_options = options(
    click.option("--months", type=click.IntRange(1, 120), default=36, show_default=True, metavar="N", help="Horizon of the costs."),
    click.option("--use", type=Number(0.001, 1), default=1.0, show_default=True, metavar="SHARE", help="Share of the time in use."),
    click.option("--api", metavar="NAME", help="Compare with this API, a name in the table of API prices."),
    click.option(
        "--api-price", "api_rate", metavar="IN,OUT[,CACHED]", help="The same at your own rate, in dollars per million tokens."
    ),
    click.option(
        "--against", type=Number(0, 1e6, above=True), metavar="USD", help="Compare with this price of one GPU for an hour."
    ),
)
"""Terms of costs over years."""


def terms_of(session: Session, *, months: int, use: float, api: str | None, api_rate: str | None, against: float | None) -> Terms:
    """Terms the options ask for; raises `UserError` for an API that is not in the table, and `UsageError` for a rate that is none."""
    from planner.engine.procurement.paying import Terms
    from planner.hardware.prices.api_prices import api_price

    chosen = api_price(session.api_prices, api) if api else None
    return Terms(months=months, use=use, api=_given(api_rate) if api_rate else chosen, given_usd_per_h=against)


def _given(text: str) -> Any:
    from planner.hardware.prices.api_prices import ApiPrice

    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in {2, 3} or not all(0 <= number <= 1e6 for number in numbers):
        raise click.BadParameter(
            f"{text!r} is not IN,OUT or IN,OUT,CACHED, such as 0.25,2 (dollars per million tokens).", param_hint="--api-price"
        )
    return ApiPrice(
        name="your rate",
        provider="API",
        input_usd_per_million=numbers[0],
        output_usd_per_million=numbers[1],
        cached_usd_per_million=numbers[2] if len(numbers) == 3 else None,
        as_of="",
        source="as given",
    )
