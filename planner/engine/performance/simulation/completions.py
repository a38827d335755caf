"""Who is running in each lane, and after which step each of them ends.

Where nobody ends before one who began earlier, as with outputs that are all alike, only the oldest sequence of a lane has to be
looked at; else each has a slot, and all slots of a lane are searched for those that end. Both tell exactly the same.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from planner.engine.columns import Flags, Floats, Rows


class Endings(Protocol):
    """Running sequences of all lanes. An ending is a number of steps of its lane, a place that of a request (see `Lanes`)."""

    def soonest(self) -> Floats:
        """The next ending of every lane; infinite where nobody runs."""

    def begin(self, lane: Rows, place: Rows, rank: Rows | int, end: Floats) -> None:
        """Those at `place` run from now on, each of its `lane`, which repeat; `rank`: their number among those of one lane."""

    def over(self, lane: Rows, step: Floats) -> tuple[Rows, Rows, Floats]:
        """All of each `lane` that have ended at `step` leave, one or more: (lane, place) of each of them, and the next ending of `lane`."""

    def withdraw(self, lane: Rows, begun: Rows) -> tuple[Rows, Floats, Floats]:
        """The last that began leaves each `lane`: (its place, its ending, the next ending); `begun`: the place behind all that have."""

    def widen(self, more: int) -> None:
        """So many more can run in each lane."""

    def keep(self, lanes: Flags) -> None:
        """Only `lanes` go on."""


def endings_of(steps: Floats, in_flight: Rows, slots: int) -> Endings:
    """Of requests that decode for `steps` [lanes, requests + 1], the first `in_flight` from the start; up to `slots` can run in a lane."""
    lanes, width = steps.shape
    base = np.arange(lanes) * width
    if (steps[:, 1:-1] >= steps[:, :-2]).all():
        return InTurn(np.where(np.arange(width) < in_flight[:, None], steps, np.inf), base)
    place = np.arange(slots)
    here = place < in_flight[:, None]
    at = np.minimum(base[:, None] + place, steps.size - 1)
    return InSlots(np.where(here, steps.ravel()[at], np.inf), np.where(here, at, 0), in_flight)


def each(lane: Rows, count: Rows) -> tuple[Rows, Rows | int, Rows | None]:
    """Every lane `count` times: (lanes, numbers from 0 in each, where each begins; None where all are alone)."""
    if lane.size == count.sum():
        return lane, 0, None
    begins = np.cumsum(count) - count
    owner = lane.repeat(count)
    return owner, np.arange(owner.size) - begins.repeat(count), begins


class InTurn:
    """Those that run stand in a row of places, the next to end first."""

    def __init__(self, ends: Floats, base: Rows) -> None:
        self.ends, self.oldest = ends.ravel(), base
        """Ending by place, infinite for who has not begun; and the place of the first that runs, or will."""

    def soonest(self) -> Floats:
        """See `Endings`."""
        return self.ends.take(self.oldest)

    def begin(self, lane: Rows, place: Rows, rank: Rows | int, end: Floats) -> None:  # noqa: ARG002  # of `Endings`
        """See `Endings`."""
        self.ends[place] = end

    def over(self, lane: Rows, step: Floats) -> tuple[Rows, Rows, Floats]:
        """See `Endings`."""
        oldest = self.oldest.take(lane)
        behind = oldest + 1
        ends = self.ends.take(behind)
        more = (ends <= step).nonzero()[0]
        if not more.size:
            self.oldest[lane] = behind
            return lane, oldest, ends
        while more.size:
            behind[more] += 1
            ends[more] = after = self.ends.take(behind.take(more))
            more = more[after <= step.take(more)]
        self.oldest[lane] = behind
        owner, rank, _ = each(lane, behind - oldest)
        return owner, oldest.repeat(behind - oldest) + rank, ends

    def withdraw(self, lane: Rows, begun: Rows) -> tuple[Rows, Floats, Floats]:
        """See `Endings`."""
        place = begun - 1
        end = self.ends.take(place)
        self.ends[place] = np.inf
        return place, end, self.ends.take(self.oldest.take(lane))

    def widen(self, more: int) -> None:
        """There is a place for all."""

    def keep(self, lanes: Flags) -> None:
        """See `Endings`."""
        self.oldest = self.oldest[lanes]


class InSlots:
    """Each that runs has a slot of its lane."""

    def __init__(self, ends: Floats, owner: Rows, taken: Rows) -> None:
        self.ends, self.owner, self.taken = ends, owner, taken.astype(np.int64)
        """By slot: the ending, infinite where it is free, and the place of who has it; and how many are taken."""
        self.free = np.tile(np.arange(ends.shape[1]), (taken.size, 1))
        """From `taken` on, the slots of a lane that are not."""
        self._lay()

    def _lay(self) -> None:
        lanes, self.slots = self.ends.shape
        self.row = np.arange(lanes) * self.slots

    def soonest(self) -> Floats:
        """See `Endings`."""
        soonest: Floats = self.ends.min(axis=1)
        return soonest

    def begin(self, lane: Rows, place: Rows, rank: Rows | int, end: Floats) -> None:
        """See `Endings`."""
        row = self.row.take(lane)
        cell = row + self.free.ravel().take(row + self.taken.take(lane) + rank)
        self.ends.ravel()[cell], self.owner.ravel()[cell] = end, place
        self.taken += np.bincount(lane, minlength=self.taken.size)

    def over(self, lane: Rows, step: Floats) -> tuple[Rows, Rows, Floats]:
        """See `Endings`."""
        ends = self.ends.take(lane, axis=0)
        found = (ends <= step[:, None]).ravel().nonzero()[0]
        ends.ravel()[found] = np.inf
        soonest = ends.ravel().take(np.arange(lane.size) * self.slots + ends.argmin(axis=1))
        at = found // self.slots
        owner, slot = lane.take(at), found - at * self.slots
        row = self.row.take(owner)
        cell = row + slot
        self.ends.ravel()[cell] = np.inf
        gone = np.bincount(owner, minlength=self.taken.size)
        self.taken -= gone
        self.free.ravel()[row + self.taken.take(owner) + each(lane, gone.take(lane))[1]] = slot
        return owner, self.owner.ravel().take(cell), soonest

    def withdraw(self, lane: Rows, begun: Rows) -> tuple[Rows, Floats, Floats]:  # noqa: ARG002  # of `Endings`
        """See `Endings`."""
        running = np.where(np.isfinite(self.ends[lane]), self.owner[lane], -1)
        slot = np.argmax(running, axis=1)
        place, end = running[np.arange(lane.size), slot], self.ends[lane, slot]
        self.taken[lane] -= 1
        self.free[lane, self.taken[lane]] = slot
        self.ends[lane, slot] = np.inf
        return place, end, self.ends[lane].min(axis=1)

    def widen(self, more: int) -> None:
        """See `Endings`."""
        self.ends = np.pad(self.ends, ((0, 0), (0, more)), constant_values=np.inf)
        self.owner = np.pad(self.owner, ((0, 0), (0, more)))
        further = np.broadcast_to(np.arange(self.slots, self.slots + more), (self.taken.size, more))
        self.free = np.concatenate([self.free, further], axis=1)
        self._lay()

    def keep(self, lanes: Flags) -> None:
        """See `Endings`."""
        self.ends, self.owner = self.ends[lanes], self.owner[lanes]
        self.free, self.taken = self.free[lanes], self.taken[lanes]
        self._lay()
