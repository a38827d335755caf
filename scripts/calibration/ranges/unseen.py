"""Factor on ranges of a class of which a kind of figure has no published values: a generation of GPUs, a shape of models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import Floats, Residual, weighted_quantile
from ranges.residuals import LeftOut, left_out

ENOUGH_SOURCES = 3
"""Sources of a kind that have to be left for a class without which they are judged."""
LEAST_VALUES = 10
"""Values of a kind and class that count for the factor."""


class UnseenClasses:
    """Every class of residuals left out in turn, with ranges that are one factor wider than those of the classes that were seen."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self._residuals = residuals
        architectures, shapes = zip(*(one.classes for one in residuals), strict=True)
        self._ways: list[LeftOut] = [left_out(residuals, names) for names in (architectures, shapes)]
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
                for name in set(way.groups[way.kinds == kind]):
                    of, rest = ((way.kinds == kind) & is_it for is_it in (way.groups == name, way.groups != name))
                    judged |= of & (len(set(sources[rest])) >= ENOUGH_SOURCES)
            found.append(judged)
        return found

    def factor(self, without: str | None = None) -> float:
        """Factor on half widths that holds `NOMINAL` of a class not seen, judged by all classes but `without`; at least 1.

        A class counts as one in each kind, and of n of them the share (n + 1)/n is taken (split conformal prediction; Vovk et al., 2005).
        """
        ratios, weight, classes = list[Floats](), list[Floats](), 0
        for way, ratio, judged in zip(self._ways, self._ratios, self._judged, strict=True):
            for kind in KINDS:
                for name in set(way.groups[judged]) - {without}:
                    own = judged & (way.kinds == kind) & (way.groups == name)
                    if own.sum() >= LEAST_VALUES:
                        ratios.append(ratio[own])
                        weight.append(way.weights[own] / way.weights[own].sum())
                        classes += 1
        if not classes:
            return 1.0
        return max(1.0, weighted_quantile(np.concatenate(ratios), np.concatenate(weight), min(1.0, NOMINAL * (1 + 1 / classes))))

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
