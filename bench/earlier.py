"""Restarting the worker of a run: which points are still to be measured, and what earlier workers measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.protocol import Lines, Result

if TYPE_CHECKING:
    from bench.jobs import Job


def remaining_jobs(jobs: Sequence[Job], done: Iterable[str], never: Iterable[str]) -> list[Job]:
    """The `jobs` left: none of the points `never`, and for each point as many fewer as `done` names it."""
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
    """The last result of each point in a journal, by point id; empty without a journal."""
    results: dict[str, Result] = {}
    try:
        text = Path(journal).read_bytes() if journal else b""
    except OSError:
        text = b""
    for message in Lines().feed(text):
        if isinstance(message, Result):
            results[message.point] = message
    return results


def best_rates(results: Mapping[str, Result]) -> dict[str, float]:
    """The rates that `Bench.best_flop_per_s` holds after `results`."""
    best: dict[str, float] = {}
    for one in results.values():
        name = {"gemm": f"{one.dtype}", "train": f"train/{one.dtype}"}.get(one.kind)
        if name and one.value is not None:
            best[name] = max(one.value, best.get(name, 0.0))
    return best


def smallest_bytes(jobs: Iterable[Job], points: Iterable[str]) -> float:
    """Bytes of the smallest of the `points` that ran out of memory; infinite where no size is known."""
    too_large = frozenset(points)
    return min((job.needs_bytes for job in jobs if job.point.id in too_large and job.needs_bytes), default=float("inf"))
