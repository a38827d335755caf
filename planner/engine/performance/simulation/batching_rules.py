"""Rules by which an engine chooses the work of each iteration."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Floats, RowRecord, Table
from planner.engine.columns.limits import chunk_tokens, most_sequences
from planner.engine.performance.prefill_decode.engine_limits import growing_room
from planner.engine.performance.prefill_decode.passes import micro_batches


class BatchingRules(RowRecord, frozen=True):
    """Rules of the engine of each row; columns of shape [rows]."""

    budget: Floats
    """Maximum number of tokens of one iteration, in all its micro batches; infinite: whole prompts."""
    sequences: Floats
    """Maximum number of requests in flight."""
    capacity: Floats
    """Tokens that the cache can hold; infinite: nothing is cached, or it never fills."""
    reserve: Flags
    """True if a request is admitted only if its whole output would fit (TensorRT-LLM), instead of when its prompt fits."""
    mixed: Flags
    """True if prompt tokens share an iteration with the running sequences (vLLM, TensorRT-LLM); else prompts go first (SGLang)."""


def batching_rules(table: Table, most: Floats) -> BatchingRules:
    """The rules of each row's engine; `most` [rows]: sequences of mean length that fit in its cache, NaN: it has none."""
    chunk = chunk_tokens(table) * micro_batches(table)
    held = np.where(np.isfinite(most), np.maximum(most, 1.0), np.inf)

    def full(value: Floats) -> Floats:
        return np.broadcast_to(value, (table.rows,)).astype(np.float64)

    return BatchingRules(
        budget=full(np.where(chunk > 0, chunk, np.inf)),
        sequences=full(np.minimum(held * growing_room(table), most_sequences(table))),
        capacity=full(held * (table.job.input_tokens + table.job.output_tokens)),
        reserve=full(table.engine.reserves_output) > 0,
        mixed=full(table.engine.prompts_first) <= 0,
    )
