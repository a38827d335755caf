"""Half widths of ranges from residuals ln(measured ÷ predicted), so that a source that was not looked at lies inside as well.

The scale s of a residual is that of its kind, times what each fact about the question adds: ln s = b + Σ slope · fact, every slope at
least 0, because knowing less never makes a range narrower. A source counts as one, however many values it has; a value's |residual| is taken as
Laplace's distribution of scale s. Kinds with few sources borrow from their family and from all, facts from 0, by a ridge. Then each
source is left out, its residuals are divided by the scales the others give, and the share q of these ratios, pooled over the sources of the
family (those of other families count a quarter), says how many scales a range of nominal q is wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import KINDS, NOMINAL

Floats = NDArray[np.float64]
RIDGE_KIND, RIDGE_FACT = 0.3, 1.0
"""Weight of a slope's square against one source's likelihood: a kind or a fact that one source knows moves about half way."""
ELSEWHERE = 0.25
"""Weight of the sources of other families among the ratios of one."""
WHOLE_SOURCE = 3
"""Values from which a source counts in full."""
LEAST = 1e-3


@dataclass(frozen=True)
class Residual:
    """One published value beside its prediction."""

    kind: str
    source: str
    off: float
    """ln(measured ÷ predicted)."""
    facts: Mapping[str, float] = field(default_factory=dict)
    network: float = 0.0
    """Half width that stands beside that of the formulas, whatever is fitted."""
    held: Any = None
    """The comparison it comes from."""


@dataclass(frozen=True)
class Fitted:
    """Scales of kinds and slopes of facts, in logarithms."""

    kinds: Mapping[str, float]
    facts: Mapping[str, float]

    def scale(self, one: Residual) -> float:
        """The scale of a residual."""
        slopes = sum(self.facts.get(name, 0.0) * amount for name, amount in one.facts.items())
        return float(np.exp(self.kinds[one.kind] + slopes))


def excess(one: Residual) -> float:
    """Size of the residual beyond what the network's part of the range covers."""
    return float(np.sqrt(max(LEAST**2, one.off**2 - one.network**2)))


def weights(residuals: Sequence[Residual]) -> Floats:
    """The weight of each value: one for a source and kind, less below `WHOLE_SOURCE` values."""
    counts: dict[tuple[str, str], int] = {}
    for one in residuals:
        counts[one.kind, one.source] = counts.get((one.kind, one.source), 0) + 1
    return np.array([min(1.0, n / WHOLE_SOURCE) / n for one in residuals for n in (counts[one.kind, one.source],)])


class Design:
    """The residuals of times, or those of memory, as rows of a regression; rows alike in everything are one."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self.kinds = [kind for kind in KINDS if any(one.kind == kind for one in residuals)]
        self.families = sorted({KINDS[kind] for kind in self.kinds})
        self.facts = sorted({name for one in residuals for name in one.facts})
        rows = [
            [1.0, *(KINDS[one.kind] == of for of in self.families), *(one.kind == of for of in self.kinds)]
            + [round(one.facts.get(name, 0.0), 2) for name in self.facts]
            for one in residuals
        ]
        self.first_fact = 1 + len(self.families) + len(self.kinds)
        self.rows, self.row_of = np.unique(np.array(rows, dtype=np.float64), axis=0, return_inverse=True)
        self.sizes = np.array([excess(one) for one in residuals])
        self.weights = weights(residuals)

    def fit(self, left_out: NDArray[np.bool_]) -> Fitted:
        """The fit without some residuals: Newton's method on the penalised likelihood, slopes of facts kept at 0 or above."""
        weight = np.where(left_out, 0.0, self.weights)
        total = np.bincount(self.row_of, weights=weight, minlength=len(self.rows))
        size = np.bincount(self.row_of, weights=weight * self.sizes, minlength=len(self.rows))
        ridge = np.full(self.rows.shape[1], RIDGE_KIND)
        ridge[0], ridge[self.first_fact :] = 1e-6, RIDGE_FACT
        beta = np.zeros(self.rows.shape[1])
        beta[0] = np.log(size.sum() / total.sum())
        for _ in range(200):
            ratio = size / np.exp(self.rows @ beta)
            slope = self.rows.T @ (total - ratio) + ridge * beta
            bend = (self.rows * (ratio + 0.1 * total)[:, None]).T @ self.rows + np.diag(ridge)
            step = np.clip(np.linalg.solve(bend, -slope), -0.5, 0.5)
            moved = beta + 0.7 * step
            moved[self.first_fact :] = np.maximum(moved[self.first_fact :], 0.0)
            done = np.abs(moved - beta).max() < 1e-5
            beta = moved
            if done:
                break
        family = dict(zip(self.families, beta[1:], strict=False))
        kind = dict(zip(self.kinds, beta[1 + len(self.families) :], strict=False))
        return Fitted(
            {name: float(beta[0] + family[KINDS[name]] + own) for name, own in kind.items()},
            dict(zip(self.facts, map(float, beta[self.first_fact :]), strict=True)),
        )


@dataclass(frozen=True)
class LeftOut:
    """Ratios of residuals to scales that were fitted without the group each residual belongs to."""

    residuals: Sequence[Residual]
    groups: Sequence[str]
    scales: Floats
    ratios: Floats
    weights: Floats

    def quantile(self, family: str, share: float, without: str | None = None) -> float:
        """How many scales hold `share` of the residuals of `family`, those of the group `without` not counted."""
        own = np.array([KINDS[one.kind] == family for one in self.residuals])
        weight = self.weights * np.where(own, 1.0, ELSEWHERE)
        if without is not None:
            weight = weight * np.array([group != without for group in self.groups])
        return weighted_quantile(self.ratios, weight, share)

    def half_widths(self, share: float = NOMINAL) -> Floats:
        """The half width of nominal `share` of every residual, by the other groups alone."""
        known: dict[tuple[str, str], float] = {}
        for one, group in zip(self.residuals, self.groups, strict=True):
            key = KINDS[one.kind], group
            if key not in known:
                known[key] = self.quantile(*(KINDS[one.kind], share), without=group)
        factors = np.array([known[KINDS[one.kind], group] for one, group in zip(self.residuals, self.groups, strict=True)])
        return np.hypot(factors * self.scales, [one.network for one in self.residuals])


def left_out(residuals: Sequence[Residual], groups: Sequence[str]) -> LeftOut:
    """Every group of residuals (a source, a generation of GPUs) left out in turn."""
    design, names = Design(residuals), np.array(groups)
    scales = np.zeros(len(residuals))
    for name in sorted(set(groups)):
        fitted = design.fit(names == name)
        for place in np.flatnonzero(names == name):
            scales[place] = fitted.scale(residuals[place])
    return LeftOut(residuals, groups, scales, design.sizes / scales, design.weights)


def weighted_quantile(values: Floats, weight: Floats, share: float) -> float:
    """The smallest value up to which `share` of the weight lies."""
    order = np.argsort(values)
    counted = np.cumsum(weight[order])
    return float(values[order][min(len(values) - 1, int(np.searchsorted(counted, share * counted[-1] - 1e-12)))])


def interval_score(offs: Floats, half_widths: Floats, share: float = NOMINAL) -> float:
    """Mean of width plus 2/(1 - share) times what a value is outside (Gneiting and Raftery 2007); smaller is better."""
    return float(np.mean(2 * half_widths + 2 / (1 - share) * np.maximum(0.0, np.abs(offs) - half_widths)))


def by_source(residuals: Iterable[Residual], values: Floats) -> Floats:
    """The mean of `values` over each source."""
    found: dict[str, list[float]] = {}
    for one, value in zip(residuals, values, strict=True):
        found.setdefault(one.source, []).append(float(value))
    return np.array([np.mean(group) for group in found.values()])
