"""How an engine chooses what each of its iterations computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.engine.columns import Flags, Floats, Table
from planner.engine.columns.rows import RowRecord

MOST_IN_FLIGHT = 512.0
"""Requests an engine admits at once, whatever its cache would hold."""


@dataclass(frozen=True)
class BatchingRules(RowRecord):
    """Shape [rows]."""

    budget: Floats
    """Most tokens of one iteration; infinite: whole prompts."""
    sequences: Floats
    """Most requests in flight."""
    capacity: Floats
    """Tokens the cache holds; infinite: nothing is cached, or it never fills."""
    reserve: Flags
    """A request is admitted only if its whole output would fit (TensorRT-LLM), instead of when its prompt fits."""
    mixed: Flags
    """Prompt tokens share an iteration with the running sequences (vLLM, TensorRT-LLM); else prompts go first (SGLang)."""


def batching_rules(table: Table, most: Floats) -> BatchingRules:
    """The rules of each row's engine; `most` [rows]: sequences of mean length that its cache holds, NaN: it has none."""
    held = np.where(np.isfinite(most), np.maximum(most, 1.0), np.inf)

    def full(value: Floats) -> Floats:
        return np.broadcast_to(value, (table.rows,)).astype(np.float64)

    return BatchingRules(
        budget=full(np.where(table.engine.prefill_chunk > 0, table.engine.prefill_chunk, np.inf)),
        sequences=full(np.minimum(held, MOST_IN_FLIGHT)),
        capacity=full(held * (table.job.input_tokens + table.job.output_tokens)),
        reserve=full(table.engine.reserves_output) > 0,
        mixed=full(table.engine.prompts_first) <= 0,
    )
