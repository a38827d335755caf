"""Ends of ranges: settings that are often not stated (TF32, sums in FP16, stored scores), classes without published values, and data sheets."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Flags, Floats, Table, added
from planner.engine.evaluate.chosen_rows import Chosen, may_divide_matrices
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.job.engines import ENGINES, GENERIC
from planner.engine.job.job import Job
from planner.engine.performance.operators.attention import attended_tokens, forward_flop_per_s, score_bytes
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES
from planner.engine.performance.training import EAGER_BACKWARD, StepColumns, phase_factors
from planner.workload.published.spreads import published_spreads

TF32_OPEN = "FP32 products that may run as TF32"
"""NVIDIA's containers and PyTorch before 1.12 multiply FP32 as TF32 (torch.backends.cuda.matmul.allow_tf32); others do so only on request."""
FP16_SUMS_OPEN = "FP16 products that may be added up in FP16"
"""PyTorch lets cuBLAS add up FP16 products in FP16 (torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction, on unless turned off), and kernels
of packed weights do so; GeForce cards, which add up in FP32 at half the rate, are faster by that."""
SCORES_OPEN = "encoder whose attention is not stated"
"""Encoders had no fused attention in transformers before 4.40 (2024-04), nor have NVIDIA's DeepLearningExamples."""
SLOWER_BEFORE = "training engine whose older releases are slower"
"""Training engine without a named release, so that today's is used; the time of published runs with older ones is in
`Engine.device_factor`, their attention in `Engine.ampere_attention`."""
SLOWER_HOST = "training step that waits for its host"
"""Range of the time of a launch, which depends on the host: hosts of one H200 and one H100 took twice the assumed time (docs/evidence/h200.md)."""
PRODUCTS = ("matmul", "attention", "head")
KINDS_OF = {
    "train": ("training speed",),
    "prefill": ("prefill", "batch throughput"),
    "generate": ("prefill", "decode", "batch throughput", "batch request time"),
    "serve": ("serving throughput", "time to first token", "time per output token", "request time"),
}
"""Task -> kinds of the times and rates in its answer."""
FP16_ACCUMULATE_GAIN = 2.0
"""GeForce tensor cores add up in FP16 at twice the rate of their data sheets' figure, which adds up in FP32."""


class Unstated(NamedTuple):
    """Factors of at least 1 by which each row's step may be faster, and slower, than predicted."""

    faster: Floats
    slower: Floats
    peak: Floats
    """Factor on the data sheet's peak, from the type in which products may be multiplied or added up."""
    sums: Flags
    """Rows whose products may be added up in FP16."""
    before: Floats
    """Part of `slower` that is due to older releases."""
    host: Floats
    """Part of `slower` that is due to slower hosts."""

    def evidence(self) -> dict[str, Floats]:
        """Cause of a wider range -> the logarithm of its factor."""
        scores, faster = np.log(self.slower / self.before / self.host), np.log(self.faster)
        return {
            TF32_OPEN: faster * ~self.sums,
            FP16_SUMS_OPEN: faster * self.sums,
            SCORES_OPEN: scores,
            SLOWER_BEFORE: np.log(self.before),
            SLOWER_HOST: np.log(self.host),
        }


def unstated_of(rows: Chosen, step: StepColumns) -> Unstated:
    """Factors of rows that train."""
    sums = np.array([_fp16_gain(job, chip) for job, chip in zip(rows.jobs, rows.chips, strict=True)])
    peak, step_s = np.maximum(sums, [_tf32_gain(chip) for chip in rows.chips]), rows(step.step_s)
    products = added(rows(step.by_class[name]) for name in PRODUCTS) / step_s
    kernels = products + rows(step.by_class["elementwise"]) / step_s
    before = 1 + kernels * (np.array([_older_factor(job) for job in rows.jobs]) - 1) + _older_attention_s(rows, step) / step_s
    host = 1 + _slower_host_s(rows, step) / step_s
    faster, scores = 1 / (1 - products * (1 - 1 / peak)), 1 + _stored_scores_s(rows, step) / step_s
    return Unstated(faster, scores * before * host, peak, sums > 1, before, host)


def _slower_host_s(rows: Chosen, step: StepColumns) -> Floats:
    """Seconds by which a step is longer where launches take as long as on the slowest hosts of their range."""
    device = rows(added(step.by_class[name] for name in DEVICE_CLASSES) - added(step.exposed.values()))
    slowest = rows(step.host_s) * np.exp([chip.launch_spread for chip in rows.chips])
    waits: Floats = np.maximum(0.0, slowest - device) - rows(step.by_class["launch"])
    return np.maximum(0.0, waits)


def _older_factor(job: Job) -> float:
    """Device factor of the slowest release of an engine ÷ that of today's, where none is named; 1 for programs, which bring their engine with them."""
    named = job.workload.engine
    if named not in ENGINES:
        return 1.0
    return max(record.device_factor for record in ENGINES[named]) / job.engine.device_factor


def _older_attention_s(rows: Chosen, step: StepColumns) -> Floats:
    """Seconds by which a step is longer with the kernels of older releases, where no release is named and an older one may run them."""
    may = np.array([_may_be_older_attention(job) for job in rows.jobs])
    if not may.any():
        return np.zeros(1)
    t = rows.e.table
    older = replace(t, job=replace(t.job, ampere_attention=np.ones(1), triton_attention=np.ones(1)))
    longer = rows(step.by_class["attention"] * (_attention_time(older) / _attention_time(t) - 1))
    return np.where(may, longer, 0.0)


def _attention_time(t: Table) -> Floats:
    """Time of fused attention in all phases of a step, in a unit of its own."""
    return added(phase["attention"] for phase in phase_factors(t).values()) / forward_flop_per_s(t)


def _may_be_older_attention(job: Job) -> bool:
    releases = ENGINES.get(job.workload.engine or "", ())
    stated = job.eager_attention or job.workload.attention not in {None, "flash"}
    return not stated and any(record.ampere_attention for record in releases)


def _tf32_gain(chip: Chip) -> float:
    """Peak of TF32 ÷ that of FP32 for FP32 products; 1 if the GPU has no TF32."""
    peaks = chip.gpu.compute_flop_per_s
    return max(1.0, peaks.get("tf32", 0.0) / peaks["fp32"]) if chip.dtype == "fp32" else 1.0


def _fp16_gain(job: Job, chip: Chip) -> float:
    """Factor on the rate of products where a GPU adds up in FP16 faster, and the engine does not do so anyway."""
    return 1.0 if job.engine.fp16_accumulate else chip.fp16_accumulate_gain


def _stored_scores_s(rows: Chosen, step: StepColumns) -> Floats:
    """Seconds by which an encoder's step is longer where scores go through memory; 0 if its attention is stated.

    `score_bytes` · layers · heads · tokens · tokens attended to, forward and `EAGER_BACKWARD` times backward.
    """
    unstated = np.array([_attention_unstated(job) for job in rows.jobs])
    if not unstated.any():
        return np.zeros(1)
    t, s = rows.e.table, rows.e.table.layout
    tokens, context, _, _ = step.one.shape
    heads = t.model.layers / s.pp * t.model.heads / s.tp
    pairs = tokens * attended_tokens(t, context)
    seconds = score_bytes(t) * heads * pairs / t.chip.bandwidth_bytes_per_s * (1 + EAGER_BACKWARD)
    longer = rows(seconds * step.count) * np.array([job.engine.device_factor for job in rows.jobs]) * rows(t.chip.train_factor)
    return np.where(unstated, longer, 0.0)


def _attention_unstated(job: Job) -> bool:
    """True if `job` has an encoder that may or may not store its scores."""
    return bool(job.architecture.encoder) and job.workload.attention is None and not job.eager_attention


def without_source(e: Evaluated, number: int, job: Job) -> dict[str, str]:
    """Kinds of figures of row `number` (of job `job`) that lack published values for a class of the row."""
    task = "train" if job.train else job.task
    words = _words(
        task, tuple(classes.names[int(classes.rows[number if classes.rows.size > 1 else 0])] for classes in e.ranges.classes)
    )
    return {"ranges_without_source": words} if words else {}


@cache
def _words(task: str, classes: tuple[str | None, ...]) -> str:
    spreads, found = published_spreads(), []
    for name in classes:
        kinds = [kind for kind in KINDS_OF[task] if not spreads.kinds[kind].seen(name)]
        if kinds:
            found.append(f"no published {' or '.join(kinds)} of {name or 'this architecture'}")
    return "; ".join(found)


class Limits(NamedTuple):
    """Limits of each row; times in seconds."""

    token_s: Floats
    """A decoding step: reading the weights a token uses from memory, or multiplying them."""
    prompt_s: Floats
    """One prompt, limited by its products."""
    requests_per_s: Floats
    """Requests per second of one replica, limited by their products."""


def limits_of(rows: Chosen) -> Limits:
    """Limits of rows that answer requests; with a draft, one pass of the model may yield all proposed tokens and one more."""
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
    """Upper limit of the rate of products of a row's weights: the rate of INT8, or of FP16 sums, where its engine uses them or is not known."""
    peak = chip.peak_flop_per_s
    if chip.fp16_accumulate_gain > 1 and (job.engine.fp16_accumulate or job.engine.name == GENERIC):
        peak *= FP16_ACCUMULATE_GAIN
    if job.weight_bits_packed and (job.engine.int8_per_cycle or job.engine.name == GENERIC):
        peak = max(peak, chip.gpu.compute_flop_per_s.get("int8", 0.0))
    return peak
