"""The measurements that plans rest on, of all that are kept: one of each device and point, boards of others merged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from itertools import chain

from planner.hardware.measurements.fleet import board_of, merged
from planner.hardware.measurements.measurement import Measurement

CLOCKS_DIFFER = dt.timedelta(days=1)
"""Time ahead of this machine's clock that is still believed."""
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
        elif not top[2] and rank[:2] == top[:2]:  # boards measured by an older method, or disturbed, are no peers
            others.setdefault((device, point), []).append((rank, one))
    places = {key: max(rank[-1] for rank, _ in found) for key, found in others.items()}
    together = merged([one for found in others.values() for _, one in sorted(found, key=lambda entry: entry[0])])
    every = chain(own, ((places[one.device, one.point], one) for one in together))
    return tuple(one for _, one in sorted(every, key=lambda entry: entry[0]))


def newest_of_boards(points: Iterable[Measurement]) -> list[Measurement]:
    """The best of each device, point and board."""
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
    """The latest time that is believed, in the form of measurements."""
    return (dt.datetime.now(dt.UTC) + CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%SZ")
