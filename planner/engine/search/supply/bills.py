"""Bills of candidates: what each row needs, the quotes of its node type as columns, and what is paid at one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from planner.engine.columns import Flags, Floats, RowRecord, Rows
from planner.engine.search.supply.node_types import NodeType
from planner.engine.search.supply.quotes import Quote
from planner.hardware.prices.providers import Provider
from planner.workload.tasks import Term


class GpuNeed(RowRecord, frozen=True):
    """GPUs and nodes that every row needs, and the speed it reaches, whoever rents them out; shape [rows]."""

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
    here: Flags
    """Whether the row is of this machine."""
    host: Floats
    """Host memory of each GPU."""
    over: Floats
    """Largest ratio of GPUs, and of what a target is set for that no price changes, to its limit."""
    saturated: Flags | None
    """Whether the queue grows without end; None: there are no queues."""
    request_s: Floats | None
    """95th percentile of the time of a request that is served at a rate; None: none is."""

    @property
    def endless(self) -> bool:
        """Whether no row has hours."""
        return bool(np.isnan(self.job_h).all())


class Terms(msgspec.Struct, frozen=True, dict=True):
    """Quotes as columns; a node type without one has the price of one's own."""

    quotes: Sequence[Quote | None]
    usd_per_h: Floats
    """Price of a node, or of one GPU; NaN: no price."""
    each_gpu: Flags
    """Whether GPUs are paid for one by one."""
    spot: Flags
    machines: Floats
    cluster: Floats
    host: Floats

    @classmethod
    def of(cls, node_types: Sequence[NodeType]) -> Terms:
        """All quotes of the node types, one type after the other."""
        quotes = [quote for node in node_types for quote in node.quotes or (None,)]
        usd_per_h, each_gpu, spot, *limits = np.array([numbers for node in node_types for numbers in node.terms]).T
        return cls(quotes, usd_per_h, each_gpu > 0, spot > 0, *limits)

    def at(self, numbers: Rows) -> Terms:
        """The columns of each row, by the number of its quote."""
        return Terms(self.quotes, *(getattr(self, name)[numbers] for name in Terms.__struct_fields__[1:]))

    @cached_property
    def _billed_apart(self) -> list[tuple[Term, Provider | None, Flags]]:
        """(term, provider, whether each quote is one) of the quotes whose hours are not simply those the job takes."""
        special: dict[tuple[Term, str], tuple[Term, Provider | None, Flags]] = {}
        for number, quote in enumerate(self.quotes):
            if quote is not None and (quote.term.startswith("reserved") or (quote.provider and quote.provider.billing_minimum_s)):
                of_none = quote.term, quote.provider, np.zeros(len(self.quotes), dtype=bool)
                special.setdefault((quote.term, quote.offer.provider), of_none)[2][number] = True
        return [*special.values()]

    def billed(self, numbers: Rows) -> Iterator[tuple[Term, Provider | None, Rows]]:
        """(term, provider, rows) of the rows whose hours are not simply those the job takes, by the number of each row's quote."""
        for term, provider, quotes in self._billed_apart:
            rows = np.flatnonzero(quotes[numbers])
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
    def most(self) -> Floats:
        """Most GPUs of each type."""
        return np.array([node.most for node in self.types], dtype=np.float64)

    @cached_property
    def here(self) -> Flags:
        """Whether each type is of this machine."""
        return np.array([node.here for node in self.types])

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
    def terms(self) -> Terms:
        """Prices of the node types, on every term."""
        return Terms.of(self.types)

    @cached_property
    def quotes(self) -> Rows:
        """Quotes of each type; one, where its price is one's own."""
        return np.array([len(node.terms) for node in self.types])

    @cached_property
    def first_quote(self) -> Rows:
        """Number of each type's first quote among those of all."""
        return np.cumsum(self.quotes) - self.quotes


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

    def or_better(self, rows: Rows, other: Bill, fits: Flags) -> Bill:
        """In each of `rows` the bill that meets the targets, of both the one with the smaller score, of neither the nearer one."""
        overshoot, score = self.overshoot[rows], self.score[rows]
        meets, theirs = fits & (overshoot <= 1), fits & (other.overshoot <= 1)
        nearer = (other.overshoot < overshoot) | ((other.overshoot == overshoot) & (other.score < score))
        better = np.where(meets == theirs, np.where(meets, other.score < score, nearer), theirs)
        changed = rows[better]

        def column(name: str) -> Any:
            every = getattr(self, name).copy()
            every[changed] = getattr(other, name)[better]
            return every

        return Bill(*map(column, Bill.__struct_fields__))
