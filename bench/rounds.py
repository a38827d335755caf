"""Points measured in several rounds with others in between: one figure from all rounds, and whether they drifted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bench.protocol import RELIABLE, Result
from bench.timing import NOISY, UNSTABLE, judge, median, median_interval

DRIFT = 0.03
"""Largest over smallest median of the rounds, less one, from which a result mentions it."""


class Rounds:
    """The results of one run's rounds so far."""

    def __init__(self, points: Iterable[str], earlier: Mapping[str, Result] | None = None) -> None:
        """`points` names each point once for every round to come; `earlier` holds results of rounds before, by point."""
        self._planned = Counter(points)
        self._done: dict[str, list[Result]] = {}
        for name, result in (earlier or {}).items():
            if name in self._planned and result.value is not None:
                self._planned[name] += result.round
                self._done[name] = [result]
        self._last: dict[str, Result] = {}

    def add(self, result: Result) -> Result:
        """Add the result of a round; returns it with the samples of all rounds of its point so far."""
        done = self._done.setdefault(result.point, [])
        done.append(result)
        whole = replace(combined(done), round=sum(one.round for one in done), rounds=self._planned[result.point])
        self._last[result.point] = whole
        return whole

    def gave_nothing(self, point: str) -> bool:
        """Whether no round of `point` gave a value, so that its other rounds are not tried."""
        done = self._done.get(point)
        return bool(done) and all(one.value is None for one in done or ())

    def unfinished(self) -> list[Result]:
        """The results of points whose rounds will not all come, as if they had."""
        return [replace(one, rounds=one.round) for one in self._last.values() if one.round < one.rounds]


def combined(results: Sequence[Result]) -> Result:
    """Combine the rounds of a point into one result: the undisturbed ones where there are any, else all."""
    measured = [one for one in results if one.value is not None and one.samples_s]
    kept = [one for one in measured if one.status in RELIABLE] or measured
    if len(results) == 1 or not kept:
        return results[-1]
    last = kept[-1]
    assert last.value is not None
    samples = tuple(sample for one in kept for sample in one.samples_s)
    middle, (low, high) = median(samples), median_interval(samples)
    medians = [median(one.samples_s) for one in kept]
    drift = max(medians) / min(medians) - 1
    status, detail, spread = judge(samples)
    if len(kept) == len(measured) and any(one.status not in RELIABLE for one in kept):
        worst = next(one for one in kept if one.status not in RELIABLE)
        status, detail = worst.status, worst.detail
    elif drift > DRIFT:
        status = "unstable" if drift > UNSTABLE or status == "unstable" else "noisy" if drift > NOISY else status
        detail = f"{len(kept)} rounds differ by {drift:.0%}" + (f"; {detail}" if detail else "")
    per_second = last.unit != "s"
    amount = last.value * median(last.samples_s)
    return replace(
        last,
        value=amount / middle if per_second else middle,
        low=amount / high if per_second else low,
        high=amount / low if per_second else high,
        samples_s=samples,
        spread=round(spread, 6),
        status=status,
        detail=detail,
        parameters={**last.parameters, "drift": round(drift, 4)},
    )
