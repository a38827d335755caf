"""Least seconds of one candidate by its data sheet: no range goes below the products and the bytes that must be there."""

from __future__ import annotations

from typing import NamedTuple

from planner.engine.explain.row import Row
from planner.engine.job.engines import GENERIC

FP16_ACCUMULATE_GAIN = 2.0
"""GeForce tensor cores add up in FP16 at twice the rate of their data sheets' figure, which adds up in FP32."""


class Limits(NamedTuple):
    """Limits of one row; times in seconds."""

    token_s: float
    """A decoding step: the weights a token passes are read from memory, or multiplied."""
    prompt_s: float
    """One prompt, by its products."""
    requests_per_s: float
    """Requests of one replica, by their products."""


def step_floor_s(row: Row, model_flop: float, gpus: int) -> float:
    """A training step, by its products."""
    return model_flop / (row.chip.peak_flop_per_s * gpus)


def limits_of(row: Row) -> Limits:
    """The limits of a row that answers requests; a draft lets one pass of the model yield all it proposed and one token more."""
    job, t, chip = row.job, row.e.table, row.chip
    ranks, stages = max(row(t.layout.tp) * row(t.layout.cp), row(t.layout.ep)), row(t.layout.pp)
    flop_per_s = _peak_flop_per_s(row) * ranks
    bytes_per_s = max(chip.gpu.memory_bandwidth_bytes_per_s, chip.bandwidth_bytes_per_s) * ranks
    active = float(job.architecture.active_matrix)
    fresh = job.input_tokens - job.prefix_tokens
    token_s = max(active * min(job.linear_bytes, job.other_bytes) / bytes_per_s, 2 * active / flop_per_s)
    read = job.architecture.source or job.architecture
    inner = max(0.0, read.active_matrix - read.token_matrix - read.output_matrix)
    request_flop = 2 * (inner * fresh + active * max(0.0, job.output_tokens - 1))
    return Limits(
        token_s=token_s / (1 + job.draft_tokens),
        prompt_s=2 * inner * fresh / (flop_per_s * stages),
        requests_per_s=flop_per_s * stages / request_flop if request_flop else float("inf"),
    )


def _peak_flop_per_s(row: Row) -> float:
    """Rate that no product of the row's weights passes: of INT8, or of FP16 sums, where its engine computes so or is not known."""
    job, chip = row.job, row.chip
    peak = chip.peak_flop_per_s
    if chip.fp16_accumulate_gain > 1 and (job.engine.fp16_accumulate or job.engine.name == GENERIC):
        peak *= FP16_ACCUMULATE_GAIN
    if job.weight_bits_packed and (job.engine.int8_per_cycle or job.engine.name == GENERIC):
        peak = max(peak, chip.gpu.compute_flop_per_s.get("int8", 0.0))
    return peak
