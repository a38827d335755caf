"""Speculative decoding in the simulation: what a round takes, and in how many rounds an answer is out.

A round of B sequences is g passes of the draft over one token of each and a pass of the model over g + 1 of each; see `speculation`.
How many tokens of a sequence it yields is left to chance: j more than one with a probability of a^j·(1 - a), all g + 1 with a^g.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Floats, Rows

ROUNDS_DRAWN = 64
"""Rounds of each request that are drawn at once."""


@dataclass(frozen=True)
class Drafting:
    """Shape [lanes], or [lanes, knots] where it says by what; seconds, summed over the stages of a pipeline."""

    proposed: Floats
    """g; 0: no draft."""
    acceptance: Floats
    """a."""
    round_s: Floats
    """Of a round by the number of sequences, but for attention. What the host needs to launch its passes counts in it."""
    side_s: Floats
    """The part of it that the draft takes."""
    prompt_s: Floats
    """The draft's pass over prompts, but for attention, by their tokens."""

    def take(self, index: Rows) -> Drafting:
        """The lanes `index`."""
        return Drafting(self.proposed[index], self.acceptance[index], self.round_s[index], self.side_s[index], self.prompt_s[index])


def tokens_out(even: Floats, proposed: float, acceptance: float) -> Floats:
    """Tokens that rounds yield, 1 to g + 1, from draws of [0, 1)."""
    if not 0 < acceptance < 1:
        return np.full(even.shape, 1 + proposed * (acceptance >= 1))
    accepted: Floats = np.minimum(np.floor(np.log(np.maximum(even, 1e-300)) / np.log(acceptance)), proposed)
    return 1 + accepted


def rounds_of(tokens: Floats, seeds: Rows, draft: Drafting) -> Floats:
    """Rounds in which `tokens` [lanes, requests] are out, whole numbers; lanes of one seed and one draft have the same luck."""
    rounds = np.zeros_like(tokens)
    keys = list(zip(seeds.tolist(), draft.proposed.tolist(), draft.acceptance.tolist(), strict=True))
    for key in dict.fromkeys(keys):
        lanes = np.flatnonzero([one == key for one in keys])
        rounds[lanes] = _rounds(tokens[lanes], *key)
    return rounds


def _rounds(tokens: Floats, seed: int, proposed: float, acceptance: float) -> Floats:
    """Those of one seed: as many as begin before all tokens are out."""
    requests, most = tokens.shape[1], float(tokens.max())
    apart = np.arange(requests)[:, None] * (most + (proposed + 1) * (ROUNDS_DRAWN + 1))  # each request has a stretch of its own
    out, found, number = np.zeros(requests), np.zeros_like(tokens), 0
    while out.min() < most:
        even = np.random.default_rng([seed // 2, 7, number]).random((requests, ROUNDS_DRAWN))
        yielded = tokens_out(1 - even if seed % 2 else even, proposed, acceptance)
        after = out[:, None] + np.cumsum(yielded, axis=1)
        begins = np.minimum(after - yielded, most)
        found += np.searchsorted((begins + apart).ravel(), tokens + apart[:, 0]) - np.arange(requests) * ROUNDS_DRAWN
        out, number = after[:, -1], number + 1
    return found
