"""Waits of first tokens that a question leaves open: how prompts of a closed loop meet, how full a queue is, and how a cold service begins.

Symbols: B requests in flight on a replica · o output tokens of a request · p seconds of a prompt · d seconds of a decoding step · T seconds
of a cold start · N total requests · r requests per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats, Rows
from planner.engine.evaluate.chosen_rows import Chosen
from planner.engine.job.job import Job
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import prompts_in_step, prompts_queued
from planner.engine.performance.simulation.benchmark_run import COLD_EXPERTS_S
from planner.engine.performance.simulation.summary import Queue

APART, TOGETHER = "prompts that may come apart", "prompts that may come together"
"""Facts whose amounts are half widths of the low and the high end."""
COLD = "first requests that may find a cold service"
"""Fact whose amount is the logarithm of the factor on the mean."""
USUAL_SHARE = 0.5
"""Share of the distance (of logarithms) to where all prompts come apart, or all together, that contains nine in ten loops: of 0, 0.5 and 1
the value with the lowest interval score of first tokens with each source left out, residuals taken beyond these ends (4.04, 3.42, 3.48;
2026-11-24). An engine that is not named may be one that keeps requests in step by itself: all of the distance."""
MOST_WAITING = 0.99
COLD_START_S, COLD_START_PCIE_S = 2.0, 15.0
"""Longest wait of the first requests, and of those to several GPUs over PCIe. Kernels are compiled or loaded when they are first used: 1.0 to 1.3 s in TensorRT-LLM 1.2 and
vLLM 0.19 on one A100 (cssnoeasy/a100-vllm-benchmark-blog), 1.9 s in vLLM with Qwen3 30B on one H100 (the mean of a hundred requests by ten clients), 2.7 s in SGLang with gpt-oss 20B
(ai-bot-pro/achatbot#183). Communicators start: 0.6 s on two H200 (vllm-project/vllm#40918), 1.4 s on MI355X (sgl-project/sglang#20477); 14 s on A10 over PCIe
(sgl-project/sglang#5808)."""
LONGER_QUEUE = 3.0
"""Factor on the wait for admission of requests at a rate. Ranges reach `USUAL_SHARE` of the way to it, and of the way to no wait at all:
where a replica is 90 % busy, one that is 7 % slower makes requests wait three times as long (ρ/(1 - ρ)). An assumption: published first
tokens at a rate hardly wait."""
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class OpenWaits(NamedTuple):
    """Waits by which the first token of each row may come earlier and later than predicted."""

    apart: Floats
    """Half width of the low end, in addition to that of the formulas."""
    together: Floats
    """Half width of the high end."""
    cold_s: Mapping[str, Floats]
    """Name of the mean or a percentile -> seconds by which it may be longer."""

    def evidence(self, mean_s: Floats) -> dict[str, Floats]:
        """Cause -> amount; `mean_s`: the mean of the first token."""
        return {APART: self.apart, TOGETHER: self.together, COLD: np.log1p(self.cold_s["mean"] / mean_s)}


def open_waits(rows: Chosen, s: ServeColumns) -> OpenWaits:
    """The waits of rows that generate, prefill or serve; 0 if nothing is open."""
    serves = np.array([job.task == "serve" and not job.workload.disaggregated for job in rows.jobs])
    runs = np.array([job.workload.requests is not None for job in rows.jobs])
    rated = serves & np.array([bool(job.request_rate_per_s) for job in rows.jobs])
    table = rows.e.table
    several = serves & (rows(table.layout.sequences) > 1)
    at_once = several & runs & ~rated
    steady = np.where(at_once, 1.0, rows(table.job.uniform_loop) * (several & ~runs))
    apart, together = np.zeros(serves.size), np.zeros(serves.size)
    if (meet := steady > 0).any():
        below, above = _of_loop(Chosen.of(rows.e, rows.numbers[meet].tolist()), s, steady[meet])
        apart[meet], together[meet] = np.where(at_once[meet], 0.0, below), above
    if rated.any() and rows.e.queue is not None:
        waiting = np.where(rated, _waiting_share(rows, rows.e.queue, s), 0.0)
        apart, together = apart - USUAL_SHARE * np.log1p(-waiting), together + USUAL_SHARE * np.log1p((LONGER_QUEUE - 1) * waiting)
    cold_s, warm = _cold_starts(rows, np.flatnonzero(serves & runs), rows(s.ttft_s.mean))
    return OpenWaits(apart + warm, together, cold_s)


def _cold_starts(rows: Chosen, runs: Rows, mean_s: Floats) -> tuple[dict[str, Floats], Floats]:
    """Seconds by which first tokens of `runs` may come later, by name, and the half width by which they come earlier where the service was warm."""
    table = rows.e.table
    cold_s, warm = {name: np.zeros(mean_s.size) for name in ("mean", *SHARES)}, np.zeros(mean_s.size)
    layout, experts = table.layout, rows(table.model.experts) > 0
    pcie = rows((np.maximum(layout.tp * layout.pp * layout.cp, layout.ep) > 1) & (layout.nvlink == 0))
    for place in runs:
        job = rows.jobs[place]
        for name, seconds in _cold_start_s(job, COLD_START_PCIE_S if pcie[place] else COLD_START_S).items():
            cold_s[name][place] = seconds
        predicted_s = _cold_start_s(job, COLD_EXPERTS_S).get("mean", 0.0) if experts[place] else 0.0
        warm[place] = -np.log1p(-min(MOST_WAITING, predicted_s / mean_s[place]))
    return cold_s, warm


def _waiting_share(rows: Chosen, queue: Queue, s: ServeColumns) -> Floats:
    """Share of the mean first token that is a wait for admission; 0 where requests were not simulated, or wait without end."""
    wait_s, mean_s = rows(queue.wait_s.mean), rows(s.ttft_s.mean)
    known = (rows(queue.samples) > 0) & np.isfinite(wait_s) & np.isfinite(mean_s) & (mean_s > 0)
    waits = np.where(known, wait_s, 0.0) / np.where(known, mean_s, 1.0)
    return np.minimum(waits, MOST_WAITING)


def _of_loop(rows: Chosen, s: ServeColumns, steady: Floats) -> tuple[Floats, Floats]:
    """Half widths of closed loops; `steady`: the share of requests that stay in step, 1 where all have one length or all are sent at once.

    Requests may be independent, as where only a mean length is given, or may all come together.
    """
    job, engine, sequences = rows.e.table.job, rows.e.table.engine, rows(rows.e.table.layout.sequences)
    prompt_s, step_s, mean_s = rows(s.prefill_s), rows(s.step_s), rows(s.ttft_s.mean)
    chunk = np.where(rows(job.max_num_batched_tokens) > 0, rows(job.max_num_batched_tokens), rows(engine.prefill_chunk))
    shared = np.minimum(sequences, np.maximum(1.0, chunk // rows(job.input_tokens - job.prefix_tokens)))
    late_s = rows(engine.front_end_s) + (0.5 + rows(engine.late_steps)) * step_s
    apart_s = prompt_s * prompts_queued(sequences, prompt_s, np.maximum(1.0, rows(job.output_tokens)) * step_s) + late_s
    together_s = prompt_s * prompts_in_step(sequences, shared) + late_s
    up = np.array([USUAL_SHARE if one.workload.engine else 1.0 for one in rows.jobs])
    below, above = np.log(mean_s / apart_s), np.log(together_s / mean_s)
    return steady * USUAL_SHARE * np.maximum(0.0, below), steady * up * np.maximum(0.0, above)


def _cold_start_s(job: Job, seconds: float) -> dict[str, float]:
    """Waits in a run of N requests without earlier ones: those that arrive in the first T = `seconds` wait until its end.

    At a rate these are r·T of N requests, T/2 each on average; where clients wait for their answers, those that are sent at once wait for all of T.
    """
    if job.workload.warmup_requests:
        return {}
    requests, rate = float(job.workload.requests or 1), job.request_rate_per_s
    if not rate:
        share = min(1.0, job.concurrency / requests)
        return {"mean": share * seconds} | {name: seconds if 1 - at < share else 0.0 for name, at in SHARES.items()}
    share = min(1.0, rate * seconds / requests)
    mean_s = share * seconds / 2 if share < 1 else seconds - requests / rate / 2
    return {"mean": mean_s} | {name: seconds * max(0.0, 1 - (1 - at) / share) for name, at in SHARES.items()}
