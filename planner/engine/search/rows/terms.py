"""Network between the nodes of a row, whether a quote offers enough of them, and the cost of its job on every term."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from planner.engine.answers.answer import Network, TermPrice
from planner.engine.answers.figure import Figure
from planner.engine.evaluate.offer_prices import COMMITTED_H, PRICE_FIELDS, paid_hours, pays_as_it_takes
from planner.engine.evaluate.spot import INTERRUPTIONS_PER_H
from planner.engine.search.selection import Choice
from planner.engine.search.supply.node_types import HOST_SHARE
from planner.engine.search.supply.quotes import UNLIMITED, Quote
from planner.hardware.prices.providers import NONE_SOLD, Provider
from planner.units import bits_text, counted
from planner.workload.tasks import Term

PAID, CONTRACT = "GPUs are paid", "a contract with"
SUPPLY_KEYS = ("fabric", "max_nodes", "spot_interruptions_per_h", "checkpoint_interval_h")
"""Keys of `assumed` that depend on the provider."""


def network_of(choice: Choice, quote: Quote | None) -> Network:
    """Network between the nodes of `choice` rented by `quote`."""
    d, node = choice.deployments, choice.node_type
    wire = quote.wire if quote else node.wire
    nodes = int(d.instances[choice.row])
    most = quote.machines if quote else UNLIMITED
    return Network(
        fabric=wire.fabric,
        bytes_per_s=wire.bytes_per_s or None,
        joined_nodes=int(d.joined[choice.row]),
        nodes=nodes,
        most_nodes=most if most < UNLIMITED else None,
        by_agreement=bool(quote and nodes > quote.to_order),
        basis=cast("Literal['published', 'given', 'assumed']", wire.basis),
        source=wire.source,
    )


def assumed_of_supply(choice: Choice, quote: Quote | None) -> dict[str, Any]:
    """Assumptions of the row about the network between nodes and the number of nodes."""
    d, node = choice.deployments, choice.node_type
    found: dict[str, Any] = {}
    wire = quote.wire if quote else node.wire
    if node.here:
        return found
    if d.joined[choice.row] > 1 and wire.basis != "given":
        found["fabric"] = wire_text(wire.fabric, wire.bytes_per_s)
    if quote is not None and "max_nodes" in quote.assumed:
        found["max_nodes"] = quote.machines
    return found


def assumed_of_spot(choice: Choice) -> dict[str, Any]:
    """Assumptions of a job on spot instances that the workload leaves open, by the keys that would set them."""
    d = choice.deployments
    taken = {"spot_interruptions_per_h": INTERRUPTIONS_PER_H[1], "checkpoint_interval_h": float(d.spot.interval_h[choice.row])}
    return {key: value for key, value in taken.items() if getattr(d.workload, key) is None}


def wire_text(fabric: str, bytes_per_s: float | None) -> str:
    """'EFA 400 Gb/s a GPU'; only the name where it contains its rate."""
    return fabric if not bytes_per_s or fabric == NONE_SOLD or "b/s" in fabric else f"{fabric} {bits_text(bytes_per_s)} a GPU"


def suits(choice: Choice, quote: Quote) -> bool:
    """True if `quote` has as many nodes as `choice` needs, with the same network where it needs one, and enough host memory."""
    d, node = choice.deployments, choice.node_type
    joined, host = float(d.joined[choice.row]), float(d.evaluated.memory.host[choice.row])
    if joined > 1 and (
        quote.cluster < joined or quote.wire.bytes_per_s != node.wire.bytes_per_s or quote.wire.kind != node.wire.kind
    ):
        return False
    if host > 0 and quote.offer.memory_bytes is not None and host > HOST_SHARE * quote.offer.memory_bytes / quote.offer.gpus:
        return False
    return quote.machines >= float(d.instances[choice.row])


def with_order(choice: Choice, quote: Quote | None, why: str) -> str:
    """`why`, with the GPUs that are paid for but idle in this layout, and what nobody can order without a contract."""
    if quote is None or PAID in why or CONTRACT in why:
        return why
    used, nodes = int(choice.deployments.gpus[choice.row]), int(choice.deployments.instances[choice.row])
    paid = choice.node_type.per_node * nodes
    words = [f"{paid:,} {PAID}, {used:,} used"] if paid != used else []
    if nodes > quote.to_order:
        words.append(f"{counted(nodes, 'node')} {'needs' if nodes == 1 else 'need'} {CONTRACT} {quote.offer.provider}")
    return "; ".join([*words, why])


def effective_usd_per_h(choice: Choice, quote: Quote) -> float:
    """Cost of an hour of undisturbed work by `quote`: for a job that ends, including the unused commitment or the interruptions."""
    usd_per_h = quote.usd_per_h * int(choice.deployments.instances[choice.row])
    hours = _undisturbed_h(choice)
    if hours is None:
        return usd_per_h
    return usd_per_h * _paid(choice, quote.term, quote.provider, hours * _factor(choice, quote.term)[1])[0] / hours


def job_figures(choice: Choice, quote: Quote | None, job_h: Figure | None, usd_per_h: float) -> tuple[Figure | None, Figure | None]:
    """(hours, dollars) of a job that takes `job_h` undisturbed; None if it does not end."""
    if job_h is None:
        return None, None
    if quote is None:
        return job_h, job_h.scaled(usd_per_h)
    hours = _stretched(choice, quote.term, job_h)
    return hours, _job_usd(choice, quote.term, quote.provider, hours, usd_per_h) if hours else None


def terms_of(choice: Choice, quote: Quote, job_h: Figure | None) -> list[TermPrice]:
    """Prices of the nodes of `choice` on every term for which the offer of `quote` has a price, by the hour first."""
    offer, nodes = quote.offer, int(choice.deployments.instances[choice.row])
    scale = nodes * choice.node_type.per_node / offer.gpus
    hourly = offer.on_demand_usd_per_h
    found = []
    for term, field in PRICE_FIELDS.items():
        price = getattr(offer, field)
        if price is None:
            continue
        hours = _stretched(choice, term, job_h) if job_h else None
        committed = COMMITTED_H.get(term)
        found.append(
            TermPrice(
                term=term,
                usd_per_h=price * scale,
                job_usd=_job_usd(choice, term, quote.provider, hours, price * scale) if hours else None,
                committed_usd=committed * price * scale if committed else None,
                break_even_use=price / hourly if committed and hourly else None,
                basis="by discount" if field in offer.by_discount else "published",
            )
        )
    return found


def _undisturbed_h(choice: Choice) -> float | None:
    """Hours of the job without interruptions; None if it does not end."""
    d = choice.deployments
    hours = float(d.bill.job_h[choice.row])
    own = d.quote(choice.row)
    return hours / _factor(choice, own.term if own else "on-demand")[1] if np.isfinite(hours) else None


def _factor(choice: Choice, term: Term) -> tuple[float, float, float]:
    """(low, value, high) of the factor by which `term` lengthens a job."""
    if term != "spot":
        return 1.0, 1.0, 1.0
    return choice.deployments.spot.factors(choice.row)


def _stretched(choice: Choice, term: Term, job_h: Figure) -> Figure | None:
    """`job_h` with the interruptions of `term`, whose uncertainty widens its range; None if it may never end."""
    low, value, high = _factor(choice, term)
    if np.isinf(value):
        return None
    return Figure(job_h.value * value, job_h.low * low, job_h.high * high, job_h.basis)


def _job_usd(choice: Choice, term: Term, provider: Provider | None, hours: Figure, usd_per_h: float) -> Figure:
    value, low, high = _paid(choice, term, provider, hours.value, hours.low, hours.high)
    return Figure(value, low, high, hours.basis).scaled(usd_per_h)


def _paid(choice: Choice, term: Term, provider: Provider | None, *hours: float) -> list[float]:
    if pays_as_it_takes(term, provider):
        return [*hours]
    use = choice.deployments.workload.commitment_use or 0.0
    paid: list[float] = paid_hours(term, np.array(hours), use=use, provider=provider).tolist()
    return paid
