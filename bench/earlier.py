"""What a run has behind it when its worker is started again: points it is through with, and the rounds of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.protocol import Lines, Result

if TYPE_CHECKING:
    from bench.jobs import Job


def to_come(jobs: Sequence[Job], done: Iterable[str], never: Iterable[str]) -> list[Job]:
    """`jobs` without those of `never`, and without as many of each point as `done` holds."""
    through, past = Counter(done), frozenset(never)
    found = []
    for job in jobs:
        if job.point.id in past:
            continue
        if through[job.point.id]:
            through[job.point.id] -= 1
        else:
            found.append(job)
    return found


def written_down(journal: str | None) -> dict[str, Result]:
    """Point -> the last that a journal says of it; empty without one."""
    found: dict[str, Result] = {}
    try:
        text = Path(journal).read_bytes() if journal else b""
    except OSError:
        text = b""
    for message in Lines().feed(text):
        if isinstance(message, Result):
            found[message.point] = message
    return found


def best_rates(results: Mapping[str, Result]) -> dict[str, float]:
    """What `Bench.best_flop_per_s` would hold after `results`."""
    found: dict[str, float] = {}
    for one in results.values():
        name = {"gemm": f"{one.dtype}", "train": f"train/{one.dtype}"}.get(one.kind)
        if name and one.value is not None:
            found[name] = max(one.value, found.get(name, 0.0))
    return found


def smallest_bytes(jobs: Iterable[Job], points: Iterable[str]) -> float:
    """Memory of the smallest of `points`, all of which ran out of it; infinite where none is known to."""
    those = frozenset(points)
    return min((job.needs_bytes for job in jobs if job.point.id in those and job.needs_bytes), default=float("inf"))
