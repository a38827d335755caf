"""Speculative decoding (Leviathan et al., arXiv:2211.17192): a draft model proposes tokens, one pass of the model checks them all.

Symbols: g tokens proposed at once · a probability that one is accepted where those before it were. A round is g passes of the draft, one
after the other, and a pass of the model over g + 1 tokens of every sequence. It yields the accepted tokens and one more of the
model's own: (1 - a^(g+1)) / (1 - a) on average, if each is accepted independently.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import asdict, replace

from planner.engine.columns import Floats, Table
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass, forward

SIXTEEN_BITS = 2.0


def tokens_per_round(proposed: Floats, acceptance: Floats) -> Floats:
    """Tokens a round yields, (1 - a^(g+1)) / (1 - a); g + 1 where everything is accepted."""
    certain = acceptance >= 1
    rejected = np.where(certain, 1.0, 1 - acceptance)
    found: Floats = np.where(certain, proposed + 1, (1 - acceptance ** (proposed + 1)) / rejected)
    return found


def drafting(t: Table) -> Table | None:
    """The same candidates running their draft models; None where none has one.

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

    No class of operators takes less than in `plain`, the pass over one token of each: its kernels could serve both.
    """
    tokens = t.job.draft_tokens + 1
    rows = batch * tokens
    checked = forward(t, rows, context, tokens, head_rows=rows)
    slower = {name: np.maximum(getattr(checked, name), getattr(plain, name)) for name in (*DEVICE_CLASSES, "host")}
    return replace(checked, **slower)
