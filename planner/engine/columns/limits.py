"""Limits that an engine sets on its iterations: requests in flight and prompt tokens, by the workload, the GPU, or its defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.engine.columns.arrays import Floats
from planner.engine.columns.table import Table
from planner.engine.records.chip import ChipNumbers
from planner.units import GIB

LARGE_BYTES, LARGE_CAPABILITY, HUGE_BYTES = 70 * GIB, 9.0, 160 * GIB
"""GPUs with this much memory that are newer than A100 are large to vLLM (`EngineArgs.get_batch_defaults`: device_memory >= 70 GiB and not
"a100", 0.9 to 0.33), except GB10 (0.33), and huge from 160 GiB (0.28)."""
GB10_CAPABILITY = 12.1


def most_sequences(t: Table) -> Floats:
    """Maximum number of requests in flight on a replica, whatever the size of its cache; shape [rows]."""
    usual = np.where(is_small(t.chip) & (t.engine.small_sequences > 0), t.engine.small_sequences, t.engine.most_sequences)
    return np.where(t.job.max_num_seqs > 0, t.job.max_num_seqs, usual)


def chunk_tokens(t: Table) -> Floats:
    """Most prompt tokens in one pass of a service; 0: whole prompts. Shape [rows]."""
    serves = t.job.serves > 0
    usual = np.where(is_small(t.chip) & (t.engine.small_chunk > 0) & serves, t.engine.small_chunk, t.engine.prefill_chunk)
    usual = np.where(is_huge(t.chip) & (t.engine.huge_chunk > 0) & serves, t.engine.huge_chunk, usual)
    return np.where(t.job.max_num_batched_tokens > 0, t.job.max_num_batched_tokens, usual)


def is_small(chip: ChipNumbers[Any]) -> Any:
    """True if an engine's limits are those of a small GPU: a truth value, or an array of them."""
    capability = chip.compute_capability
    return (chip.capacity_bytes < LARGE_BYTES) | (capability < LARGE_CAPABILITY) | (capability == GB10_CAPABILITY)


def is_huge(chip: ChipNumbers[Any]) -> Any:
    """True if an engine's limits are those of a huge GPU: a truth value, or an array of them."""
    return chip.capacity_bytes >= HUGE_BYTES
