"""Rounds of speculative decoding in the simulation: the time of a round, and the number of rounds of an answer.

In a round the draft proposes g tokens for each of B sequences in g passes, and the model checks g + 1 tokens of each in one pass; see
`prefill_decode.speculative_decoding`. The number of tokens that a sequence gets is random: 1 + j with probability a^j·(1 - a)
for j < g, and g + 1 with probability a^g.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.columns.rows import RowRecord

STREAM = 7
"""Number of a seed's stream of random numbers; see `traffic`."""
ROUNDS_DRAWN = 64
"""Rounds of each request that are drawn at once."""


class DraftRounds(RowRecord, frozen=True):
    """Shape [rows], or [rows, knots] for seconds, which are summed over the stages of a pipeline; see `iteration_time`."""

    proposed: Floats
    """g; 0: no draft."""
    acceptance: Floats
    """a."""
    round_s: Floats
    """A round without attention, by the number of sequences; includes the host's launches of its passes."""
    side_s: Floats
    """The draft's part of it."""
    prompt_s: Floats
    """The draft's pass over prompts without attention, by their tokens."""


def tokens_out(uniform: Floats, proposed: float, acceptance: float) -> Floats:
    """Tokens that rounds yield, 1 to g + 1, from numbers in [0, 1)."""
    if not 0 < acceptance < 1:
        return np.full(uniform.shape, 1 + proposed * (acceptance >= 1))
    accepted: Floats = np.minimum(np.floor(np.log(np.maximum(uniform, 1e-300)) / np.log(acceptance)), proposed)
    return 1 + accepted


def rounds_of(tokens: Floats, seeds: Rows, draft: DraftRounds) -> Floats:
    """Rounds until each request has its `tokens` [runs, requests]; runs of one seed and one draft draw the same random numbers."""
    rounds = np.zeros_like(tokens)
    keys = list(zip(seeds.tolist(), draft.proposed.tolist(), draft.acceptance.tolist(), strict=True))
    for key in dict.fromkeys(keys):
        runs = np.flatnonzero([one == key for one in keys])
        rounds[runs] = _rounds(tokens[runs], *key)
    return rounds


def _rounds(tokens: Floats, seed: int, proposed: float, acceptance: float) -> Floats:
    """Rounds for runs of one seed: those that begin before all tokens are out."""
    requests, most = tokens.shape[1], float(tokens.max())
    apart = np.arange(requests)[:, None] * (most + (proposed + 1) * (ROUNDS_DRAWN + 1))  # each request has a stretch of its own
    out, rounds, number = np.zeros(requests), np.zeros_like(tokens), 0
    while out.min() < most:
        uniform = np.random.default_rng([seed // 2, STREAM, number]).random((requests, ROUNDS_DRAWN))
        yielded = tokens_out(1 - uniform if seed % 2 else uniform, proposed, acceptance)
        after = out[:, None] + np.cumsum(yielded, axis=1)
        begins = np.minimum(after - yielded, most)
        rounds += np.searchsorted((begins + apart).ravel(), tokens + apart[:, 0]) - np.arange(requests) * ROUNDS_DRAWN
        out, number = after[:, -1], number + 1
    return rounds
