"""Rows of an engine's CUDA graphs, and sequences that fit in its cache while answers grow."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.columns.limits import most_sequences
from planner.engine.memory.inference import pool_bytes_per_sequence


def graph_rows(t: Table, sequences: Floats) -> Floats:
    """Rows that a decoding step of `sequences` computes: the size of the smallest CUDA graph that holds them. Shape [rows]."""
    return padded_rows(sequences, t.engine.doubled_graphs, most_sequences(t))


def padded_rows(sequences: Floats, doubled: Floats, most: Floats) -> Floats:
    """`sequences` padded to the next power of two, at most to `most`, where they are more than `doubled`; 0: never padded."""
    power = 2.0 ** np.ceil(np.log2(np.maximum(sequences, 1.0)) - 1e-9)
    return np.where((doubled > 0) & (sequences > doubled), np.maximum(np.minimum(power, most), sequences), sequences)


def growing_room(t: Table) -> Floats:
    """Mean number of sequences that fit in a cache while answers grow ÷ those of full length; shape [rows].

    Engines that do not reserve room for outputs (vLLM, SGLang) admit a request when there is room for its prompt, and preempt one when the
    cache runs out.
    """
    prompt, full = (pool_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens * share) for share in (0.0, 1.0))
    both = prompt + full
    return np.where((t.engine.reserves_output > 0) | (both <= 0), 1.0, 2 * full / np.where(both > 0, both, 1.0))
