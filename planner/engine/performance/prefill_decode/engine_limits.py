"""Limits an engine sets on its iterations: requests in flight and prompt tokens, by what the workload asks, the GPU, or its defaults."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Floats, Table
from planner.engine.memory.inference import kv_bytes_per_sequence
from planner.units import GIB

LARGE_BYTES, LARGE_CAPABILITY, HUGE_BYTES = 70 * GIB, 9.0, 160 * GIB
"""GPUs with this much memory that are newer than A100 are large to vLLM (`EngineArgs.get_batch_defaults`: device_memory >= 70 GiB and not "a100",
0.9 to 0.33), but for GB10 (0.33), and huge from 160 GiB on (0.28)."""
GB10_CAPABILITY = 12.1


def most_sequences(t: Table) -> Floats:
    """Most requests in flight on a replica, whatever its cache would hold; shape [rows]."""
    usual = np.where(_is_small(t) & (t.engine.small_sequences > 0), t.engine.small_sequences, t.engine.most_sequences)
    most: Floats = np.where(t.job.max_num_seqs > 0, t.job.max_num_seqs, usual)
    return most


def chunk_tokens(t: Table) -> Floats:
    """Most prompt tokens in one pass of a service; 0: whole prompts. Shape [rows]."""
    serves = t.job.serves > 0
    usual = np.where(_is_small(t) & (t.engine.small_chunk > 0) & serves, t.engine.small_chunk, t.engine.prefill_chunk)
    usual = np.where((t.chip.capacity_bytes >= HUGE_BYTES) & (t.engine.huge_chunk > 0) & serves, t.engine.huge_chunk, usual)
    chunk: Floats = np.where(t.job.max_num_batched_tokens > 0, t.job.max_num_batched_tokens, usual)
    return chunk


def graph_rows(t: Table, sequences: Floats) -> Floats:
    """Rows that a decoding step of so many `sequences` computes: those of the smallest CUDA graph that holds them. Shape [rows]."""
    return padded_rows(sequences, t.engine.doubled_graphs, most_sequences(t))


def padded_rows(sequences: Floats, doubled: Floats, most: Floats) -> Floats:
    """`sequences` as padded to the next power of two, at most to `most`, where they are more than `doubled`; 0: never."""
    power = 2.0 ** np.ceil(np.log2(np.maximum(sequences, 1.0)) - 1e-9)
    rows: Floats = np.where((doubled > 0) & (sequences > doubled), np.maximum(np.minimum(power, most), sequences), sequences)
    return rows


def growing_room(t: Table) -> Floats:
    """Sequences that a cache holds on average while answers grow, over those of full length; shape [rows].

    Engines that do not reserve room for outputs (vLLM, SGLang) admit a request when there is room for its prompt, and preempt one when the cache runs out.
    """
    prompt, full = (kv_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens * share) for share in (0.0, 1.0))
    both = prompt + full
    found: Floats = np.where((t.engine.reserves_output > 0) | (both <= 0), 1.0, 2 * full / np.where(both > 0, both, 1.0))
    return found


def _is_small(t: Table) -> Flags:
    capability = t.chip.compute_capability
    small: Flags = (t.chip.capacity_bytes < LARGE_BYTES) | (capability < LARGE_CAPABILITY) | (capability == GB10_CAPABILITY)
    return small
