"""Half widths of ranges from residuals ln(measured ÷ predicted), chosen so that they also hold for unseen sources.

The half width h that contains `NOMINAL` of the residuals is ln h = b + kind + Σ slope · fact + kind-with-engine: a quantile regression of
their logarithms (Koenker and Bassett, 1978), in which a source counts as one in each kind, however many values it has. A ridge keeps the
results of few sources near those of all; slopes of facts are at least 0, because knowing less never makes a range narrower. Values are also
predicted for requests that state less: without the engine's release, without the engine. These have slopes in each family of kinds
(`UNSAID`), in addition to those of the values as stated.

Then every source is left out in turn. A factor on the result of the others makes the ranges of a kind contain `NOMINAL` of what was left
out: that quantile of its own sources and, as if `BORROWED` more, of all kinds. Values of one source are similar, so many of them are worth
a few independent ones (`ranges.residual.weights`); with n as their total worth, the quantile is (n + 1)/n · `NOMINAL`. First tokens of
requests at a rate have a separate factor (`BY_LOAD`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.engine.job.engines import ENGINES
from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import ALIKE, UNSAID, Floats, Residual, weighted_quantile, weights

RIDGES = {"base": 1e-6, "kind": 4.0, "fact": 1.0, "engine": 1.0, "unsaid": 1.0}
"""Ridge of the coefficients of each sort; between 0.3 and 15 the score hardly depends on most of them (`ranges.unseen`)."""
BORROWED = 12
"""Sources of all kinds together that a kind's factor counts in addition to its own: the mean logarithm of the scores of sources left out is
0.139, 0.130 and 0.127 with 3, 6 and 12 of them."""
FEWEST, SOURCES_FOR_VALUES = 0.97, 3
"""Share of the nominal share that a kind contains at least of its own values, each counted equally, and number of sources from which it
does, so that a source of many values does not hide behind the others. Without it 72 and 79 % of the first tokens that nothing is fitted to
lay inside instead of 84 and 88 (tests/data/unseen), which were used for this choice only."""
LOAD, BY_LOAD = "requests at a rate", frozenset({"time to first token"})
"""Kinds with a separate factor where requests come at a rate: how prompts of a closed loop meet is the most frequent error of first tokens."""
WITHOUT_SLOPE = {"time to first token": frozenset({"mixture of experts"})}
"""Facts that do not widen ranges of a kind: a first token waits for as many prompts with a mixture as with a dense model."""
SMOOTH, CLOSE, ROUNDS = 0.3, 1e-3, 60
"""Distance of logarithms below which a quantile is fitted by squares, tolerance of the coefficients, and most rounds."""
LABELS = frozenset(record.label for records in ENGINES.values() for record in records)
"""Facts that name an engine, with one slope in each kind, of either sign."""


@dataclass(frozen=True)
class Fitted:
    """Logarithms of half widths of kinds, slopes of facts, and slopes in a kind of engines and of unstated settings."""

    kinds: Mapping[str, float]
    facts: Mapping[str, float]
    slopes: Mapping[str, Mapping[str, float]]


class Design:
    """Residuals as a regression of the logarithm of their size."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self._kinds = np.array([one.kind for one in residuals])
        self._families = np.array([KINDS[one.kind] for one in residuals])
        self.facts = sorted({name for one in residuals for name in one.facts})
        amounts = np.array([[round(one.facts.get(name, 0.0), 2) for name in self.facts] for one in residuals])
        columns = [column for column in self._columns(amounts) if column[2].any()]
        self.names = [(sort, name) for sort, name, _ in columns]
        self.rows = np.column_stack([values for *_, values in columns])
        self.least_0 = np.array([sort in {"fact", "unsaid"} for sort, _ in self.names])
        self.sizes, self.weights = np.array([one.size() for one in residuals]), weights(residuals)

    def _columns(self, amounts: Floats) -> Iterator[tuple[str, tuple[str, str], Floats]]:
        """(sort, (kind or family, fact), values) of each coefficient."""
        kinds = [kind for kind in KINDS if (self._kinds == kind).any()]
        families = sorted(set(self._families.tolist()))
        yield "base", ("", ""), np.ones(len(self._kinds))
        yield from (("kind", (kind, ""), (self._kinds == kind) * 1.0) for kind in kinds)
        for name, amount in zip(self.facts, amounts.T, strict=True):
            if name in LABELS:
                yield from (("engine", (kind, name), amount * (self._kinds == kind)) for kind in kinds)
            elif name in UNSAID:
                yield from (("unsaid", (family, name), amount * (self._families == family)) for family in families)
            else:
                counts = [name not in WITHOUT_SLOPE.get(kind, ()) for kind in self._kinds]
                yield "fact", ("", name), amount * counts

    def fit(self, left_out: NDArray[np.bool_] | None = None, start: Floats | None = None) -> Floats:
        """The coefficients without some residuals, by iteratively reweighted least squares."""
        kept = np.ones(len(self.sizes), dtype=bool) if left_out is None else ~left_out
        weight, logs, ridges = (
            np.where(kept, self.weights, 0.0),
            np.log(self.sizes),
            np.array([RIDGES[sort] for sort, _ in self.names]),
        )
        found = self._least_squares(weight, logs, ridges) if start is None else start
        for _ in range(ROUNDS):
            off = logs - self.rows @ found
            pull = np.where(off > 0, NOMINAL, 1 - NOMINAL) / np.maximum(np.abs(off), SMOOTH)
            before, found = found, self._least_squares(weight * pull, logs, ridges)
            if np.abs(found - before).max() < CLOSE:
                break
        return found

    def _least_squares(self, weight: Floats, logs: Floats, ridges: Floats) -> Floats:
        """Ridge regression; facts of a negative slope are left out in turn."""
        weighted = self.rows.T * weight
        normal, target = weighted @ self.rows + np.diag(ridges), weighted @ logs
        kept = np.ones(len(self.names), dtype=bool)
        while True:
            found = np.zeros(len(self.names))
            found[kept] = np.linalg.solve(normal[np.ix_(kept, kept)], target[kept])
            if not (self.least_0 & (found < 0)).any():
                return found
            kept &= ~(self.least_0 & (found < 0))

    def named(self, found: Floats) -> Fitted:
        """The coefficients by name."""
        known = dict(zip((name for _, name in self.names), map(float, found), strict=True))
        kinds = [kind for kind in KINDS if (kind, "") in known]
        scales = {kind: known["", ""] + known[kind, ""] for kind in kinds}
        facts = {name: value for (kind, name), value in known.items() if name and not kind}
        slopes = {
            kind: {name: value for (fact_kind, name), value in known.items() if name and fact_kind in (kind, KINDS[kind])}
            | {name: -facts[name] for name in WITHOUT_SLOPE.get(kind, ()) if name in facts}
            for kind in kinds
        }
        return Fitted(scales, facts, slopes)


@dataclass(frozen=True)
class LeftOut:
    """Residuals ÷ half widths that were fitted without the group that each of them belongs to."""

    residuals: Sequence[Residual]
    groups: NDArray[np.str_]
    scales: Floats
    ratios: Floats
    weights: Floats

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """The kind of each residual."""
        return np.array([one.kind for one in self.residuals])

    @cached_property
    def stated(self) -> NDArray[np.bool_]:
        """Whether each is predicted with everything that its source states."""
        return np.array([not one.asked for one in self.residuals])

    @cached_property
    def open(self) -> NDArray[np.bool_]:
        """Whether the question of each leaves the release or the engine open."""
        return np.array([any(one.facts.get(name) for name in UNSAID) for one in self.residuals])

    @cached_property
    def at_rate(self) -> NDArray[np.bool_]:
        """Whether each is of a kind `BY_LOAD`, and of requests that come at a rate."""
        return np.array([one.kind in BY_LOAD and one.facts.get(LOAD, 0.0) > 0 for one in self.residuals])

    def factor(self, kind: str, *, less: bool = False, at_rate: bool = False, without: str | None = None) -> float:
        """Factor on fitted half widths that contains `NOMINAL` of a source of `kind`, with less stated (`less`) or not, without a group."""
        kept = self.groups != without
        own = kept & (self.kinds == kind) & (self.at_rate == at_rate)
        usual = self._pooled(own & ~self.open, kept & self.stated)
        return max(usual, self._pooled(own & self.open, kept & self.open)) if less else usual

    def _pooled(self, own: NDArray[np.bool_], every: NDArray[np.bool_]) -> float:
        """Ratio that contains `NOMINAL` of `own` and, as `BORROWED` sources, of `every`, and not much less of the values of `own`; 1 without any.

        For n values, counted as independent ones, it uses the share (n + 1)/n (split conformal prediction; Vovk et al., 2005).
        """
        borrowed = np.where(every, self.weights, 0.0)
        counted = np.where(own, self.weights, 0.0) + borrowed * (BORROWED / max(borrowed.sum(), BORROWED))
        if not counted.any():
            return 1.0
        independent = max(borrowed.sum(), counted.sum()) / ALIKE
        found = weighted_quantile(self.ratios, counted, min(NOMINAL * (1 + 1 / independent), 1.0))
        if len({one.source for one, counts in zip(self.residuals, own, strict=True) if counts}) < SOURCES_FOR_VALUES:
            return found
        return max(found, weighted_quantile(self.ratios[own], np.ones(own.sum()), NOMINAL * FEWEST))

    @cached_property
    def nominal(self) -> Floats:
        """The half width of `NOMINAL` of every residual, from the other groups only."""
        columns = list(zip(self.kinds.tolist(), self.open.tolist(), self.at_rate.tolist(), self.groups.tolist(), strict=True))
        known = {key: self.factor(key[0], less=key[1], at_rate=key[2], without=key[3]) for key in set(columns)}
        beside = np.array([np.hypot(one.network, one.lengths) for one in self.residuals])
        return np.hypot(np.array([known[key] for key in columns]) * self.scales, beside)

    def shape(self, share: float) -> float:
        """Half width of nominal `share` ÷ that of `NOMINAL`, of all kinds together."""
        parts, counted = np.abs([one.reach for one in self.residuals]) / self.nominal, np.where(self.stated, self.weights, 0.0)
        return weighted_quantile(parts, counted, share) / weighted_quantile(parts, counted, NOMINAL)

    def half_widths(self, share: float = NOMINAL) -> Floats:
        """The half width of nominal `share` of every residual, proportional to that of `NOMINAL` as in answers."""
        return self.nominal * self.shape(share)


def left_out(residuals: Sequence[Residual], classes: Sequence[str] | None = None) -> LeftOut:
    """Every source left out in turn; with `classes` of the residuals, the class and the source of each, as a class that nobody measured comes with a new source.

    Residuals of the class "" have half widths of everything.
    """
    design, sources = Design(residuals), np.array([one.source for one in residuals])
    groups, whole = sources if classes is None else np.array(classes), design.fit()
    scales = np.exp(design.rows @ whole)
    for name, source in sorted(set(zip(groups.tolist(), sources.tolist(), strict=True))):
        if name:
            of_group, of_source = groups == name, sources == source
            own = of_group & of_source
            scales[own] = np.exp(design.rows[own] @ design.fit(of_group | of_source, whole))
    return LeftOut(residuals, groups, scales, design.sizes / scales, design.weights)
