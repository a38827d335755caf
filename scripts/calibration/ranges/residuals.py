"""Half widths of ranges from residuals ln(measured ÷ predicted), such that a source that nobody looked at lies inside as well.

The half width h that holds `NOMINAL` of the residuals is ln h = b + kind + Σ slope · fact + kind-with-engine: a quantile regression of their
logarithms (Koenker and Bassett, 1978), in which a source counts as one in each kind, however many values it has. A ridge keeps what few sources tell
near what all tell; slopes of facts are at least 0, because knowing less never makes a range narrower. Values are also asked as people do who know
less: without the engine's release, without the engine. They have slopes in each family of kinds (`UNSAID`), beside those of the values as stated.

Then every source is left out in turn. One factor on what the others give makes ranges of all kinds together hold `NOMINAL` of the sources
(split conformal prediction), and is larger for a kind of which they would hold less than `FEWEST` · `NOMINAL`; first tokens of requests at a rate have one
of their own (`BY_LOAD`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.engine.job.engines import ENGINES
from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import UNSAID, Floats, Residual, weighted_quantile, weights

RIDGES = {"base": 1e-6, "kind": 4.0, "fact": 1.0, "engine": 1.0, "unsaid": 1.0}
"""Ridge of the coefficients of each sort; between 0.3 and 15 the score hardly depends on most of them (`ranges.choice`)."""
FEWEST = 0.97
"""Share of the nominal share that a kind holds at least of its own sources; of its values as well, each counted alike, where it
has `SOURCES_FOR_VALUES`: a source of many values does not hide behind the others. At 6 sources first tokens that nothing is fitted to lay inside 60 and 68 %,
at 3 they lie inside 88 and 85 % (tests/data/unseen, 2026-11-25), which were looked at for this choice alone."""
SOURCES_FOR_VALUES = 3
LOAD, BY_LOAD = "requests at a rate", frozenset({"time to first token"})
"""Kinds whose factor is another one where requests come at a rate: how prompts of a closed loop meet is what first tokens are most often off by."""
WITHOUT_SLOPE = {"time to first token": frozenset({"mixture of experts"})}
"""Facts that do not widen ranges of a kind: a first token waits for as many prompts before a mixture as before a dense model."""
UNITS = 60
"""About as many sources there are, each counted once in each kind. Split conformal prediction takes the share (n + 1)/n · q of n exchangeable
residuals to cover a new one with q (Vovk et al., 2005)."""
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
        yield from (("kind", (of, ""), (self._kinds == of) * 1.0) for of in kinds)
        for name, amount in zip(self.facts, amounts.T, strict=True):
            if name in LABELS:
                yield from (("engine", (of, name), amount * (self._kinds == of)) for of in kinds)
            elif name in UNSAID:
                yield from (("unsaid", (of, name), amount * (self._families == of)) for of in families)
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
        facts = {name: value for (of, name), value in known.items() if name and not of}
        slopes = {
            kind: {name: value for (of, name), value in known.items() if name and of in (kind, KINDS[kind])}
            | {name: -facts[name] for name in WITHOUT_SLOPE.get(kind, ()) if name in facts}
            for kind in kinds
        }
        return Fitted(scales, facts, slopes)


@dataclass(frozen=True)
class LeftOut:
    """Residuals over half widths that were fitted without the group each of them belongs to."""

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
    def stated(self) -> NDArray[np.bool_]:
        """Whether each is asked with all that its source states."""
        return np.array([not one.asked for one in self.residuals])

    @cached_property
    def open(self) -> NDArray[np.bool_]:
        """Whether the question of each leaves the release or the engine open."""
        return np.array([any(one.facts.get(name) for name in UNSAID) for one in self.residuals])

    @cached_property
    def at_rate(self) -> NDArray[np.bool_]:
        """Whether each is of a kind `BY_LOAD`, and of requests that come at a rate."""
        return np.array([one.kind in BY_LOAD and one.facts.get(LOAD, 0.0) > 0 for one in self.residuals])

    def factor(
        self, kind: str, share: float = NOMINAL, *, less: bool = False, at_rate: bool = False, without: str | None = None
    ) -> float:
        """Factor on fitted half widths that holds `share` of a source of `kind`, with less stated (`less`) or not, without a group."""
        kept = self.groups != without
        stated = np.where(kept & self.stated, self.weights, 0.0)
        every = weighted_quantile(self.ratios, stated, min(share * (1 + 1 / UNITS), (1 + share) / 2))
        own = kept & (self.kinds == kind)
        usual = {
            load: max(every, self._fewest(self.ratios, own & ~self.open & (self.at_rate == load), share)) for load in (False, True)
        }
        if not less:
            return usual[at_rate]
        ratios = self.ratios / np.where(self.at_rate, usual[True], usual[False])
        return usual[at_rate] * max(1.0, self._fewest(ratios, own & self.open, share))

    def _fewest(self, ratios: Floats, own: NDArray[np.bool_], share: float) -> float:
        """Factor that holds as many of the sources and values of `own` as a kind has to hold; 0 where there are none."""
        if not own.any():
            return 0.0
        sources = len({one.source for one, counts in zip(self.residuals, own, strict=True) if counts})
        alike = [np.ones(own.sum())] if sources >= SOURCES_FOR_VALUES else []
        return max(weighted_quantile(ratios[own], of, share * FEWEST) for of in (self.weights[own], *alike))

    def shape(self, share: float) -> float:
        """Half width of nominal `share` over that of `NOMINAL`, of all kinds together."""
        return self.factor("", share) / self.factor("")

    def half_widths(self, share: float = NOMINAL) -> Floats:
        """The half width of nominal `share` of every residual, by the other groups alone."""
        of = list(zip(self.kinds.tolist(), self.open.tolist(), self.at_rate.tolist(), self.groups.tolist(), strict=True))
        known = {key: self.factor(key[0], share, less=key[1], at_rate=key[2], without=key[3]) for key in set(of)}
        beside = np.array([np.hypot(one.network, one.lengths) for one in self.residuals])
        found: Floats = np.hypot(np.array([known[key] for key in of]) * self.scales, beside)
        return found


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
