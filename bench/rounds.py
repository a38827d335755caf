"""Points measured in interleaved rounds, possibly by several workers: remaining rounds, one figure from all of them, and drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.protocol import RELIABLE, MessageReader, Result
from bench.timing import MEDIAN, NOISY, UNSTABLE, judge, median, quantile, quantile_interval

if TYPE_CHECKING:
    from bench.jobs import Job


def remaining_jobs(jobs: Sequence[Job], done: Iterable[str], never: Iterable[str]) -> list[Job]:
    """The `jobs` that are left: without the points `never`, and each point without the rounds in `done`."""
    measured, given_up = Counter(done), frozenset(never)
    remaining = []
    for job in jobs:
        if job.point.id in given_up:
            continue
        if measured[job.point.id]:
            measured[job.point.id] -= 1
        else:
            remaining.append(job)
    return remaining


def last_results(journal: str | None) -> dict[str, Result]:
    """Last result of each point in a journal, by point id; empty without a journal."""
    results: dict[str, Result] = {}
    try:
        text = Path(journal).read_bytes() if journal else b""
    except OSError:
        text = b""
    for message in MessageReader().feed(text):
        if isinstance(message, Result):
            results[message.point] = message
    return results


def best_rates(results: Mapping[str, Result]) -> dict[str, float]:
    """Rates that `Bench.best_flop_per_s` holds after `results`."""
    best: dict[str, float] = {}
    for one in results.values():
        name = {"gemm": f"{one.dtype}", "train": f"train/{one.dtype}"}.get(one.kind)
        if name and one.value is not None:
            best[name] = max(one.value, best.get(name, 0.0))
    return best


def smallest_bytes(jobs: Iterable[Job], points: Iterable[str]) -> float:
    """Bytes of the smallest of the `points` that ran out of memory; infinite if no size is known."""
    too_large = frozenset(points)
    return min((job.needs_bytes for job in jobs if job.point.id in too_large and job.needs_bytes), default=float("inf"))


DRIFT = 0.03
"""Largest ÷ smallest median of the rounds, minus one, above which a result mentions it."""


class Rounds:
    """Results of one run's rounds so far."""

    def __init__(self, points: Iterable[str], earlier: Mapping[str, Result] | None = None, share: float = MEDIAN) -> None:
        """Results of `points`, which names each point once for every coming round; `earlier`: results of previous rounds, by point.

        `share`: the quantile of the samples that is the figure.
        """
        self._share = share
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
        whole = replace(combined(done, self._share), round=sum(one.round for one in done), rounds=self._planned[result.point])
        self._last[result.point] = whole
        return whole

    def gave_nothing(self, point: str) -> bool:
        """True if no round of `point` gave a value, so that its other rounds are not tried."""
        done = self._done.get(point)
        return bool(done) and all(one.value is None for one in done or ())

    def unfinished(self) -> list[Result]:
        """Results of points whose remaining rounds are cancelled, as if they were complete."""
        return [replace(one, rounds=one.round) for one in self._last.values() if one.round < one.rounds]


def combined(results: Sequence[Result], share: float = MEDIAN) -> Result:
    """One result of all rounds of a point: the quantile `share` of the undisturbed ones, else of all."""
    measured = [one for one in results if one.value is not None and one.samples_s]
    kept = [one for one in measured if one.status in RELIABLE] or measured
    if len(results) == 1 or not kept:
        return results[-1]
    last = kept[-1]
    assert last.value is not None
    samples = tuple(sample for one in kept for sample in one.samples_s)
    call_s, (low, high) = quantile(samples, share), quantile_interval(samples, share)
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
    amount = last.value * quantile(last.samples_s, share)
    return replace(
        last,
        value=amount / call_s if per_second else call_s,
        low=amount / high if per_second else low,
        high=amount / low if per_second else high,
        samples_s=samples,
        spread=round(spread, 6),
        status=status,
        detail=detail,
        parameters={**last.parameters, "drift": round(drift, 4)},
    )
