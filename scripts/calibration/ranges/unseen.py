"""Least half widths of ranges for classes (an architecture of GPUs, a shape of models) of which no value is published.

Ranges are fitted to the classes that sources measured, and facts make them wider. A class that nobody measured may be off for a reason that no fact
tells. How far is judged by the classes that were measured: in each kind, each class needs a half width that holds `NOMINAL` of its values; the least
half width of a kind holds `OF_CLASSES` of these needs. A kind knows few classes, so that those of the other kinds of its family count beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.workload.published.spreads import KINDS, NOMINAL
from ranges.residual import Floats, Residual, weighted_quantile

OF_CLASSES = 0.8
"""Share of the classes that a least half width is enough for. At 0.9 one class of one source decides the first tokens of all others (a factor of 100)."""
BORROWED_CLASSES = 4.0
"""Weight, in classes, of the needs of all other kinds of a family beside those of one kind."""
SAME_WORK = {
    "decode": "time per output token",
    "batch throughput": "batch request time",
    "batch request time": "batch throughput",
    "request time": "serving throughput",
}
"""Kind -> kind that times the same work or more, so that a class measured there is no stranger. Tokens under load are more than decoding: where classes of
decoding counted for them, their ranges held 87 % by source, and hold 95 % where they do not."""
FEWEST_OF_A_CLASS = 3
"""Values from which a class says what it needs."""


class Needs:
    """What each class of each kind needs, by residuals of which some may be left out."""

    def __init__(self, residuals: Sequence[Residual], weights: Floats) -> None:
        self._weights = weights
        self._kinds = np.array([one.kind for one in residuals])
        self._sizes = np.array([one.size() for one in residuals])
        stated = np.array([not one.asked for one in residuals])
        names = sorted({name for one in residuals for name in one.classes})
        self._of = {name: stated & np.array([name in one.classes for one in residuals]) for name in names}

    @cached_property
    def _times(self) -> list[str]:
        return [kind for kind in KINDS if KINDS[kind] != "memory" and (self._kinds == kind).any()]

    def classes(self, kind: str, kept: NDArray[np.bool_] | None = None) -> list[str]:
        """Classes of which there are values of `kind`, or of the kind that times the same work."""
        own = np.isin(self._kinds, (kind, SAME_WORK.get(kind, kind)))
        own = own if kept is None else own & kept
        return [name for name, of in self._of.items() if (own & of).any()]

    def least(self, kind: str, kept: NDArray[np.bool_] | None = None, share: float = NOMINAL) -> float:
        """Least half width of nominal `share` of `kind` for a class that is not among those `kept`; 0 where nothing is known."""
        if kind not in self._times:
            return 0.0
        family = [of for of in self._times if KINDS[of] == KINDS[kind]]
        own = self._needs([kind], kept, share)
        others = self._needs([of for of in family if of != kind], kept, share)
        if not own and not others:
            return 0.0
        borrowed = min(1.0, BORROWED_CLASSES / max(1, len(others)))
        weight = np.array([1.0] * len(own) + [borrowed] * len(others))
        return weighted_quantile(np.array([*own, *others]), weight, OF_CLASSES)

    def _needs(self, kinds: Iterable[str], kept: NDArray[np.bool_] | None, share: float) -> list[float]:
        """The half width that each class of each of `kinds` needs."""
        found = []
        for kind in kinds:
            for of in self._of.values():
                own = of & (self._kinds == kind) if kept is None else of & (self._kinds == kind) & kept
                if own.sum() >= FEWEST_OF_A_CLASS:
                    found.append(weighted_quantile(self._sizes[own], self._weights[own], share))
        return found
