"""Offers in words: provider and region, network between nodes, and prices of the same nodes on other terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.present.names import region_text
from planner.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, UNKNOWN, bits_text, duration_text, percent_text, usd_text

if TYPE_CHECKING:
    from planner.engine.answers.answer import Network, TermPrice
    from planner.engine.answers.plan import OfferAnswer, OwnedAnswer, PlanRow
    from planner.hardware.prices.offers import Offer
    from planner.hardware.prices.providers import Provider

TERM_WORDS = {"on-demand": "by the hour", "spot": "spot", "reserved-1y": "1 year committed", "reserved-3y": "3 years committed"}


def provider_text(row: PlanRow, task: Mapping[str, Any]) -> str | None:
    """Provider of a row, with its term if several are ranked or it is not the default; 'own' or 'to buy' if not rented; None: no offer."""
    if row.owned is not None:
        return "to buy" if row.owned.bought else "own"
    if row.offer is None:
        return None
    usual = row.offer.market == "on-demand" and task.get("market") != "any"
    return row.offer.provider if usual else f"{row.offer.provider} {row.offer.market}"


def wire_text(network: Network) -> str:
    """Network such as 'EFA 400 Gb/s a GPU'; only the name if it includes the rate, or the rate is unknown."""
    named = (network.fabric[:1].upper() + network.fabric[1:]).replace("Infiniband", "InfiniBand")
    return named if network.bytes_per_s is None or "b/s" in named else f"{named} {bits_text(network.bytes_per_s)} a GPU"


def network_text(row: PlanRow) -> str | None:
    """Network between the nodes of a row: 'one node', 'apart' for independent nodes, or the network and its rate."""
    network = row.answer.network
    if network is None:
        return None
    if network.joined_nodes > 1:
        return wire_text(network) + (" (assumed)" if network.basis == "assumed" else "")
    return "one node" if network.nodes <= 1 else "apart"


def network_sentence(row: PlanRow) -> str | None:
    """Sentence on the network of a row, with the available nodes and the source; None if nothing is rented."""
    network = row.answer.network
    if network is None or row.here:
        return None
    if network.joined_nodes > 1:
        what = f"{network.joined_nodes:,} nodes joined by {wire_text(network)} and direction, {network.basis}"
    elif network.nodes > 1:
        what = f"{network.nodes:,} nodes, each working alone; no network between them is needed"
    else:
        what = "one node; no network is needed"
    if network.by_agreement:
        reach = "; that number needs a contract, not an order"
    else:
        reach = f"; {network.most_nodes:,} at most at once" if network.most_nodes else ""
        reach += ", an assumption of its kind of provider" if "max_nodes" in row.answer.assumed else ""
    source = f" ({network.source})" if network.joined_nodes > 1 and network.source else ""
    return f"Network: {what}{source}{reach}."


def kind_text(offer: Offer, provider: Provider | None) -> str:
    """Kind of the provider of `offer`; unknown without a record."""
    return provider.kind_of(offer) if provider else UNKNOWN


def sold_network_text(offer: Offer, provider: Provider | None) -> str:
    """Network available between nodes of `offer`: 'EFA 400 Gb/s a GPU', 'none sold', or unknown."""
    known = provider.network_of(offer.instance) if provider else None
    fabric = offer.fabric or (known.fabric if known else None)
    rate = offer.node_bytes_per_s if offer.fabric else known.node_bytes_per_s if known else None
    if fabric is None:
        return UNKNOWN
    return f"{fabric} {bits_text(rate / (offer.gpus_max or offer.gpus))} a GPU" if rate else fabric


def offer_sentence(offer: OfferAnswer) -> str:
    """Sentence on the offer: provider, instance, region, term and date."""
    count = f"{offer.instances:,} × " if offer.instances > 1 else ""
    size = f" with {offer.gpus:,} GPUs{' each' if offer.instances > 1 else ''}" if offer.gpus > 1 else ""
    kind = f" ({offer.kind})" if offer.kind else ""
    many = f"{len(offer.countries)} countries" if len(offer.countries) > MOST_COUNTRIES else ", ".join(offer.countries)
    place = region_text(offer.region) + (f" ({many})" if many else "")
    note = f"; {offer.note}" if offer.note else ""
    return f"Rent: {count}{offer.provider}{kind} {offer.instance}{size}, {place}, {offer.market}, {offer.as_of}{note}."


def owned_words(owned: OwnedAnswer) -> str:
    """Parts of the cost of owned GPUs: 'power and place 1.20 $/h, loss in value 8.40 $/h'."""
    lost = owned.depreciation_usd_per_h
    return f"power and place {usd_text(owned.running_usd_per_h)} $/h" + (
        f", loss in value {usd_text(lost)} $/h" if lost is not None else ""
    )


MOST_COUNTRIES = 4
"""Maximum number of listed countries; if there are more, only their number is shown."""


def money_sentences(row: PlanRow) -> Iterator[str]:
    """Sentences on the offer of a row or the user's own price, cost of a month, network, other terms, and spot."""
    offer, layout = row.offer, row.answer.layout
    if offer is not None:
        yield offer_sentence(offer)
        paid, used = offer.gpus * offer.instances, layout.gpus if layout else 0
        if used and paid != used:
            yield f"Whole nodes are paid: {paid:,} GPUs for {used:,} that work."
    elif row.usd_per_h is not None and layout is not None and row.owned is None:
        each = row.usd_per_h.value / layout.gpus
        yield f"Your own price: {layout.gpus:,} × {usd_text(each)} $ a GPU and hour = {usd_text(row.usd_per_h.value)} $/h."
    if row.usd_per_h is not None and row.usd_per_month is not None:
        hours = f"{usd_text(row.usd_per_h.value)} $/h × {HOURS_PER_MONTH:.0f} h"
        yield f"A month of it: {hours} = {usd_text(row.usd_per_month.value)} $."
    if network := network_sentence(row):
        yield network
    yield from (term_sentence(one) for one in row.terms if offer is None or len(row.terms) > 1 or one.committed_usd)
    if offer is not None and offer.market == "spot":
        notice = (
            f"{duration_text(offer.interruption_notice_s)} of warning" if offer.interruption_notice_s else "no warning is known"
        )
        yield f"Spot nodes are taken away when others pay more ({notice}): hours and dollars hold the lost work, and their ranges its doubt."
        if taken := _spot_taken(row.answer.assumed):
            yield f"Assumed of spot nodes: {taken}."
    if row.other_offers:
        others = "other provider rents" if row.other_offers == 1 else "other providers rent"
        yield f"{row.other_offers:,} {others} the same nodes out (`gpu-planner offers show '{row.gpu}'`)."


def _spot_taken(assumed: Mapping[str, Any]) -> str:
    """Words for the assumed rate of interruptions and interval of checkpoints: 'each is lost once in 12.3 d'."""
    rate, interval_h = assumed.get("spot_interruptions_per_h"), assumed.get("checkpoint_interval_h")
    words = [f"each is lost once in {duration_text(SECONDS_PER_HOUR / rate)} (spot_interruptions_per_h)"] if rate else []
    words += [f"a checkpoint every {duration_text(interval_h * SECONDS_PER_HOUR)} (checkpoint_interval_h)"] if interval_h else []
    return ", ".join(words)


def term_sentence(term: TermPrice) -> str:
    """Sentence on one term: dollars per hour, for the job, for the whole commitment, and the use above which it is cheaper."""
    parts = [f"{TERM_WORDS.get(term.term, term.term)}: {usd_text(term.usd_per_h)} $/h"]
    if term.job_usd is not None:
        parts.append(f"the job {usd_text(term.job_usd.value)} $")
    if term.committed_usd is not None:
        parts.append(f"{usd_text(term.committed_usd)} $ in all, used or not")
    if term.break_even_use is not None:
        parts.append(f"cheaper than by the hour above {percent_text(term.break_even_use)} of the time")
    if term.basis == "by discount":
        parts.append("by the advertised discount, at its best")
    text = ", ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
