"""What happens when the cache runs out: the last admitted request loses its place and is computed again later."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Rows
from planner.engine.performance.simulation.replica_state import Lanes

ROUNDING = 1e-6
"""Of a token, that sums of fractions may be off."""


def preempt(s: Lanes) -> None:
    """Turn out the last admitted until one more token of every running sequence fits."""
    turned_out = False
    while True:
        short = ~s.rules.reserve & (s.running > 1) & (s.held + s.growth > s.rules.capacity)
        lane = short.nonzero()[0]
        if not lane.size:
            break
        s.displaced = turned_out = True
        r = s.at[lane] - 1
        going = s.begun[lane] == s.at[lane]  # the last admitted one is decoding, else still a prompt
        if going.any():
            _interrupt(s, lane[going], r[going])
        s.held[lane] -= s.inputs[r] + 1
        s.inside[lane] -= 1
        s.at[lane] = r
        before = np.where(going, s.wanted[lane], s.wanted_to[r])
        s.wanted[lane] = s.wanted_to[r] = before
        s.filled[lane] = np.minimum(s.filled[lane], before)
        s.pairs[lane] = np.where(going, s.pairs[lane], np.minimum(s.pairs[lane], s.pairs_to[r]))
        s.pairs_to[r] = np.where(going, s.pairs[lane], s.pairs_to[r])
        s.wanted_pairs[lane] = s.pairs_to[r]
        s.next_arrival[lane], s.claimed[lane] = s.arrival[r], s.claims[r]
        s.lost[s.home[lane]] += 1
    if turned_out:  # who lost a place waits for the next event, even if there is room now
        room = (s.inside < s.rules.sequences) & (s.held + s.claimed <= s.rules.capacity)
        s.open = room & (s.next_arrival > s.clock)


def _interrupt(s: Lanes, lane: Rows, r: Rows) -> None:
    """The last running sequence becomes a prompt at place `r`: its output so far has to be computed with its input.

    Those admitted after it have ended, so it takes the last of their places; `origin` remembers which request it is.
    """
    old, end, s.next_end[lane] = s.endings.withdraw(lane, s.begun[lane])
    remaining = end - s.step[lane]
    per_step = 1.0 if s.per_step is None else s.per_step[old]
    left = remaining if s.per_step is None else np.maximum(np.ceil(remaining * per_step - ROUNDING), 1.0)
    grown = s.whole[old] - remaining * per_step
    s.inputs[r], s.steps[r] = s.whole[old] - left, np.ceil((left - 1) / per_step - ROUNDING)
    s.prefix[r], s.origin[r], s.whole[r] = s.prefix[old], s.origin[old], s.whole[old]
    fresh = s.inputs[r] - s.prefix[r]
    work = fresh * (s.prefix[r] + fresh / 2)
    s.claims[r] = s.inputs[r] + 1
    for place, tokens, pairs in zip(r.tolist(), fresh.tolist(), work.tolist(), strict=True):
        s.known[place + 1 : s.row_end(place), 2:] += tokens, pairs  # those behind it wait for its prompt too
    s.context[lane] -= grown
    s.held[lane] += s.inputs[r] + 1 - grown  # its claim counts one token more than it held
    s.running[lane] -= 1
    s.begun[lane] -= 1
    if s.per_step is not None:
        s.rate[lane] -= per_step
        s.per_step[r] = (left - 1) / np.maximum(s.steps[r], 1.0)
