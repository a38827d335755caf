"""Ends of the range of a training step that rest on what is often left unsaid: TF32 for FP32, an encoder's stored scores, a release."""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.engine.explain.row import Row
from planner.engine.job.engines import ENGINES
from planner.engine.performance.operators.attention import SCORE_BYTES, attended_tokens
from planner.engine.performance.training import EAGER_BACKWARD, StepColumns

TF32_OPEN = "FP32 products that may run as TF32"
"""NVIDIA's containers and PyTorch before 1.12 multiply FP32 as TF32 (torch.backends.cuda.matmul.allow_tf32); others do not, unless told to."""
SCORES_OPEN = "encoder whose attention is not stated"
"""Encoders had no fused attention in transformers before 4.40 (2024-04), nor have NVIDIA's DeepLearningExamples."""
SLOWER_BEFORE = "training engine whose older releases are slower"
"""No release of it is named, so that today's is asked; what published runs took by older ones is in `Engine.device_factor`."""
PRODUCTS = ("matmul", "attention", "head")


class Unstated(NamedTuple):
    """Factors of at least 1 by which a step may be faster, and slower, than it is predicted as asked."""

    faster: float
    slower: float
    peak: float
    """Factor on the data sheet's peak of what the products may be multiplied as."""
    before: float = 1.0
    """The part of `slower` by which older releases take longer."""

    def evidence(self) -> dict[str, float]:
        """Cause of a wider range -> the logarithm of its factor."""
        scores = math.log(self.slower / self.before)
        return {TF32_OPEN: math.log(self.faster), SCORES_OPEN: scores, SLOWER_BEFORE: math.log(self.before)}


NOTHING = Unstated(1.0, 1.0, 1.0)


def unstated_of(row: Row, step: StepColumns) -> Unstated:
    """The factors of one row that trains."""
    peak, stored_s, older = _tf32_gain(row), _stored_scores_s(row, step), _older_factor(row)
    if peak == older == 1 and not stored_s:
        return NOTHING
    seconds = row(step.step_s)
    products = sum(row(step.by_class[name]) for name in PRODUCTS) / seconds
    kernels = products + row(step.by_class["elementwise"]) / seconds
    before = 1 + kernels * (older - 1)
    return Unstated(1 / (1 - products * (1 - 1 / peak)), (1 + stored_s / seconds) * before, peak, before)


def _older_factor(row: Row) -> float:
    """Device factor of the slowest release of an engine over that of today's, where none is named; 1 for programs, which bring their engine with them."""
    named = row.job.workload.engine
    if named not in ENGINES:
        return 1.0
    return max(record.device_factor for record in ENGINES[named]) / row.job.engine.device_factor


def _tf32_gain(row: Row) -> float:
    """Peak of TF32 over that of FP32 where products are asked in FP32; 1 where the part has no TF32."""
    peaks = row.chip.gpu.compute_flop_per_s
    return max(1.0, peaks.get("tf32", 0.0) / peaks["fp32"]) if row.chip.dtype == "fp32" else 1.0


def _stored_scores_s(row: Row, step: StepColumns) -> float:
    """Seconds by which an encoder's step is longer where scores go through memory; 0 where its attention is stated.

    `SCORE_BYTES` · layers · heads · tokens · tokens attended to, forward and `EAGER_BACKWARD` times backward.
    """
    job, t = row.job, row.e.table
    if not job.architecture.encoder or job.workload.attention is not None or job.eager_attention:
        return 0.0
    s, one = t.layout, step.one
    heads = row(t.model.layers) / row(s.pp) * row(t.model.heads) / row(s.tp)
    tokens, context, _, _ = one.shape
    pairs = row(tokens) * row(attended_tokens(t, context))
    seconds = SCORE_BYTES * heads * pairs / row(t.chip.bandwidth_bytes_per_s) * (1 + EAGER_BACKWARD)
    return seconds * row(step.count) * job.engine.device_factor * row(t.chip.train_factor)
