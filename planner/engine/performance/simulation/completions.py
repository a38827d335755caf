"""The running sequences of each run, and the iteration after which each of them ends.

Where no sequence ends before one that began earlier, as with outputs of one length, only the oldest of a run is examined
(`InOrder`). Else each sequence has a slot, and all slots of a run are searched (`InSlots`). Both give the same answers.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from planner.engine.columns import Flags, Floats, Rows


class Completions(Protocol):
    """Running sequences. An end is a number of iterations of its run, a position that of a request (`replica_state`). Runs in `run` differ."""

    def next_end(self) -> Floats:
        """The next end of every run, infinite if no sequence runs; shape [runs]."""

    def start(self, run: Rows, count: Rows, position: Rows, end: Floats) -> None:
        """Add the sequences at `position` to each `run`, as many as its `count`."""

    def finish(self, run: Rows, iteration: Floats) -> tuple[Rows, Rows, Floats]:
        """Remove all sequences of each `run` that have ended by its `iteration`, at least one.

        Returns the run and the position of each of them, and the next end of each `run`.
        """

    def withdraw(self, run: Rows, next_prompt: Rows) -> tuple[Rows, Floats, Floats]:
        """Remove the last sequence of each `run` that started, the one before `next_prompt`: (position, end, next end of `run`)."""

    def add_slots(self, more: int) -> None:
        """Make room for `more` sequences in each run."""

    def keep(self, runs: Flags) -> None:
        """Keep only these runs."""


def completions_of(iterations: Floats, in_flight: Rows, slots: int) -> Completions:
    """The first `in_flight` [runs] requests of each run decode; each request takes its `iterations` [runs, requests + 1]."""
    runs, width = iterations.shape
    first = np.arange(runs) * width
    if (iterations[:, 1:-1] >= iterations[:, :-2]).all():
        return InOrder(np.where(np.arange(width) < in_flight[:, None], iterations, np.inf), first)
    place = np.arange(slots)
    here = place < in_flight[:, None]
    position = np.minimum(first[:, None] + place, iterations.size - 1)
    return InSlots(np.where(here, iterations.ravel()[position], np.inf), np.where(here, position, 0), in_flight)


def repeated(run: Rows, first: Rows, count: Rows) -> tuple[Rows, Rows, Rows | None]:
    """Each `run` as often as its `count`: (runs, numbers from its `first` on, where each run begins or None where all counts are 1)."""
    ends = count.cumsum()
    if not run.size or ends[-1] == run.size:
        return run, first, None
    begins = ends - count
    owner = run.repeat(count)
    return owner, np.arange(owner.size) + (first - begins).repeat(count), begins


class InOrder:
    """Running sequences at consecutive positions, the next to end first."""

    def __init__(self, ends: Floats, first: Rows) -> None:
        self.ends = ends.ravel()
        """End of each sequence by position; infinite for sequences that have not started."""
        self.oldest = first
        """Position of the first sequence that runs, or of the next to start. Shape [runs]."""

    def next_end(self) -> Floats:
        """See `Completions`."""
        return self.ends[self.oldest]

    def start(self, run: Rows, count: Rows, position: Rows, end: Floats) -> None:  # noqa: ARG002  # of `Completions`
        """See `Completions`."""
        self.ends[position] = end

    def finish(self, run: Rows, iteration: Floats) -> tuple[Rows, Rows, Floats]:
        """See `Completions`."""
        oldest = self.oldest[run]
        behind = oldest + 1
        ends = self.ends[behind]
        more = (ends <= iteration).nonzero()[0]
        if not more.size:
            self.oldest[run] = behind
            return run, oldest, ends
        while more.size:
            behind[more] += 1
            ends[more] = after = self.ends.take(behind[more])
            more = more[after <= iteration[more]]
        self.oldest[run] = behind
        owner, position, _ = repeated(run, oldest, behind - oldest)
        return owner, position, ends

    def withdraw(self, run: Rows, next_prompt: Rows) -> tuple[Rows, Floats, Floats]:
        """See `Completions`."""
        position = next_prompt - 1
        end = self.ends[position]
        self.ends[position] = np.inf
        return position, end, self.ends.take(self.oldest[run])

    def add_slots(self, more: int) -> None:
        """Does nothing: there is a position for every request."""

    def keep(self, runs: Flags) -> None:
        """See `Completions`."""
        self.oldest = self.oldest[runs]


class InSlots:
    """Running sequences in slots of their run."""

    def __init__(self, ends: Floats, positions: Rows, taken: Rows) -> None:
        self.ends, self.positions = ends, positions
        """The sequence in each slot, its end infinite where the slot is free. Shape [runs, slots]."""
        self.taken = taken.astype(np.int64)
        """Number of slots taken. Shape [runs]."""
        self.free = np.tile(np.arange(ends.shape[1]), (taken.size, 1))
        """Free slots of a run, from its number `taken` on. Shape [runs, slots]."""
        self._resize()

    def _resize(self) -> None:
        runs, self.slots = self.ends.shape
        self.first = np.arange(runs) * self.slots
        """Start of each run in the flat arrays."""

    def next_end(self) -> Floats:
        """See `Completions`."""
        return self.ends.min(axis=1)

    def start(self, run: Rows, count: Rows, position: Rows, end: Floats) -> None:
        """See `Completions`."""
        taken = self.taken[run]
        owner, number, _ = repeated(run, taken, count)
        first = self.first[owner]
        slot = first + self.free.ravel()[first + number]
        self.ends.ravel()[slot], self.positions.ravel()[slot] = end, position
        self.taken[run] = taken + count

    def finish(self, run: Rows, iteration: Floats) -> tuple[Rows, Rows, Floats]:
        """See `Completions`."""
        ends = self.ends[run]
        found = (ends <= iteration[:, None]).ravel().nonzero()[0]
        ends.ravel()[found] = np.inf
        next_end = ends.ravel().take(np.arange(run.size) * self.slots + ends.argmin(axis=1))
        row = found // self.slots
        owner, slot = run[row], found - row * self.slots
        first = self.first[owner]
        self.ends.ravel()[first + slot] = np.inf
        gone = np.bincount(owner, minlength=self.taken.size)
        self.taken -= gone
        self.free.ravel()[first + repeated(run, self.taken[run], gone[run])[1]] = slot
        return owner, self.positions.ravel()[first + slot], next_end

    def withdraw(self, run: Rows, next_prompt: Rows) -> tuple[Rows, Floats, Floats]:  # noqa: ARG002  # of `Completions`
        """See `Completions`."""
        running = np.where(np.isfinite(self.ends[run]), self.positions[run], -1)
        slot = np.argmax(running, axis=1)
        position, end = running[np.arange(run.size), slot], self.ends[run, slot]
        self.taken[run] -= 1
        self.free[run, self.taken[run]] = slot
        self.ends[run, slot] = np.inf
        return position, end, self.ends[run].min(axis=1)

    def add_slots(self, more: int) -> None:
        """See `Completions`."""
        self.ends = np.pad(self.ends, ((0, 0), (0, more)), constant_values=np.inf)
        self.positions = np.pad(self.positions, ((0, 0), (0, more)))
        further = np.broadcast_to(np.arange(self.slots, self.slots + more), (self.taken.size, more))
        self.free = np.concatenate([self.free, further], axis=1)
        self._resize()

    def keep(self, runs: Flags) -> None:
        """See `Completions`."""
        for name in ("ends", "positions", "free", "taken"):
            setattr(self, name, getattr(self, name)[runs])
        self._resize()
