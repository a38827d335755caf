"""Speculative decoding (Leviathan et al., arXiv:2211.17192): a draft model proposes tokens, one pass of the model checks them all.

Symbols: g tokens proposed at once · a probability that one is accepted where those before it were. A round is g passes of the draft, one
after the other, and a pass of the model over g + 1 tokens of every sequence. It yields the accepted tokens and one more of the
model's own: (1 - a^(g+1)) / (1 - a) on average, if each is accepted independently. In the simulation a sequence gets a random number of
tokens: 1 + j with probability a^j·(1 - a) for j < g, and g + 1 with probability a^g.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import asdict, replace

from planner.engine.columns import Floats, RowRecord, Rows, Table
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass, forward

SIXTEEN_BITS = 2.0
STREAM = 7
"""Number of a seed's stream of random numbers; see `traffic`."""
ROUNDS_DRAWN = 64
"""Rounds of each request that are drawn at a time."""


def tokens_per_round(proposed: Floats, acceptance: Floats) -> Floats:
    """Tokens per round, (1 - a^(g+1)) / (1 - a); g + 1 where everything is accepted."""
    certain = acceptance >= 1
    rejected = np.where(certain, 1.0, 1 - acceptance)
    return np.where(certain, proposed + 1, (1 - acceptance ** (proposed + 1)) / rejected)


def drafting(t: Table) -> Table | None:
    """Candidates with their draft models as the model; None if none has one.

    Weights of 16 bit and more are read at the device's bandwidth, others at that of the model's own format.
    """
    if t.draft is None or t.draft_model is None:
        return None
    d, c = t.draft, t.chip
    job = replace(t.job, **asdict(d))
    read = np.where(d.linear_bytes >= SIXTEEN_BITS, c.bandwidth_bytes_per_s, c.weight_bandwidth_bytes_per_s)
    chip = replace(c, weight_bandwidth_bytes_per_s=read)
    return replace(t, model=t.draft_model, job=job, chip=chip, draft_model=None, draft=None, source=None, tower=None)


def verification(t: Table, batch: Floats, context: Floats, plain: Pass) -> Pass:
    """The model's pass over g + 1 tokens of each of `batch` sequences.

    No class of operators takes less time than in `plain`, the pass over one token of each: its kernels could serve both.
    """
    tokens = t.job.draft_tokens + 1
    rows = batch * tokens
    checked = forward(t, rows, context, tokens, head_rows=rows)
    slower = {name: np.maximum(getattr(checked, name), getattr(plain, name)) for name in (*DEVICE_CLASSES, "host")}
    return replace(checked, **slower)


class DraftRounds(RowRecord, frozen=True):
    """Rounds of shape [rows], or [rows, knots] for seconds, which are summed over the stages of a pipeline; see `iteration_time`."""

    proposed: Floats
    """g; 0: no draft."""
    acceptance: Floats
    """a."""
    round_s: Floats
    """Time of a round without attention, by the number of sequences; includes the host's launches of its passes."""
    side_s: Floats
    """Draft's part of `round_s`."""
    prompt_s: Floats
    """Time of the draft's pass over prompts without attention, by their tokens."""


def tokens_out(uniform: Floats, proposed: float, acceptance: float) -> Floats:
    """Tokens per round, 1 to g + 1, from numbers in [0, 1)."""
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
    apart = np.arange(requests)[:, None] * (most + (proposed + 1) * (ROUNDS_DRAWN + 1))  # each request has its own part
    out, rounds, number = np.zeros(requests), np.zeros_like(tokens), 0
    while out.min() < most:
        uniform = np.random.default_rng([seed // 2, STREAM, number]).random((requests, ROUNDS_DRAWN))
        yielded = tokens_out(1 - uniform if seed % 2 else uniform, proposed, acceptance)
        after = out[:, None] + np.cumsum(yielded, axis=1)
        begins = np.minimum(after - yielded, most)
        rounds += np.searchsorted((begins + apart).ravel(), tokens + apart[:, 0]) - np.arange(requests) * ROUNDS_DRAWN
        out, number = after[:, -1], number + 1
    return rounds
