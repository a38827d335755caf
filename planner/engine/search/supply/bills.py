"""Bills of candidates: what each row needs, the quotes of its node type as columns, and what is paid at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.search.supply.node_types import NodeType
from planner.engine.search.supply.quotes import Quote
from planner.hardware.prices.providers import Provider
from planner.workload.tasks import Term


class Need(msgspec.Struct, frozen=True):
    """GPUs, nodes and hours of every row, whoever rents them out; shape [rows]."""

    gpus: Floats
    nodes: Floats
    joined: Floats
    tokens_per_s: Floats
    job_h: Floats
    """Hours without interruptions; NaN: the workload does not say how much there is to do."""
    failures: Floats
    """Time with failures over that without, where a deadline is held against it."""
    spot: Floats
    """Time on spot instances over that without interruptions."""

    @property
    def endless(self) -> bool:
        """Whether no row has hours."""
        return bool(np.isnan(self.job_h).all())


class Terms(msgspec.Struct, frozen=True, dict=True):
    """One quote of every node type, or of each row's, as columns; the last one of a node type that has fewer."""

    quotes: Sequence[Quote | None]
    slot: Rows
    """Number of the quote among those of its node type."""
    usd_per_h: Floats
    """Price of a node, or of one GPU; NaN: no price."""
    each_gpu: Flags
    """Whether GPUs are paid for one by one."""
    spot: Flags
    here: Flags
    most: Floats
    machines: Floats
    cluster: Floats
    host: Floats

    @classmethod
    def of(cls, node_types: Sequence[NodeType], slot: int) -> Terms:
        """The quotes numbered `slot`."""
        places = [min(slot, len(node.quotes) - 1) for node in node_types]
        quotes = [node.quotes[place] if node.quotes else None for node, place in zip(node_types, places, strict=True)]
        numbers = np.array([node.terms[max(place, 0)] for node, place in zip(node_types, places, strict=True)]).T
        usd_per_h, each_gpu, spot, here, *limits = numbers.reshape(len(cls.__struct_fields__) - 2, len(node_types))
        slots = np.maximum(np.array(places, dtype=np.int64), 0)
        return cls(quotes, slots, usd_per_h, each_gpu > 0, spot > 0, here > 0, *limits)

    def at(self, node_index: Rows) -> Terms:
        """The columns of each row, by the number of its node type."""
        return Terms(self.quotes, *(getattr(self, name)[node_index] for name in Terms.__struct_fields__[1:]))

    @cached_property
    def _billed_apart(self) -> list[tuple[Term, Provider | None, Flags]]:
        """(term, provider, whether each node type is one) of the quotes whose hours are not simply those the job takes."""
        special: dict[tuple[Term, str], tuple[Term, Provider | None, Flags]] = {}
        for number, quote in enumerate(self.quotes):
            if quote is not None and (quote.term.startswith("reserved") or (quote.provider and quote.provider.billing_minimum_s)):
                of_none = quote.term, quote.provider, np.zeros(len(self.quotes), dtype=bool)
                special.setdefault((quote.term, quote.offer.provider), of_none)[2][number] = True
        return [*special.values()]

    def billed(self, node_index: Rows) -> Iterator[tuple[Term, Provider | None, Rows]]:
        """(term, provider, rows) of the rows whose hours are not simply those the job takes."""
        for term, provider, nodes in self._billed_apart:
            rows = np.flatnonzero(nodes[node_index])
            if rows.size:
                yield term, provider, rows


class Nodes(msgspec.Struct, frozen=True, dict=True):
    """The node types that a job can run on, and what they cost, as columns for all candidates on them."""

    types: Sequence[NodeType]

    @cached_property
    def per_node(self) -> Floats:
        """GPUs of a node of each type."""
        return np.array([node.per_node for node in self.types], dtype=np.float64)

    @cached_property
    def at_hand(self) -> Flags:
        """Whether each type is here, one's own or to be bought."""
        return np.array([node.here or node.owned is not None for node in self.types])

    @cached_property
    def place(self) -> Rows:
        """Number of each type's place, counted from 0: see `NodeType.place`."""
        numbers: dict[tuple[str, str], int] = {}
        return np.array([numbers.setdefault(node.place, len(numbers)) for node in self.types])

    @cached_property
    def wire_bytes_per_s(self) -> Floats:
        """Rate of the network between nodes of each type."""
        return np.array([node.wire.bytes_per_s for node in self.types])

    @cached_property
    def terms(self) -> list[Terms]:
        """A quote of every type, then another of each, as many as the type with the most of them has."""
        return [Terms.of(self.types, slot) for slot in range(max((len(node.quotes) for node in self.types), default=0) or 1)]


class Bill(msgspec.Struct, frozen=True):
    """Payment at one quote, and whether the targets are met with it; columns of shape [rows]."""

    quote: Rows
    """Number of the quote among those of the row's node type."""
    usd_per_h: Floats
    """Price of all nodes; NaN: no offer."""
    effective_usd_per_h: Floats
    """Cost of an hour of undisturbed work: of a job that ends with what its commitment or its interruptions add."""
    job_h: Floats
    """Hours of the job; NaN: the workload does not say how much there is to do."""
    job_usd: Floats
    overshoot: Floats
    """Largest ratio of a target's column to its limit; above 1 a target is missed."""
    score: Floats
    """Smaller is better, by the objective."""

    def or_better(self, other: Bill, fits: Flags) -> Bill:
        """Row by row the one that meets the targets, of both the one with the smaller score, of neither the nearer one."""
        meets, theirs = fits & (self.overshoot <= 1), fits & (other.overshoot <= 1)
        nearer = (other.overshoot < self.overshoot) | ((other.overshoot == self.overshoot) & (other.score < self.score))
        better = np.where(meets == theirs, np.where(meets, other.score < self.score, nearer), theirs)
        return Bill(*(np.where(better, getattr(other, name), getattr(self, name)) for name in Bill.__struct_fields__))
