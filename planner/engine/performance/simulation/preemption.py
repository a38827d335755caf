"""Preemption: when the cache runs out, the last admitted request loses its place and is computed again later."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Rows
from planner.engine.performance.simulation.replica_state import ReplicaState

ROUNDING = 1e-6
"""Tokens by which sums of fractions may be off."""


def preempt(s: ReplicaState) -> bool:
    """Remove the last admitted request of a run until one more token of every running sequence fits; whether any was removed."""
    requests = s.requests
    run = short_of_cache(s).nonzero()[0]
    if not run.size:
        return False
    requests.copy_lengths()
    s.prompt_tokens_done, s.pairs_done = s.prompt_tokens_done.copy(), s.pairs_done.copy()  # may be `prompt_tokens` and `pairs`
    while run.size:
        position = s.next_admitted[run] - 1
        decoding = s.next_prompt[run] == s.next_admitted[run]  # the last admitted one is decoding, else it is still a prompt
        if decoding.any():
            _interrupt(s, run[decoding], position[decoding])
        s.held[run] -= requests.inputs[position] + 1
        s.promised[run] -= requests.tokens[position]
        s.in_flight[run] -= 1
        s.next_admitted[run] = position
        before = np.where(decoding, s.prompt_tokens[run], requests.prompt_tokens_before[position])
        s.prompt_tokens[run] = requests.prompt_tokens_before[position] = before
        s.prompt_tokens_done[run] = np.minimum(s.prompt_tokens_done[run], before)
        s.pairs_done[run] = np.where(decoding, s.pairs_done[run], np.minimum(s.pairs_done[run], requests.pairs_before[position]))
        requests.pairs_before[position] = np.where(decoding, s.pairs_done[run], requests.pairs_before[position])
        s.pairs[run] = requests.pairs_before[position]
        s.next_arrival_s[run], s.next_claim[run] = requests.arrival_s[position], requests.claims[position]
        s.preemptions[s.number[run]] += 1
        run = short_of_cache(s).nonzero()[0]
    # a preempted request waits for the next event, even if there is room now
    s.has_room = s.room(never_full=False) & (s.next_arrival_s > s.clock_s)
    return True


def short_of_cache(s: ReplicaState) -> Flags:
    """True if one more token of every running sequence of a run does not fit."""
    short: Flags = (s.held + s.growth > s.rules.capacity) & (s.running > 1)
    return short & ~s.rules.reserve if s.any_reserve else short


def _interrupt(s: ReplicaState, run: Rows, position: Rows) -> None:
    """Turn the last running sequence into a prompt at `position`: its output so far is computed again with its input.

    Requests admitted after it have ended, so it takes the last of their positions; `at_position` gives the request.
    """
    r = s.requests
    old, end, s.next_end[run] = s.completions.withdraw(run, s.next_prompt[run])
    remaining = end - s.iteration[run]
    per_iteration = 1.0 if r.per_iteration is None else r.per_iteration[old]
    left = remaining if r.per_iteration is None else np.maximum(np.ceil(remaining * per_iteration - ROUNDING), 1.0)
    grown = r.tokens[old] - remaining * per_iteration
    r.inputs[position], r.iterations[position] = r.tokens[old] - left, np.ceil((left - 1) / per_iteration - ROUNDING)
    r.prefix[position], r.at_position[position], r.tokens[position] = r.prefix[old], r.at_position[old], r.tokens[old]
    fresh = r.inputs[position] - r.prefix[position]
    pairs = fresh * (r.prefix[position] + fresh / 2)
    r.claims[position] = r.inputs[position] + 1
    for place, new, pair in zip(position.tolist(), fresh.tolist(), pairs.tolist(), strict=True):
        behind = slice(place + 1, (place // s.width + 1) * s.width)  # the requests after it wait for its prompt too
        r.prompt_tokens_before[behind] += new
        r.pairs_before[behind] += pair
    s.context[run] -= grown
    s.held[run] += r.inputs[position] + 1 - grown  # its claim counts one token more than it held
    s.running[run] -= 1
    s.next_prompt[run] -= 1
    if r.per_iteration is not None:
        s.per_iteration[run] -= per_iteration
        r.per_iteration[position] = (left - 1) / np.maximum(r.iterations[position], 1.0)
