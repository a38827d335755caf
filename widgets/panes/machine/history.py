"""Readings over time, one cell of a line a second, and the benchmark's points on the same cells."""

from __future__ import annotations

import math
import string
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, takewhile

import msgspec

from widgets.drawing.text import shorten_end

STEP_S = 1.0
"""Time of a cell, unless readings come more often."""
MOST_READINGS = 4800
"""Eight minutes at ten a second."""
COARSE_S = 30.0
MOST_COARSE = 2880
"""Averages over so many seconds are kept of a day, beside the readings of the last minutes."""
SPANS_S = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Times that a cell of a history can stand for."""
MOST_MARKS = 512
LONGEST_REACH_S = 10.0
"""A reading stands for the time since the one before it, but no longer than this."""
SHORT = 4
"""Cells below which a mark has no ends."""
LETTERS = string.ascii_lowercase + string.ascii_uppercase


def sparkline(values: Iterable[float | None], width: int, levels: str) -> str:
    """Last `width` fractions, one cell each; an absent one is a blank."""
    last = list(values)[-width:]
    cells = [" " if value is None else levels[min(len(levels) - 1, max(0, round(value * (len(levels) - 1))))] for value in last]
    return "".join(cells).rjust(width)


def tall_sparkline(values: Sequence[float | None], levels: str, rows: int) -> list[str]:
    """Fractions over `rows` lines, the topmost first; an absent one is a blank."""
    if rows == 1:
        return [sparkline(values, len(values), levels)]
    lines = []
    for row in reversed(range(rows)):
        filled = [None if value is None else min(1.0, value) * rows - row for value in values]
        shown = [None if share is None or (row and share <= 0) else min(1.0, max(0.0, share)) for share in filled]
        lines.append(sparkline(shown, len(values), levels))
    return lines


class Reading(msgspec.Struct, frozen=True):
    """Fractions at a moment, which stand for `reach_s` before it."""

    at_s: float
    reach_s: float
    values: Mapping[str, float | None]
    most: Mapping[str, float | None]
    """Highest within it; of a reading the values themselves."""


class Cells(msgspec.Struct, frozen=True):
    """A stretch of time in cells: the last one holds `until_s`."""

    until_s: float
    width: int
    step_s: float = STEP_S

    def place(self, at_s: float) -> int:
        """Cell of a moment, 0 the oldest; below 0 and from `width` on it lies outside."""
        return math.floor(at_s / self.step_s) - math.floor(self.until_s / self.step_s) + self.width - 1


class History:
    """Readings of one GPU, or of the host: every one of the last minutes, and averages of a day."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque(maxlen=MOST_READINGS)
        self._coarse: deque[Reading] = deque(maxlen=MOST_COARSE)
        self._sums: dict[str, tuple[float, int, float]] = {}
        """Figure -> sum, number and highest of the readings that no average has yet."""
        self._since_s = 0.0
        self._ahead_s = 0.0
        """Offset of a recording that began again from its own clock."""

    @property
    def until_s(self) -> float:
        """Time at which the last one was taken."""
        return self._readings[-1].at_s if self._readings else 0.0

    def note(self, at_s: float, interval_s: float, values: Mapping[str, float | None]) -> None:
        """Add a reading taken at `at_s`, one every `interval_s`; one earlier than the last is of a recording that began again."""
        if at_s + self._ahead_s < self.until_s:
            self._ahead_s = self.until_s + interval_s - at_s
        at_s += self._ahead_s
        reach_s = min(LONGEST_REACH_S, 1.5 * interval_s, at_s - self.until_s) if self._readings else 0.0
        self._readings.append(Reading(at_s, reach_s, values, values))
        self._average(at_s, values)

    def _average(self, at_s: float, values: Mapping[str, float | None]) -> None:
        """Take the reading into the average of its half minute; one that is over is kept."""
        begin_s = at_s // COARSE_S * COARSE_S
        if self._sums and begin_s != self._since_s:
            self._coarse.append(self._averaged(self._since_s + COARSE_S - 1e-3, COARSE_S))
            self._sums = {}
        self._since_s = begin_s
        for name, value in values.items():
            if value is not None:
                total, number, most = self._sums.get(name, (0.0, 0, value))
                self._sums[name] = total + value, number + 1, max(most, value)

    def _averaged(self, at_s: float, reach_s: float) -> Reading:
        """Readings that no average has yet as one."""
        means = {name: total / number for name, (total, number, _) in self._sums.items()}
        return Reading(at_s, reach_s, means, {name: most for name, (_, _, most) in self._sums.items()})

    def _stretches(self, step_s: float) -> Iterator[Reading]:
        """Samples for cells of `step_s`, the newest first: readings, or averages and the readings since the last of them."""
        if step_s < COARSE_S:
            yield from reversed(self._readings)
            return
        if self._sums:
            yield self._averaged(self.until_s, self.until_s - self._since_s)
        yield from reversed(self._coarse)

    def most(self, name: str, cells: Cells) -> float | None:
        """Highest reading that reaches into the cells; None if there is none."""
        within = takewhile(lambda reading: cells.place(reading.at_s) >= 0, self._stretches(cells.step_s))
        return max((value for reading in within if (value := reading.most.get(name)) is not None), default=None)

    def values(self, name: str, cells: Cells) -> list[float | None]:
        """Mean of what stands for each cell, None if nothing does."""
        sums, counts = [0.0] * cells.width, [0] * cells.width
        for reading in self._stretches(cells.step_s):
            last = cells.place(reading.at_s)
            if last < 0:
                break
            value = reading.values.get(name)
            if value is None or last >= cells.width:
                continue
            first = last if counts[last] else max(0, min(last, cells.place(reading.at_s - reading.reach_s) + 1))
            for cell in range(first, last + 1):
                sums[cell] += value
                counts[cell] += 1
        return [total / number if number else None for total, number in zip(sums, counts, strict=True)]


class Mark(msgspec.Struct):
    """One benchmark point, on the monotonic clock."""

    letter: str
    label: str
    device: str
    """'cpu' or 'cuda:0'."""
    began_s: float
    ended_s: float | None = None
    """Time at which it ended; None while it runs."""


class Marks:
    """Begin and end of benchmark points. A point keeps its letter over its rounds and runs."""

    def __init__(self) -> None:
        self._marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        self._letters: dict[str, str] = {}

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    @property
    def open(self) -> bool:
        """True if a point runs."""
        return bool(self._marks) and self._marks[-1].ended_s is None

    def begin(self, name: str, label: str, device: str, now_s: float) -> None:
        """A point begins; one still open ends."""
        self.end(now_s)
        letter = self._letters.setdefault(name, LETTERS[len(self._letters) % len(LETTERS)])
        self._marks.append(Mark(letter, label, device, now_s))

    def end(self, now_s: float) -> None:
        """The open point ends, if there is one."""
        if self._marks and self._marks[-1].ended_s is None:
            self._marks[-1].ended_s = now_s

    def within(self, cells: Cells, device: str | None) -> list[Mark]:
        """Marks that reach into the cells, of one device or of any (None), the oldest first."""
        return [
            mark
            for mark in self._marks
            if device in {None, mark.device}
            and cells.place(mark.began_s) < cells.width
            and cells.place(mark.ended_s or cells.until_s) >= 0
        ]


def mark_line(marks: Sequence[Mark], cells: Cells, ends: str) -> str:
    """Marks on their cells: `ends` holds what stands at the beginning, between, and at the end of one; its letter is in its middle.

    One of less than four cells is its letter and a line; of several in one cell the last is there.
    """
    line, letters = [" "] * cells.width, {}
    for mark in marks:
        first, last = cells.place(mark.began_s), cells.place(mark.ended_s or cells.until_s)
        inside = range(max(0, first), min(cells.width - 1, last) + 1)
        if not inside:
            continue
        for cell in inside:
            line[cell] = ends[1]
        short = len(inside) < SHORT
        if first >= 0:
            line[first] = ends[0]
        if mark.ended_s is not None and not short:
            line[inside[-1]] = ends[2] if last < cells.width else ends[1]
        letters[inside[0] if short else inside[len(inside) // 2]] = mark.letter
    return "".join(letters.get(cell, sign) for cell, sign in enumerate(line))


def legend(marks: Sequence[Mark], width: int, lines: int, ellipsis: str) -> list[str]:
    """Letter and name of each, in the order of their last beginnings, in at most `lines` lines; the oldest are left out first."""
    named = {mark.letter: _named(mark, width, ellipsis) for mark in marks}
    entries = list(named.values())
    for left_out in count():
        kept = entries[left_out:]
        folded = _folded([*([ellipsis] if left_out else []), *kept], width)
        if len(folded) <= lines or len(kept) <= 1:
            return folded[:lines]
    return []


def _named(mark: Mark, width: int, ellipsis: str) -> str:
    """Letter and name in at most `width` cells; 'now' stays where it runs."""
    now = "" if mark.ended_s is not None else " now"
    return f"{mark.letter} {shorten_end(mark.label, width - 2 - len(now), ellipsis)}{now}"


def _folded(entries: Sequence[str], width: int) -> list[str]:
    """Entries side by side, in as many lines as that takes; one that is too long is cut."""
    found: list[str] = []
    for entry in entries:
        if found and len(found[-1]) + 3 + len(entry) <= width:
            found[-1] += f"   {entry}"
        else:
            found.append(entry[:width])
    return found
