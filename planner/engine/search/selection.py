"""Selection of the candidates that become rows: the closest of every GPU, and the best of every GPU and count that is worth its price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.chosen_rows import Chosen, ReleaseEnds, release_ends
from planner.engine.search.deployment import Deployments
from planner.engine.search.supply.node_types import NodeType

NO_FASTER = 1.001
"""Factor by which a candidate has to be faster than those of its GPU that cost no more, to be shown."""


class Choice(NamedTuple):
    """A candidate that becomes a row of the plan."""

    deployments: Deployments
    row: int
    best: bool
    """True if it is the best of all candidates on its GPU."""

    @property
    def node_type(self) -> NodeType:
        """Node type of the candidate."""
        return self.deployments.node_type(self.row)

    @property
    def fits(self) -> bool:
        """True if its memory is enough."""
        return bool(self.deployments.evaluated.memory.fits[self.row])

    @property
    def meets(self) -> bool:
        """True if it fits and misses no target."""
        return bool(self.deployments.meets[self.row])

    @property
    def sure(self) -> bool:
        """True if its memory is enough with the required confidence."""
        return bool(self.deployments.sure[self.row])

    @property
    def probability_meets(self) -> float:
        """Probability that it fits and misses no target."""
        return float(self.deployments.probability_meets[self.row])

    @property
    def order(self) -> tuple[bool, bool, bool, float]:
        """Sort key: first those that meet their targets, among these those that surely fit, among these those that are available, then by score."""
        d, row = self.deployments, self.row
        return not d.meets[row], not d.sure[row], not d.can_be_had[row], float(d.bill.score[row])


def by_deployments(choices: Sequence[Choice]) -> Iterator[tuple[Deployments, list[int]]]:
    """For each group of deployments, the numbers of its `choices`."""
    own: dict[int, list[int]] = defaultdict(list)
    for number, choice in enumerate(choices):
        own[id(choice.deployments)].append(number)
    return ((choices[numbers[0]].deployments, numbers) for numbers in own.values())


class ChosenPart(NamedTuple):
    """Choices from one table of candidates, with what is computed only for them."""

    numbers: list[int]
    """Their positions among all choices."""
    rows: Chosen
    releases: Mapping[str, ReleaseEnds]
    """Kind of figure -> how much it may differ where the release of the engine is open."""


def chosen_parts(choices: Sequence[Choice]) -> list[ChosenPart]:
    """Parts of `choices`."""
    groups = list(by_deployments(choices))
    rows = [Chosen.of(d.evaluated, [choices[number].row for number in numbers]) for d, numbers in groups]
    return [ChosenPart(numbers, part, ends) for (_, numbers), part, ends in zip(groups, rows, release_ends(rows), strict=True)]


def choose(d: Deployments) -> list[Choice]:
    """Best candidate of every node type and count of GPUs; for a GPU without a solution, only the closest candidate.

    At one price (a commitment is owed as a whole) a faster job, or a service with fewer GPUs, then the surer one, comes first; prices are
    compared in seven digits, because of rounding. Among the node types of one GPU a count is kept once, where it is best. A candidate
    that costs no less and is no faster than another of the same GPU that fits as surely is left out.
    """
    memory = d.evaluated.memory
    tier = np.where(d.meets, np.where(d.sure, 0, 1), np.where(memory.fits, 2, 3))
    key = np.choose(tier, [d.bill.score, d.bill.score, d.bill.overshoot, memory.total / memory.usable])
    gpu = d.nodes.place[d.node_index]
    solved = np.zeros(len(d.nodes.types), dtype=bool)
    solved[gpu[d.meets]] = True
    possible = np.flatnonzero(d.meets | ~solved[gpu])
    ties = (-d.probability_meets, d.gpus) if d.workload.request_rate_per_s else (-d.tokens_per_s,)
    order = possible[np.lexsort(tuple(column[possible] for column in (*ties, np.float32(key), tier)))]
    place = (gpu[order] * (d.gpus.max() + 1) + d.gpus[order]) * (tier.max() + 1) + tier[order]
    order = order[_faster(place, d.tokens_per_s[order])]
    kept: dict[int, list[int]] = defaultdict(list)
    fastest: dict[tuple[int, int], float] = {}
    seen: set[tuple[int, float]] = set()
    columns = (order, gpu[order], d.gpus[order], tier[order], d.tokens_per_s[order])
    for row, part, count, missing, rate in zip(*(column.tolist() for column in columns), strict=True):
        if (part, count) in seen or (kept[part] and missing > 1):
            continue
        if rate <= fastest.get((part, missing), -np.inf) * NO_FASTER:
            continue
        seen.add((part, count))
        kept[part].append(row)
        fastest[part, missing] = rate
    return [Choice(d, row, place == 0) for rows in kept.values() for place, row in enumerate(rows)]


def _faster(place: Floats, rate: Floats) -> Rows:
    """Rows that are faster than all before them of the same place, in their order; `choose` keeps no others."""
    grouped = np.argsort(place, kind="stable")
    begins = np.ones(place.size, dtype=bool)
    begins[1:] = place[grouped[1:]] != place[grouped[:-1]]
    by_rate = np.argsort(rate)
    height = np.empty(rate.size, dtype=np.int64)
    height[by_rate] = np.cumsum(np.diff(rate[by_rate], prepend=0.0) > 0)
    height = height[grouped] + 1 + np.cumsum(begins) * (rate.size + 2)
    most = np.maximum.accumulate(height)
    return np.sort(grouped[begins | (height > np.concatenate([[0], most[:-1]]))])
