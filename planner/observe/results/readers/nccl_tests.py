"""Text of nccl-tests and rccl-tests (all_reduce_perf and similar): time by message size, out of place.

Columns by https://github.com/NVIDIA/nccl-tests and doc/PERFORMANCE.md there (read 2026-11-22): bus bandwidth is size ÷ time times a factor
of the collective, 2(n-1)/n for an all-reduce among n ranks. Launchers may put a prefix before each line.
"""

from __future__ import annotations

import re
from typing import Any

from planner.errors import Problem, UserError
from planner.observe.results.result import CollectiveTimes, Contents, Reader, stated

PREFIX = re.compile(r"^\s*(?:\[[\d,]+\]<std\w+>:|\d+:)\s?")
RANK = re.compile(r"#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(.+?)\s*$")
NAMED = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|alltoall)_perf\b")
LEAST_BYTES = 1024
"""Message size below which times show the clock's resolution."""
RATIO_TOLERANCE = 0.02


def _read(contents: Contents) -> list[CollectiveTimes]:
    lines = [PREFIX.sub("", line) for line in contents.lines]
    ranks = [found.groups() for line in lines if (found := RANK.search(line))]
    parts = {name for _, name in ranks}
    columns = _columns(lines)
    rows = [row for line in lines if (row := _row(line, columns))]
    series = tuple((size, micro * 1e-6) for size, micro, _ in rows if size >= LEAST_BYTES and micro > 0)
    if len({size for size, _ in series}) < 2:
        raise UserError(Problem(contents.where, "", "has fewer than two message sizes with a time; was it cut off?"))
    named = NAMED.search(contents.text)
    settings: dict[str, Any] = stated(
        gpu=parts.pop() if len(parts) == 1 else None,
        op=named[1] if named else _by_ratio(rows[-1], len(ranks)),
        ranks=len(ranks) or None,
        nodes=len({host for host, _ in ranks}) or None,
    )
    return [CollectiveTimes(tool="nccl-tests", settings=settings, series=tuple(sorted(dict(series).items())))]


def _columns(lines: list[str]) -> tuple[int, int]:
    """Positions of time and bus bandwidth among the columns, from the line of names."""
    for line in lines:
        names = line.lstrip("# ").split()
        if "size" in names and "time" in names and "busbw" in names:
            return names.index("time"), names.index("busbw")
    return 5, 7


def _row(line: str, columns: tuple[int, int]) -> tuple[int, float, float] | None:
    """(bytes, microseconds, bus ÷ algorithm bandwidth) of a line of figures."""
    words = line.split()
    if len(words) <= columns[1] or not words[0].isdecimal():
        return None
    try:
        micro, bus = float(words[columns[0]]), float(words[columns[1]])
    except ValueError:
        return None
    size = int(words[0])
    return size, micro, bus * 1e3 * micro / size if size else 0.0


def _by_ratio(last: tuple[int, float, float], ranks: int) -> str | None:
    """'all_reduce' if bus ÷ algorithm bandwidth is 2(n-1)/n for more than two ranks, which no other collective has; else None."""
    if ranks > 2 and abs(last[2] / (2 * (ranks - 1) / ranks) - 1) < RATIO_TOLERANCE:
        return "all_reduce"
    return None


READER = Reader(
    "nccl-tests",
    lambda contents: not contents.is_json and "busbw" in contents.text and "algbw" in contents.text,
    _read,
    "the text of all_reduce_perf",
)
