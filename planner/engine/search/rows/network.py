"""Supply of a row: its network, whether a quote reaches as far as the row needs, and what of it was assumed."""

from __future__ import annotations

from typing import Any, Literal, cast

from planner.engine.answers.network import Network
from planner.engine.search.selection import Choice
from planner.engine.search.supply.node_types import HOST_SHARE
from planner.engine.search.supply.quotes import UNLIMITED, Quote
from planner.hardware.prices.providers import NONE_SOLD
from planner.units import bits_text, counted

PAID, CONTRACT = "GPUs are paid", "a contract with"
SUPPLY_KEYS = ("fabric", "max_nodes", "spot_interruptions_per_h", "checkpoint_interval_h")
"""Keys of `assumed` that depend on who rents out."""


def network_of(choice: Choice, quote: Quote | None) -> Network:
    """The network between the nodes of `choice`, rented by `quote`."""
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
    """Assumptions of the row: the network between nodes, how many nodes there are."""
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


def wire_text(fabric: str, bytes_per_s: float | None) -> str:
    """'EFA 400 Gb/s a GPU'; the name alone where it says its rate."""
    return fabric if not bytes_per_s or fabric == NONE_SOLD or "b/s" in fabric else f"{fabric} {bits_text(bytes_per_s)} a GPU"


def suits(choice: Choice, quote: Quote) -> bool:
    """Whether `quote` has as many nodes as `choice` needs, over the same network where it needs one, and the host memory."""
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
    """`why`, with how many GPUs are paid for that the layout leaves idle, and what nobody can order without a contract."""
    if quote is None or PAID in why or CONTRACT in why:
        return why
    used, nodes = int(choice.deployments.gpus[choice.row]), int(choice.deployments.instances[choice.row])
    paid = choice.node_type.per_node * nodes
    words = [f"{paid:,} {PAID}, {used:,} used"] if paid != used else []
    if nodes > quote.to_order:
        words.append(f"{counted(nodes, 'node')} {'needs' if nodes == 1 else 'need'} {CONTRACT} {quote.offer.provider}")
    return "; ".join([*words, why])
