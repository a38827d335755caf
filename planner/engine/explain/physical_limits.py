"""Least seconds of candidates by their data sheets: no range goes below the products and the bytes that must be there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats
from planner.engine.evaluate.chosen_rows import Chosen, may_divide_matrices
from planner.engine.job.engines import GENERIC
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import Chip

FP16_ACCUMULATE_GAIN = 2.0
"""GeForce tensor cores add up in FP16 at twice the rate of their data sheets' figure, which adds up in FP32."""


class Limits(NamedTuple):
    """Limits of each row; times in seconds."""

    token_s: Floats
    """A decoding step: the weights a token passes are read from memory, or multiplied."""
    prompt_s: Floats
    """One prompt, by its products."""
    requests_per_s: Floats
    """Requests of one replica, by their products."""


def limits_of(rows: Chosen) -> Limits:
    """The limits of rows that answer requests; a draft lets one pass of the model yield all it proposed and one token more."""
    t = rows.e.table
    m, read, j, s = t.model, t.prompts.model, t.job, t.layout
    divided = np.array([may_divide_matrices(job) for job in rows.jobs])
    ranks, stages = rows(np.maximum(s.tp * s.cp, s.ep)) * np.where(divided, rows(s.pp), 1.0), np.where(divided, 1.0, rows(s.pp))
    peak = np.array([_peak_flop_per_s(job, chip) for job, chip in zip(rows.jobs, rows.chips, strict=True)])
    sheet = np.array([chip.gpu.memory_bandwidth_bytes_per_s for chip in rows.chips])
    flop_per_s, bytes_per_s = peak * ranks, np.maximum(sheet, rows(t.chip.bandwidth_bytes_per_s)) * ranks
    active, fresh = rows(m.active_matrix), rows(j.input_tokens - j.prefix_tokens)
    token_s = np.maximum(active * rows(np.minimum(j.linear_bytes, j.other_bytes)) / bytes_per_s, 2 * active / flop_per_s)
    inner = rows(np.maximum(0.0, read.active_matrix - read.token_matrix - read.output_matrix))
    request_flop = 2 * (inner * fresh + active * rows(np.maximum(0.0, j.output_tokens - 1)))
    endless = np.full(request_flop.size, np.inf)
    return Limits(
        token_s=token_s / (1 + rows(j.draft_tokens)),
        prompt_s=2 * inner * fresh / (flop_per_s * stages),
        requests_per_s=np.divide(flop_per_s * stages, request_flop, out=endless, where=request_flop > 0),
    )


def _peak_flop_per_s(job: Job, chip: Chip) -> float:
    """Rate that no product of a row's weights passes: of INT8, or of FP16 sums, where its engine computes so or is not known."""
    peak = chip.peak_flop_per_s
    if chip.fp16_accumulate_gain > 1 and (job.engine.fp16_accumulate or job.engine.name == GENERIC):
        peak *= FP16_ACCUMULATE_GAIN
    if job.weight_bits_packed and (job.engine.int8_per_cycle or job.engine.name == GENERIC):
        peak = max(peak, chip.gpu.compute_flop_per_s.get("int8", 0.0))
    return peak
