"""`gpu-planner offers`: rental prices of all GPUs or of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from planner.cli.commands import DefaultGroup, LazyCommand
from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_items, print_json
from planner.errors import Problem, UserError
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import nearest_providers
from planner.session import Session
from planner.units import usd_text

REFRESH = {"refresh": LazyCommand("catalogue.refresh:refresh", "Fetch today's prices from the SkyPilot catalogue.")}


@click.group(cls=DefaultGroup, default="list", of_word="show", lazy=REFRESH)
def offers() -> None:
    """Rental prices, each with its date and source."""


@offers.command("list")
@click.option("--provider", metavar="NAME", help="This provider only.")
@json_option
@pass_invocation
def list_offers(invocation: Invocation, provider: str | None, as_json: bool) -> int:
    """List every offer, cheapest GPU hour first."""
    session = invocation.session()
    known = session.offers
    if provider is not None:
        names = {offer.provider for offer in known}
        known = tuple(offer for offer in known if offer.provider.casefold() == provider.casefold())
        if not known:
            message = f"{provider!r} is not a known provider; known: {', '.join(sorted(names))}."
            raise UserError(Problem("--provider", "", message, nearest_providers(provider, names)))
    return _print_offers(known, session, as_json)


@offers.command("show")
@click.argument("gpu", shell_complete=gpu_names)
@json_option
@pass_invocation
def show_offers(invocation: Invocation, gpu: str, as_json: bool) -> int:
    """List the offers of one GPU, cheapest GPU hour first."""
    session = invocation.session()
    name = session.gpus.find(gpu).name
    return _print_offers(tuple(offer for offer in session.offers if offer.gpu == name), session, as_json)


PRICES = {
    "$/h": "on_demand_usd_per_h",
    "spot $/h": "spot_usd_per_h",
    "1 year $/h": "reserved_1y_usd_per_h",
    "3 years $/h": "reserved_3y_usd_per_h",
}
"""Prices of the whole instance; a column that no offer has is left out."""


def _print_offers(found: Sequence[Offer], session: Session, as_json: bool) -> int:
    """Print `found`; the exit code is 1 if there are none."""
    from planner.present.prices import kind_text, sold_network_text

    yours, records = {offer.provider for offer in session.own_offers}, session.providers
    ordered = sorted(found, key=lambda offer: offer.usd_per_gpu_h)

    def price(name: str) -> Callable[[Offer], str]:
        return lambda offer: usd_text(getattr(offer, name))

    prices = {head: price(name) for head, name in PRICES.items() if any(getattr(offer, name) is not None for offer in ordered)}
    columns: dict[str, Callable[[Offer], str]] = {
        "provider": lambda offer: offer.provider,
        "GPU": lambda offer: offer.gpu,
        "×": lambda offer: str(offer.gpus),
        "$/GPU-h": lambda offer: usd_text(offer.usd_per_gpu_h),
        **prices,
        "instance": lambda offer: offer.instance,
        "region": lambda offer: offer.region,
        "as of": lambda offer: offer.as_of,
        "from": lambda offer: "yours" if offer.provider in yours else "shipped",
        "kind": lambda offer: kind_text(offer, records.get(offer.provider)),
        "between nodes": lambda offer: sold_network_text(offer, records.get(offer.provider)),
    }
    if as_json:
        print_json(ordered)
    else:
        print_items(ordered, columns, numeric=("×", "$/GPU-h", *prices))
    return ExitCode.ANSWERED if ordered else ExitCode.NOTHING_FOUND
