"""Measurements that plans use, selected from all stored ones: one of each device and point, boards of others merged by their median.

A board is one device of one machine: the first half of a fingerprint. Imported points of one GPU are compared in two groups of kinds,
arithmetic and moving of data, because a faulty board is slow in all of a group. A board's place among its peers is the
median, over the points of a group, of its value ÷ that of all boards. It is left out when that is further from 1 than five standard
deviations of the boards (from their median absolute deviation, which faulty boards do not affect), and than `LEAST_APART`.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, get_args

import msgspec

from planner.hardware.measurements.measurement import BandwidthKind, ComputeKind, Measurement

LEAST_BOARDS = 4
"""Number of boards below which they are merged without comparison: of three, two that are equal say little about the third."""
LEAST_APART = 0.05
"""Deviation of boards of one GPU that are not faulty: two measurements of one board an hour apart differ by as much."""
DEVIATIONS = 5.0
NORMAL_MAD = 1.4826
"""Standard deviation ÷ median absolute deviation, of a normal distribution."""
COMPUTE, MOVING = frozenset(get_args(ComputeKind)), frozenset(get_args(BandwidthKind)) | {"decode"}
GROUPS = {"arithmetic": COMPUTE, "moving of data": MOVING}
"""Group of kinds in words -> its kinds. Launches, memory and faults are merged without comparison."""


class Outlier(NamedTuple):
    """A board far from its peers in one group of kinds, which no plan uses."""

    device: str
    board: str
    """First half of its fingerprint."""
    runs: frozenset[str]
    group: str
    ratio: float
    """Values of the board ÷ those of its peers."""
    boards: int
    """Number of boards in the comparison, including itself."""


def board_of(one: Measurement) -> str:
    """Board that measured a point: the first half of its fingerprint."""
    return one.fingerprint.partition("-")[0]


def outliers(points: Iterable[Measurement]) -> list[Outlier]:
    """Boards of one GPU that are far from their peers. `points`: one of each board and point, of one or several GPUs."""
    by_part: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    runs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in points:
        group = next((name for name, kinds in GROUPS.items() if one.kind in kinds), None)
        if group is not None and one.reliable and one.value:
            by_part[one.device, group][board_of(one)][one.point] = one.value
            runs[one.device, board_of(one)].add(one.run)
    found = []
    for (device, group), boards in by_part.items():
        if len(boards) < LEAST_BOARDS:
            continue
        places = _places(boards)
        spread = NORMAL_MAD * statistics.median(abs(place - 1) for place in places.values())
        apart = max(LEAST_APART, DEVIATIONS * spread)
        found += [
            Outlier(device, board, frozenset(runs[device, board]), group, place, len(boards))
            for board, place in places.items()
            if abs(place - 1) > apart
        ]
    return sorted(found, key=lambda one: (one.device, one.group, one.ratio))


def _places(boards: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Board -> median over its points of its value ÷ the median of all boards."""
    values: dict[str, list[float]] = defaultdict(list)
    for points in boards.values():
        for point, value in points.items():
            values[point].append(value)
    middles = {point: statistics.median(given) for point, given in values.items()}
    return {board: statistics.median(value / middles[point] for point, value in points.items()) for board, points in boards.items()}


def merged(points: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for each device and point: the median over boards, with the middle 95 % of them as its interval.

    `points`: one of each board, device and point. Outlier boards are left out; other fields are those of the board closest to the
    median. A point of a single board stays as it is; if all boards were disturbed, the last one counts.
    """
    sick = {(one.device, one.board, kind) for one in outliers(points) for kind in GROUPS[one.group]}
    groups: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for one in points:
        groups[one.device, one.point].append(one)
    return [
        _merged(found, [one for one in found if (one.device, board_of(one), one.kind) not in sick]) for found in groups.values()
    ]


def _merged(every: Sequence[Measurement], sound: Sequence[Measurement]) -> Measurement:
    reliable = [one for one in sound if one.reliable and one.value] or [one for one in every if one.reliable and one.value]
    if len(reliable) < 2:
        return reliable[0] if reliable else every[-1]
    values = sorted(one.value or 0.0 for one in reliable)
    middle = statistics.median(values)
    nearest = min(reliable, key=lambda one: abs((one.value or 0.0) - middle))
    left_out, ends = len(every) - len(reliable), statistics.quantiles(values, n=40, method="inclusive")
    return msgspec.structs.replace(
        nearest,
        value=middle,
        low=ends[0],
        high=ends[-1],
        detail=f"median of {len(reliable)} boards" + (f", {left_out} left out" if left_out else ""),
    )


CLOCKS_DIFFER = dt.timedelta(days=1)
"""Time ahead of this machine's clock up to which a time is accepted."""
Rank = tuple[int, bool, bool, str, int]


def newest(points: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One of each device and point, in order of arrival: the best by `_rank`; imported ones merged over boards."""
    best = _best(points)
    chosen: dict[tuple[str, str], Rank] = {}
    for (device, point, _), (rank, _) in best.items():
        chosen[device, point] = max(chosen.get((device, point), rank), rank)
    own: list[tuple[int, Measurement]] = []
    others: dict[tuple[str, str], list[tuple[Rank, Measurement]]] = {}
    for (device, point, _), (rank, one) in best.items():
        top = chosen[device, point]
        if one.origin == "own":
            own += [(rank[-1], one)] if rank == top else []
        elif not top[2] and rank[:2] == top[:2]:  # boards measured by an older method, or disturbed, are not peers
            others.setdefault((device, point), []).append((rank, one))
    places = {key: max(rank[-1] for rank, _ in found) for key, found in others.items()}
    together = merged([one for found in others.values() for _, one in sorted(found, key=lambda entry: entry[0])])
    every = chain(own, ((places[one.device, one.point], one) for one in together))
    return tuple(one for _, one in sorted(every, key=lambda entry: entry[0]))


def newest_of_boards(points: Iterable[Measurement]) -> list[Measurement]:
    """Best of each device, point and board."""
    return [one for _, one in _best(points).values()]


def _best(points: Iterable[Measurement]) -> dict[tuple[str, str, str], tuple[Rank, Measurement]]:
    """(device, point, board) -> its best measurement and rank; quarantined ones are left out."""
    best: dict[tuple[str, str, str], tuple[Rank, Measurement]] = {}
    now = believed_until()
    for place, one in enumerate(points):
        if one.quarantine:
            continue
        taken_at = one.taken_at if one.origin != "own" and one.taken_at <= now else ""
        rank = (one.method, one.status in {"ok", "noisy"}, one.origin == "own", taken_at, place)
        key = (one.device, one.point, "" if one.origin == "own" else board_of(one))
        if key not in best or rank > best[key][0]:
            best[key] = (rank, one)
    return best


def believed_until() -> str:
    """Latest time that is accepted, in the form of measurements."""
    return (dt.datetime.now(dt.UTC) + CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%SZ")
