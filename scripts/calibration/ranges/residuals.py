"""Half widths of ranges from residuals ln(measured ÷ predicted), such that a source that nobody looked at lies inside as well.

The scale s of a residual is ln s = b + kind + family + Σ slope · fact + kind-with-engine, fitted to the mean |residual| of each source in each
combination of these; a source counts as one, however many values it has. A ridge keeps what few sources tell near what all tell; slopes of
facts are at least 0, because knowing less never makes a range narrower. Then every source is left out in turn, and the quantile q of its residuals
over the scales that the others give says how many scales a range of nominal q is wide: of those of its kind, to which all other kinds are added with
the weight of a few sources, as tails differ by kind.

Values are also asked as people do who know less: without the engine's release, without the engine. These do not count above. The same quantile of
their residuals over those ranges, in each family of kinds, is the factor of what is not known (`UNSAID`). Without the engine it grows with the share
of the time that the host takes (`HOST_OPEN`), by the slope of `HOST_SLOPES` that the interval score likes best.

Where no value of another group is of the class of a question, its range has a least width (`ranges.unseen`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from planner.engine.evaluate.ranges import HOST_OPEN
from planner.engine.job.engines import ENGINES
from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import Floats, Residual, interval_scores, open_of, weighted_quantile, weights
from ranges.unseen import Needs

RIDGE_KIND, RIDGE_FACT, RIDGE_ENGINE = 6.0, 1.0, 1.0
"""Number of sources at which a kind (or family), a fact, an engine in a kind is believed half. Chosen by the interval score with each source left out
(`ranges.pooling`, 2026-11-23: 1.83 instead of 1.86). Kinds at 15, engines at 3 and 16 borrowed are better by less than 1 %, and hold fewer first tokens of
sources that were never fitted to (tests/data/unseen)."""
BORROWED = 8.0
"""Weight, in sources, of the ratios of all other kinds beside those of one kind. Chosen in the same way."""
FEWEST, MOST = 0.97, 0.5
"""A range of nominal share q holds at least FEWEST · q, and leaves out at least MOST · (1 - q), of the values of a kind as well, each counted alike: a
source of many values is neither left to chance nor does it hide in ranges that others need."""
SOURCES_FOR_VALUES = 3
"""Sources of a kind from which its values count alike, too."""
HOST_SLOPES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
UNITS = 60
"""About as many sources there are, each counted once in each kind. Split conformal prediction takes the share (n + 1)/n · q of n exchangeable
residuals to cover a new one with q (Vovk et al., 2005)."""
LABELS = frozenset(record.label for records in ENGINES.values() for record in records)
"""Facts that name an engine: no slope of their own, but one in each kind, of either sign."""


@dataclass(frozen=True)
class Fitted:
    """Scales of kinds, slopes of facts, and slopes of engines in a kind, in logarithms."""

    kinds: Mapping[str, float]
    facts: Mapping[str, float]
    engines: Mapping[tuple[str, str], float]


class Design:
    """Residuals as a regression of the logarithm of their mean size, a row for each source and combination of facts."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self.kinds = [kind for kind in KINDS if any(one.kind == kind for one in residuals)]
        self.families = sorted({KINDS[kind] for kind in self.kinds})
        self.facts = sorted({name for one in residuals for name in one.facts} - LABELS - {HOST_OPEN})
        self.engines = sorted({(one.kind, name) for one in residuals for name in one.facts if name in LABELS})
        columns = [[1.0, *self._coded(one)] for one in residuals]
        sources = sorted({one.source for one in residuals})
        keyed = np.column_stack([columns, [sources.index(one.source) for one in residuals]])
        cells, self.cell = np.unique(keyed, axis=0, return_inverse=True)
        self.rows = cells[:, :-1]
        self.coded = np.array(columns)
        self.sizes, self.weights = np.array([one.size() for one in residuals]), weights(residuals)
        self.counted = np.where([bool(one.asked) for one in residuals], 0.0, self.weights)
        self.mass = np.bincount(self.cell, weights=self.counted)
        self.logs = np.log(np.bincount(self.cell, weights=self.sizes) / np.bincount(self.cell))
        begins = np.cumsum([1, len(self.families) + len(self.kinds), len(self.facts), len(self.engines)])
        self.ridge = np.full(begins[-1], RIDGE_ENGINE)
        self.ridge[: begins[1]], self.ridge[begins[1] : begins[2]], self.ridge[0] = RIDGE_KIND, RIDGE_FACT, 1e-6
        self.least_0 = np.zeros(begins[-1], dtype=bool)
        self.least_0[begins[1] : begins[2]] = True

    def _coded(self, one: Residual) -> list[float]:
        """Families, kinds, facts and engines as numbers."""
        is_of = [KINDS[one.kind] == of for of in self.families] + [one.kind == of for of in self.kinds]
        engine = [one.kind == kind and name in one.facts for kind, name in self.engines]
        return [*map(float, is_of), *(round(one.facts.get(name, 0.0), 2) for name in self.facts), *map(float, engine)]

    def fit(self, left_out: NDArray[np.bool_] | None = None) -> Floats:
        """The coefficients without some residuals: weighted least squares; facts of a negative slope are left out in turn."""
        mass = self.mass if left_out is None else np.bincount(self.cell, np.where(left_out, 0.0, self.counted), len(self.rows))
        normal = (self.rows * mass[:, None]).T @ self.rows + np.diag(self.ridge)
        target = self.rows.T @ (mass * self.logs)
        found, kept = np.zeros(len(self.ridge)), np.ones(len(self.ridge), dtype=bool)
        while True:
            found[:] = 0.0
            found[kept] = np.linalg.solve(normal[np.ix_(kept, kept)], target[kept])
            if not (self.least_0 & (found < 0)).any():
                return found
            kept &= ~(self.least_0 & (found < 0))

    def named(self, found: Floats) -> Fitted:
        """The coefficients by what they are of."""
        values = iter(map(float, found))
        base, family = next(values), {name: next(values) for name in self.families}
        kinds = {name: base + family[KINDS[name]] + next(values) for name in self.kinds}
        facts = {name: next(values) for name in self.facts}
        return Fitted(kinds, facts, {name: next(values) for name in self.engines})


@dataclass(frozen=True)
class LeftOut:
    """Residuals over scales that were fitted without the group each of them belongs to."""

    residuals: Sequence[Residual]
    groups: NDArray[np.str_]
    scales: Floats
    ratios: Floats
    weights: Floats

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each."""
        return np.array([one.kind for one in self.residuals])

    @cached_property
    def less_said(self) -> NDArray[np.bool_]:
        """Whether each is asked with less than its source states."""
        return np.array([bool(one.asked) for one in self.residuals])

    def quantile(self, share: float, kind: str, without: str | None = None) -> float:
        """Number of scales that hold `share` of a source of `kind` not among these, the residuals of the group `without` not counted."""
        key = (share, kind, without)
        if key not in self._known:
            self._known[key] = self._quantile(*key)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[float, str, str | None], float]:
        return {}

    def _quantile(self, share: float, kind: str, without: str | None) -> float:
        weight = np.where((self.groups == without) | self.less_said, 0.0, self.weights)
        others = self.kinds != kind
        borrowed = min(1.0, BORROWED / max(weight[others].sum(), 1e-9))
        found = weighted_quantile(self.ratios, np.where(others, weight * borrowed, weight), _wanted(share))
        alike = np.where(others, 0.0, (weight > 0) * 1.0)
        if len({one.source for one, counted in zip(self.residuals, alike, strict=True) if counted}) < SOURCES_FOR_VALUES:
            return found
        least, most = (weighted_quantile(self.ratios, alike, of) for of in (share * FEWEST, 1 - (1 - share) * MOST))
        return min(max(found, least), most)

    def shape(self, share: float) -> float:
        """Half width of nominal `share` over that of `NOMINAL`, of all kinds together."""
        weight = np.where(self.less_said, 0.0, self.weights)
        wide, usual = (weighted_quantile(self.ratios, weight, _wanted(of)) for of in (share, NOMINAL))
        return wide / usual

    def factor(self, unsaid: str, family: str, share: float = NOMINAL, without: str | None = None, slope: float = 0.0) -> float:
        """Factor on the half width of the kinds of `family` where a question leaves `unsaid` open; at least 1. `slope`: of `HOST_OPEN`, beside it."""
        of_family = np.array([KINDS[kind] == family for kind in self.kinds])
        counts = np.array([one.facts.get(unsaid, 0.0) > 0 for one in self.residuals]) & of_family & (self.groups != without)
        if not counts.any():
            return 1.0
        known = {kind: self.quantile(share, kind, without) for kind in sorted(set(self.kinds[counts]))}
        ratios = self.ratios[counts] / [known[kind] for kind in self.kinds[counts]]
        ratios = ratios / np.exp(slope * self.host_open[counts])
        found = weighted_quantile(ratios, self.weights[counts], _wanted(share))
        sources = {one.source for one, counted in zip(self.residuals, counts, strict=True) if counted}
        if len(sources) >= SOURCES_FOR_VALUES:
            found = max(found, weighted_quantile(ratios, np.ones(ratios.size), share * FEWEST))
        return max(1.0, found)

    @cached_property
    def host_open(self) -> Floats:
        """The amount of `HOST_OPEN` of each."""
        return np.array([one.facts.get(HOST_OPEN, 0.0) for one in self.residuals])

    @cached_property
    def host_slopes(self) -> dict[str, float]:
        """Family of kinds -> slope of `HOST_OPEN`: the one with the least interval score, a source in a kind counted once."""
        found = dict[str, float]()
        for family in sorted({KINDS[kind] for kind in self.kinds}):
            own = np.array([KINDS[kind] == family for kind in self.kinds]) & (self.host_open > 0)
            if own.any():
                found[family] = min(HOST_SLOPES, key=partial(self._host_score, own=own, family=family))
        return found

    def _host_score(self, slope: float, own: NDArray[np.bool_], family: str) -> float:
        offs = np.array([one.reach for one in self.residuals])[own]
        return float(np.average(interval_scores(offs, self._fitted({family: slope})[own]), weights=self.weights[own]))

    def half_widths(self, share: float = NOMINAL) -> Floats:
        """The half width of nominal `share` of every residual, by the other groups alone."""
        beside = np.array([np.hypot(one.network, one.lengths) for one in self.residuals])
        found: Floats = np.hypot(np.maximum(self._fitted(self.host_slopes, share), self._least_widths(share)), beside)
        return found

    def _fitted(self, slopes: Mapping[str, float], share: float = NOMINAL) -> Floats:
        """Half widths with these `slopes` of `HOST_OPEN` by family, whatever is published of a class."""
        of = [(one.kind, group, open_of(one)) for one, group in zip(self.residuals, self.groups, strict=True)]
        known = {
            (kind, group, unsaid): self.quantile(share, kind, group)
            * (self.factor(unsaid, KINDS[kind], share, group, slopes.get(KINDS[kind], 0.0)) if unsaid else 1.0)
            for kind, group, unsaid in sorted(set(of))
        }
        growing = np.exp(self.host_open * [slopes.get(KINDS[kind], 0.0) for kind in self.kinds])
        return np.array([known[key] for key in of]) * self.scales * growing

    @cached_property
    def needs(self) -> Needs:
        """What classes need of which there are no values."""
        return Needs(self.residuals, self.weights)

    def _least_widths(self, share: float) -> Floats:
        """The least half width of each residual: 0 where a class of it has values in other groups."""
        known = dict[tuple[str, str], tuple[set[str], float]]()
        for kind, group in sorted(set(zip(self.kinds.tolist(), self.groups.tolist(), strict=True))):
            kept = self.groups != group
            known[kind, group] = set(self.needs.classes(kind, kept)), self.needs.least(kind, kept, share)
        seen_least = [known[kind, group] for kind, group in zip(self.kinds.tolist(), self.groups.tolist(), strict=True)]
        return np.array(
            [0.0 if one.classes <= seen else least for one, (seen, least) in zip(self.residuals, seen_least, strict=True)]
        )


def left_out(residuals: Sequence[Residual], groups: Sequence[str] | None = None) -> LeftOut:
    """Every group of residuals (by default: source) left out in turn."""
    design = Design(residuals)
    names = np.array([one.source for one in residuals] if groups is None else groups)
    scales = np.zeros(len(residuals))
    for name in sorted(set(names)):
        own = names == name
        scales[own] = np.exp(design.coded[own] @ design.fit(own))
    return LeftOut(residuals, names, scales, design.sizes / scales, design.weights)


def _wanted(share: float) -> float:
    """Share of `UNITS` sources that covers a new one with `share`."""
    return min(share * (1 + 1 / UNITS), (1 + share) / 2)
