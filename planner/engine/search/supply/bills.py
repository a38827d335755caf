"""Bills of candidates: what each row needs, the quotes of its node type as columns, and the costs at one of them."""

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
    """GPUs and nodes that every row needs, and the speed it reaches, whoever the provider is; shape [rows]."""

    gpus: Floats
    nodes: Floats
    joined: Floats
    tokens_per_s: Floats
    job_h: Floats
    """Hours without interruptions; NaN: the workload does not state the amount of work."""
    failures: Floats
    """Time with failures ÷ time without, where there is a deadline."""
    spot: Floats
    """Time on spot instances ÷ time without interruptions."""
    here: Flags
    """True if the row is of this machine."""
    host: Floats
    """Host memory needed per GPU."""
    over: Floats
    """Largest ratio to its limit of the number of GPUs and of the targets that do not depend on prices."""
    saturated: Flags | None
    """True if the queue grows without end; None: there are no queues."""
    request_s: Floats | None
    """95th percentile of the time of a request served at a rate; None: no requests at a rate."""

    @property
    def endless(self) -> bool:
        """True if no row has hours."""
        return bool(np.isnan(self.job_h).all())


class Terms(msgspec.Struct, frozen=True, dict=True):
    """Quotes as columns; a node type without quotes has the user's price."""

    quotes: Sequence[Quote | None]
    usd_per_h: Floats
    """Price of a node, or of one GPU; NaN: no price."""
    each_gpu: Flags
    """True if GPUs are paid for one by one."""
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
        """Columns of each row, by the number of its quote."""
        return Terms(self.quotes, *(getattr(self, name)[numbers] for name in Terms.__struct_fields__[1:]))

    @cached_property
    def _billed_apart(self) -> list[tuple[Term, Provider | None, Flags]]:
        """(term, provider, whether each quote has them) of the quotes whose paid hours differ from the hours of the job."""
        special: dict[tuple[Term, str], tuple[Term, Provider | None, Flags]] = {}
        for number, quote in enumerate(self.quotes):
            if quote is not None and (quote.term.startswith("reserved") or (quote.provider and quote.provider.billing_minimum_s)):
                of_none = quote.term, quote.provider, np.zeros(len(self.quotes), dtype=bool)
                special.setdefault((quote.term, quote.offer.provider), of_none)[2][number] = True
        return [*special.values()]

    def billed(self, numbers: Rows) -> Iterator[tuple[Term, Provider | None, Rows]]:
        """(term, provider, rows) of the rows whose paid hours differ from the hours of the job, by the number of each row's quote."""
        for term, provider, quotes in self._billed_apart:
            rows = np.flatnonzero(quotes[numbers])
            if rows.size:
                yield term, provider, rows


class Nodes(msgspec.Struct, frozen=True, dict=True):
    """Node types that a job can run on, and their costs, as columns for all candidates on them."""

    types: Sequence[NodeType]

    @cached_property
    def per_node(self) -> Floats:
        """GPUs of a node of each type."""
        return np.array([node.per_node for node in self.types], dtype=np.float64)

    @cached_property
    def most(self) -> Floats:
        """Maximum number of GPUs of each type."""
        return np.array([node.most for node in self.types], dtype=np.float64)

    @cached_property
    def here(self) -> Flags:
        """True if each type is of this machine."""
        return np.array([node.here for node in self.types])

    @cached_property
    def at_hand(self) -> Flags:
        """True if each type is here, owned or to be bought."""
        return np.array([node.here or node.owned is not None for node in self.types])

    @cached_property
    def place(self) -> Rows:
        """Number of each type's place, counted from 0; see `NodeType.place`."""
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
        """Number of quotes of each type; 1 if it has the user's price."""
        return np.array([len(node.terms) for node in self.types])

    @cached_property
    def first_quote(self) -> Rows:
        """Position of each type's first quote among all quotes."""
        return np.cumsum(self.quotes) - self.quotes


class Bill(msgspec.Struct, frozen=True):
    """Costs at one quote, and whether the targets are met with it; columns of shape [rows]."""

    quote: Rows
    """Number of the quote among those of the row's node type."""
    usd_per_h: Floats
    """Price of all nodes; NaN: no offer."""
    effective_usd_per_h: Floats
    """Cost of an hour of undisturbed work: for a job that ends, including the unused commitment or the interruptions."""
    job_h: Floats
    """Hours of the job; NaN: the workload does not state the amount of work."""
    job_usd: Floats
    overshoot: Floats
    """Largest ratio of a target's column to its limit; a target is missed above 1."""
    score: Floats
    """Score by the objective; smaller is better."""

    def or_better(self, rows: Rows, other: Bill, fits: Flags) -> Bill:
        """For each of `rows` the bill that meets the targets; if both do, the one with the smaller score; if neither, the closer one."""
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
