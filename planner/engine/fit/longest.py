"""Longest context of one sequence alone, found by halving where no formula gives it."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.memory import memory_of

ENDLESS = 2.0**24
"""Tokens at which the search ends: no model is trained for so long a context."""
PRECISION_TOKENS = 16.0
"""Tokens to which the end is found: a block of a cache."""


def longest_context(e: Evaluated, rows: Rows) -> Floats:
    """Tokens of the longest sequence that fits alone in each of `rows`, at most the model's positions; NaN where even the shortest does not.

    Of an inference job: prompt and answer together. NaN also where attention stores scores while training, whose size is no
    constant per token.
    """
    t, jobs = e.table.take(rows), [e.candidates.jobs[int(number)] for number in e.candidates.job_index[rows]]
    train = bool(t.job.train[0])
    most = np.array([job.architecture.max_context or ENDLESS for job in jobs], dtype=np.float64)
    answer = np.broadcast_to(np.where(train, 0.0, t.job.output_tokens), most.shape)
    ones = np.ones(rows.size)
    layout = replace(t.layout, micro_batch=ones) if train else replace(t.layout, sequences=ones)

    def fits(tokens: Floats) -> Floats:
        job = replace(t.job, sequence=tokens) if train else replace(t.job, input_tokens=np.maximum(tokens - answer, 1.0))
        found = memory_of(replace(t, job=job, layout=layout))
        return np.where(found.total <= found.usable, 1.0, 0.0)

    low, high = answer + PRECISION_TOKENS, np.maximum(most, answer + PRECISION_TOKENS)
    shortest = fits(low) > 0
    while float(np.max(high - low, initial=0.0)) > PRECISION_TOKENS:
        middle = np.floor((low + high) / 2)
        good = fits(middle) > 0
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    low = np.where(fits(most) > 0, most, low)
    stored_scores = np.array([train and job.eager_attention > 0 for job in jobs])
    return np.where(shortest & ~stored_scores, np.minimum(low, most), np.nan)
