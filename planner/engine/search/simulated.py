"""Best candidates of a service under a request rate, with simulated latencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.answers.plan import SURE
from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.evaluate.probability import LATENCY_KINDS, room_for
from planner.engine.evaluate.replicas import Replicas, replicas_of
from planner.engine.evaluate.request_rate import served
from planner.engine.evaluate.sizing import sized
from planner.engine.search.deployment import Deployments, deployments_of
from planner.engine.search.selection import Choice, by_deployments, choose

SIMULATED_AT_ONCE = 5
"""Candidates simulated together: the best ones, in addition to those of this machine."""
SIMULATED_PLACES = 3
"""Places at the top of the ranking that only simulated candidates may take."""


def choose_simulated(d: Deployments) -> list[Choice]:
    """Rows of a plan: the best of them and this machine's simulated, the others as screened.

    Every layout is first screened once more, with the replicas that Little's law requires. A layout is simulated once, whatever load it
    was screened at. As long as a layout that was only screened is among the very best, more are simulated.
    """
    free = d if d.workload.targets.budget_usd is None else _at_any_price(d.evaluated, d, d.node_index)
    by_littles_law, known = _sized(free)
    choices = choose(by_littles_law)  # first, so that at the same price their smaller number of replicas wins
    if by_littles_law is not free:
        choices += _sized_where_known(choose(free), by_littles_law)
    fitting = sorted((choice for choice in choices if choice.fits), key=lambda choice: choice.order)
    beside = _beside(by_littles_law, fitting[:SIMULATED_PLACES])
    candidates = sorted([*fitting, *beside], key=lambda choice: choice.order)
    waiting = list(_different_layouts(candidates))
    done = list[Choice]()
    while waiting:
        first = sorted([*waiting[:SIMULATED_PLACES], *done], key=lambda choice: choice.order)[:SIMULATED_PLACES]
        if all(choice.deployments.evaluated.queue is not None for choice in first):
            break
        now = [place < SIMULATED_AT_ONCE or (choice.node_type.here and not done) for place, choice in enumerate(waiting)]
        done += _simulated([choice for choice, chosen in zip(waiting, now, strict=True) if chosen], known)
        waiting = [choice for choice, chosen in zip(waiting, now, strict=True) if not chosen]
    return _best_of_each_count([*done, *waiting, *(choice for choice in choices if not choice.fits)])


def _at_any_price(e: Evaluated, d: Deployments, node_index: Rows) -> Deployments:
    """`e` evaluated without the budget of `d`, because the replicas and so the cost of a service are only known after its simulation.

    The deployments keep their workload, whose budget applies again after the simulation.
    """
    free = msgspec.structs.replace(d.workload, targets=msgspec.structs.replace(d.workload.targets, budget_usd=None))
    return replace(deployments_of(e, d.nodes, node_index, free), workload=d.workload)


class _Known(NamedTuple):
    """Replicas that were timed for Little's law. A simulation changes only the load of a row, which does not affect their times."""

    replicas: Replicas
    row_of: Mapping[int, Rows]
    """By the id of evaluated candidates: numbers of their rows among `replicas`, -1 for rows that were not timed."""

    def of(self, parts: list[tuple[Evaluated, Rows]], burst: float) -> Replicas:
        """Replicas of the rows of each part, as `replicas_of` returns them."""
        row = np.concatenate([self.row_of[id(e)][rows] for e, rows in parts])
        return replicas_of(parts, burst) if (row < 0).any() else self.replicas.at_load_of(parts, row)


def _sized(d: Deployments) -> tuple[Deployments, _Known | None]:
    """Every layout of `d` that fits, once, at the fewest replicas that meet the targets by Little's law; `d` itself where none fits or comes close."""
    rows = np.flatnonzero(d.evaluated.memory.fits)
    rows = rows[np.lexsort((d.bill.score[rows], ~d.meets[rows]))]
    if not rows.size:
        return d, None
    different, targets = rows[_first_of_each(_layout_columns(d, rows))], d.workload.targets
    replicas = replicas_of([(d.evaluated, different)], targets.burst)
    timed = np.full(d.gpus.size, -1)
    timed[different] = np.arange(different.size)
    row_of = {id(d.evaluated): timed}
    found = sized(replicas, targets)
    if found is None:
        return d, _Known(replicas, row_of)
    evaluated, kept = found
    return _at_any_price(evaluated, d, d.node_index[different][kept]), _Known(replicas, row_of | {id(evaluated): kept})


def _sized_where_known(choices: Sequence[Choice], d: Deployments) -> list[Choice]:
    """`choices` of screened candidates, in their place those of `d` with the same layout and count of GPUs, whose requests in flight are known."""

    def keys(of: Deployments, rows: Rows) -> Iterator[tuple[float, ...]]:
        columns = [*_layout_columns(of, rows), of.gpus[rows].astype(np.float64)]
        return zip(*(column.tolist() for column in columns), strict=True)

    if not choices:
        return []
    row_of = {key: row for row, key in reversed([*enumerate(keys(d, np.arange(d.gpus.size)))])}
    screened = keys(choices[0].deployments, np.array([choice.row for choice in choices]))
    sized_rows = (row_of.get(key) for key in screened)
    return [
        choice if row is None or not (choice.fits and d.meets[row]) else Choice(d, row, choice.best)
        for choice, row in zip(choices, sized_rows, strict=True)
    ]


def _first_of_each(columns: Sequence[Floats]) -> Rows:
    """First position of each different combination of numbers in `columns`, in order."""
    order = np.lexsort(columns)  # keeps the order of equal ones
    first = np.ones(order.size, dtype=bool)
    first[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    return np.sort(order[first])


def _beside(d: Deployments, best: Sequence[Choice]) -> list[Choice]:
    """Other layouts on the GPUs of the best choices that meet the targets: a layout for which screening counted one replica too many may win."""
    index = d.node_index
    names = {choice.node_type.place for choice in best}
    of_best = np.array([node.place in names for node in d.nodes.types])[index]
    rows = np.flatnonzero(of_best & d.meets)
    return [Choice(d, int(row), best=False) for row in rows[np.argsort(d.bill.score[rows], kind="stable")]]


def _different_layouts(choices: Sequence[Choice]) -> Iterable[Choice]:
    """First of each group of choices that differ only in replicas and load."""
    keys = dict[int, tuple[float, ...]]()
    for d, numbers in by_deployments(choices):
        columns = _layout_columns(d, np.array([choices[number].row for number in numbers]))
        keys |= zip(numbers, zip(*(column.tolist() for column in columns), strict=True), strict=True)
    kept = dict[tuple[float, ...], Choice]()
    for number, choice in enumerate(choices):
        kept.setdefault(keys[number], choice)
    return kept.values()


def _layout_columns(d: Deployments, rows: Rows) -> list[Floats]:
    """Columns that distinguish the layouts of `rows`, apart from replicas and load: GPU, network between nodes, and degrees of parallelism."""
    layout, node = d.evaluated.candidates.layout, d.node_index[rows]
    network = np.where(d.joined[rows] > 1, d.nodes.wire_bytes_per_s[node], 0.0)
    degrees = (np.broadcast_to(degree, d.gpus.size)[rows] for degree in (layout.tp, layout.pp, layout.ep))
    return [d.nodes.place[node].astype(np.float64), network, *degrees]


def _simulated(choices: Sequence[Choice], known: _Known | None) -> Iterator[Choice]:
    """`choices` with their simulated latencies, all simulated together; one that is not sure also with the replicas that make it so."""
    groups = list(by_deployments(choices))
    own = [choices[number] for _, numbers in groups for number in numbers]
    numbers_of = [np.array([choices[number].row for number in numbers]) for _, numbers in groups]
    d, targets = own[0].deployments, own[0].deployments.workload.targets
    parts = [(deployments.evaluated, rows) for (deployments, _), rows in zip(groups, numbers_of, strict=True)]
    replicas = known.of(parts, targets.burst) if known else replicas_of(parts, targets.burst)
    evaluated, place = served(replicas, targets, share=_sure_share(own[0]))
    node_index = np.concatenate([deployments.node_index[rows] for (deployments, _), rows in zip(groups, numbers_of, strict=True)])
    again = deployments_of(evaluated, d.nodes, node_index[place], d.workload)
    return (Choice(again, number, own[place[number]].best) for number in _fewest_and_surer(place, again.probability_meets))


def _sure_share(choice: Choice) -> float:
    """Share of the limits on latency below which a prediction for `choice` is sure to keep them."""
    ranges = choice.deployments.evaluated.ranges
    kinds = {LATENCY_KINDS[f"_{limit.latency}_"] for limit in choice.deployments.workload.targets.latency_limits()}
    widths = [np.broadcast_to(ranges.half_width(kind), choice.deployments.gpus.size)[choice.row] for kind in kinds]
    return float(np.exp(-max(widths, default=0.0) * room_for(SURE)))


def _fewest_and_surer(place: Rows, probability_meets: Floats) -> Iterator[int]:
    """Numbers of the first row of each `place`, and of its next one that surely meets every target where the first does not."""
    first, surer = dict[int, float](), set[int]()
    for number, (index, probability) in enumerate(zip(place.tolist(), probability_meets.tolist(), strict=True)):
        if index not in first:
            first[index] = probability
        elif first[index] < SURE <= round(probability, 2) and index not in surer:
            surer.add(index)
        else:
            continue
        yield number


def _best_of_each_count(choices: Iterable[Choice]) -> list[Choice]:
    """Best choice of every GPU and count, the surest at one price.

    Simulation may have brought two to the same count, and changed which is a GPU's best.
    """
    kept: dict[tuple[str, str, float], Choice] = {}
    best: dict[tuple[str, str], tuple[str, str, float]] = {}
    for choice in sorted(choices, key=lambda choice: (choice.order, -choice.probability_meets)):
        node = choice.node_type
        place = (*node.place, float(choice.deployments.gpus[choice.row]))
        kept.setdefault(place, choice)
        best.setdefault(place[:2], place)
    return [choice._replace(best=best[place[:2]] == place) for place, choice in kept.items()]
