"""Factor on ranges of a class without published values of a kind: a generation of GPUs, a shape of models, an engine of services.

Ridges of kinds, facts and engines (`ranges.residuals.RIDGES`) are chosen by nested cross-validation over sources: the ridges for a source
are those with which the ranges of all other sources score best, each of these left out in turn. The score of the sources with ridges chosen
without them shows the value of the choice.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import Floats, Residual, interval_scores, mean_of_sources, weighted_quantile
from ranges.residuals import RIDGES, LeftOut, left_out

SAME_WORK = {
    "prefill": "time to first token",
    "decode": "time per output token",
    "batch throughput": "batch request time",
    "batch request time": "batch throughput",
    "request time": "serving throughput",
}
"""Kind -> kind that times the same work or more, so that a class measured there counts as seen."""
ENOUGH_SOURCES = 3
"""Sources of a kind that have to remain for a class to be judged without them."""
HELD = 0.85
"""Share of its values that a class has to contain. With a factor that contains 90 % of the values of all classes together (1.25), 78 % of
the times per token of new releases lay inside instead of 88 (tests/data/unseen, 2026-11-26), which were used for this choice only."""
NEXT_TO_NOTHING = 1e-9
LEAST_VALUES = 10
"""Fewest values of a kind and class that count for the factor."""
TRIED = {"kind": (2.0, 6.0), "fact": (2.0, 6.0), "engine": (0.1, 0.3)}


class UnseenClasses:
    """Every class of residuals left out in turn, with ranges wider than those of the seen classes by one factor."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self._residuals = residuals
        self._ways: list[LeftOut] = [left_out(residuals, names) for names in zip(*(one.classes for one in residuals), strict=True)]
        sizes = np.abs([one.reach for one in residuals])
        self._ratios = [sizes / way.half_widths() for way in self._ways]

    @cached_property
    def _judged(self) -> list[NDArray[np.bool_]]:
        """Whether enough sources of its kind are left without the class of a residual, for each sort of class."""
        found = []
        for way in self._ways:
            sources = np.array([one.source for one in self._residuals])
            judged = np.zeros(len(sources), dtype=bool)
            for kind in set(way.kinds):
                for name in set(way.groups[way.kinds == kind]) - {""}:
                    left_out, rest = ((way.kinds == kind) & is_it for is_it in (way.groups == name, way.groups != name))
                    judged |= left_out & (len(set(sources[rest])) >= ENOUGH_SOURCES)
            found.append(judged)
        return found

    def factor(self, without: str | None = None) -> float:
        """Factor on half widths with which `NOMINAL` of the classes contain `HELD` of their values, judged by all classes but `without`; at least 1.

        A class counts as one in each kind, and for n of them the share (n + 1)/n is used (split conformal prediction; Vovk et al., 2005).
        """
        needed = sorted(
            weighted_quantile(ratio[own], way.weights[own], HELD)
            for way, ratio, judged in zip(self._ways, self._ratios, self._judged, strict=True)
            for kind in KINDS
            for name in set(way.groups[judged]) - {without}
            if (own := judged & (way.kinds == kind) & (way.groups == name)).sum() >= LEAST_VALUES
        )
        place = math.ceil(NOMINAL * (len(needed) + 1))
        return max([1.0, *needed[:place][-1:]])

    def inside(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """For each sort of class: the residuals that are judged, and those inside, with the factor of the other classes."""
        found = []
        for way, ratio, judged in zip(self._ways, self._ratios, self._judged, strict=True):
            factors = {name: self.factor(name) for name in set(way.groups.tolist())}
            wider = np.array(
                [1.0 if KINDS[kind] == "memory" else factors[name] for kind, name in zip(way.kinds, way.groups, strict=True)]
            )
            found.append((judged, ratio <= wider))
        return found


def sources_left_out(residuals: Sequence[Residual]) -> LeftOut:
    """Every source left out in turn; a class with values of only this source, in a kind, gets the wider range of a class without any.

    The width of all others is judged without these.
    """
    found = left_out(residuals)
    strangers = _of_one_source(residuals)
    if not any(strangers):
        return found
    unseen = UnseenClasses(residuals)
    factors = {name: unseen.factor(name) for name in set(strangers) - {""}}
    wider = np.array([factors.get(name, 1.0) for name in strangers])
    weights = np.where(wider > 1, NEXT_TO_NOTHING, 1.0) * found.weights
    return replace(found, scales=found.scales * wider, ratios=found.ratios / wider, weights=weights)


def _of_one_source(residuals: Sequence[Residual]) -> list[str]:
    """The first class of each time or rate without a value of another source in its kind or in its `SAME_WORK`; "" where all have one."""
    sources: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in residuals:
        for name in one.classes:
            if not one.asked:
                sources[one.kind, name].add(one.source)

    def stranger(one: Residual, name: str) -> bool:
        return not (sources[one.kind, name] | sources[SAME_WORK.get(one.kind, ""), name]) - {one.source}

    times = [one if KINDS[one.kind] != "memory" else None for one in residuals]
    return [next((name for name in one.classes if name and stranger(one, name)), "") if one else "" for one in times]


def score(residuals: Sequence[Residual], half_widths: Floats) -> float:
    """Mean over kinds of the logarithm of the interval score of values as their sources state them, with each source counted once."""
    scores = []
    for kind in KINDS:
        own = [number for number, one in enumerate(residuals) if one.kind == kind and not one.asked]
        if own:
            of_kind = [residuals[number] for number in own]
            scores.append(np.log(mean_of_sources(of_kind, interval_scores(of_kind, half_widths[own]))))
    return float(np.mean(scores))


def half_widths(residuals: Sequence[Residual], ridges: Mapping[str, float]) -> Floats:
    """The half widths of `residuals` from other sources only, with these `ridges`."""
    before = dict(RIDGES)
    RIDGES.update(ridges)
    try:
        return sources_left_out(residuals).half_widths()
    finally:
        RIDGES.update(before)


def choose(residuals: Sequence[Residual]) -> None:
    """Print the score of every combination, and that of choices that did not use the source they are for."""
    combinations = [dict(zip(TRIED, values, strict=True)) for values in product(*TRIED.values())]
    found = [half_widths(residuals, ridges) for ridges in combinations]
    for ridges, half in zip(combinations, found, strict=True):
        print(f"{ridges}: {score(residuals, half):.4f}", flush=True)
    nested, chosen = np.zeros(len(residuals)), Counter[int]()
    for source in sorted({one.source for one in residuals}):
        others = [one for one in residuals if one.source != source]
        best = int(np.argmin([score(others, half_widths(others, ridges)) for ridges in combinations]))
        own = np.array([one.source == source for one in residuals])
        nested[own] = found[best][own]
        chosen[best] += 1
    print(f"chosen without the source: {score(residuals, nested):.4f}", {str(combinations[at]): n for at, n in chosen.items()})
