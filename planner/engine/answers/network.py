"""The network between the nodes of a row, and what the row pays on other terms."""

from __future__ import annotations

from typing import Literal

import msgspec

from planner.engine.answers.figure import Figure


class Network(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The network between nodes, as it is sold, given or assumed."""

    fabric: str
    """'InfiniBand', 'EFA', 'Ethernet', …; 'none sold': nodes cannot be joined."""
    bytes_per_s: float | None = None
    """Per GPU and direction; None where there is no network."""
    joined_nodes: int = 1
    """Nodes that each group of the layout spans: the whole of a training job, one replica of a service."""
    nodes: int = 1
    """Nodes that are rented in all."""
    most_nodes: int | None = None
    """Nodes that can be had at once; None: not limited by what is known."""
    by_agreement: bool = False
    """More nodes than anyone can order: a contract with the provider comes first."""
    basis: Literal["published", "given", "assumed"]
    source: str = ""


class TermPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The price of the same nodes on one term."""

    term: str
    usd_per_h: float
    """Price of all nodes."""
    job_usd: Figure | None = None
    """Cost of a job that ends, with what a commitment costs beyond it and what interruptions add."""
    committed_usd: float | None = None
    """Price of the whole commitment."""
    break_even_use: float | None = None
    """Share of its time above which a commitment costs less than paying by the hour."""
    basis: Literal["published", "by discount"] = "published"
