"""Waits of first tokens that a question leaves open: how prompts of a closed loop meet, and how a cold service begins.

Symbols: B requests in flight on a replica · o output tokens of a request · p seconds of a prompt · d seconds of a decoding step · T seconds of a cold
start · N requests in all · r requests a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from planner.engine.explain.row import Row
from planner.engine.job.job import Job
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.prefill_decode.request_latency import prompts_in_step, prompts_queued

APART, TOGETHER = "prompts that may come apart", "prompts that may come together"
"""Facts of which the amounts are half widths of the low and the high end."""
COLD = "first requests that may find a cold service"
"""Its amount is the logarithm of the factor on the mean."""
USUAL_SHARE = 0.5
"""Share of the distance (of logarithms) to where all prompts come apart, or all together, that nine in ten loops stay in: of 0, 0.5 and 1 the one with the
least interval score of first tokens with each source left out, residuals taken beyond these ends (4.04, 3.42, 3.48; 2026-11-24). An engine that is not named may be one that keeps
requests in step by itself: all of the distance."""
COLD_START_S, COLD_START_PCIE_S = 1.5, 15.0
"""Longest start of communicators when the first requests come to several GPUs, over the vendor's links and over PCIe: 0.6 s on two H200
(vllm-project/vllm#40918), 1.4 s on MI355X (sgl-project/sglang#20477); 14 s on A10 (sgl-project/sglang#5808)."""
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class OpenWaits(NamedTuple):
    """What a first token may wait less and more than it is predicted to."""

    apart: float = 0.0
    """Half width of the low end beside that of the formulas."""
    together: float = 0.0
    cold_s: Mapping[str, float] = MappingProxyType({})
    """Seconds by which the mean and percentiles may be longer, by name."""

    def evidence(self, mean_s: float) -> dict[str, float]:
        """Cause -> amount; `mean_s`: the mean of the first token."""
        return {APART: self.apart, TOGETHER: self.together, COLD: math.log1p(self.cold_s.get("mean", 0.0) / mean_s)}


NONE = OpenWaits()


def open_waits(row: Row, s: ServeColumns) -> OpenWaits:
    """The waits of one row that serves."""
    job = row.job
    if job.task != "serve" or job.workload.disaggregated:
        return NONE
    if job.workload.requests:
        return OpenWaits(cold_s=_cold_start_s(row, job))
    return _of_loop(row, job, s) if job.uniform_loop and row(row.e.table.layout.sequences) > 1 else NONE


def _of_loop(row: Row, job: Job, s: ServeColumns) -> OpenWaits:
    """A closed loop of one length: its requests may be independent after all, as lengths that are given as a mean are, or may all come together."""
    sequences = row(row.e.table.layout.sequences)
    prompt_s, step_s, mean_s = row(s.prefill_s), row(s.step_s), row(s.ttft_s.mean)
    chunk = job.max_num_batched_tokens or job.engine.prefill_chunk
    shared = min(sequences, max(1.0, chunk // (job.input_tokens - job.prefix_tokens)))
    late_s = job.engine.front_end_s + (0.5 + job.engine.late_steps) * step_s
    apart_s = prompt_s * prompts_queued(sequences, prompt_s, max(1.0, job.output_tokens) * step_s) + late_s
    together_s = prompt_s * prompts_in_step(sequences, shared) + late_s
    up = USUAL_SHARE if job.workload.engine else 1.0
    below, above = math.log(mean_s / apart_s), math.log(together_s / mean_s)
    return OpenWaits(job.uniform_loop * USUAL_SHARE * max(0.0, below), job.uniform_loop * up * max(0.0, above))


def _cold_start_s(row: Row, job: Job) -> dict[str, float]:
    """Waits in a run of N requests, none before it, on GPUs that exchange: what comes in the first T seconds waits for their end.

    At a rate these are r·T of N requests, T/2 each on average; where clients wait for their answers, those that are sent at once wait for all of T.
    """
    facts = row.e.ranges.facts
    if job.workload.warmup_requests or not row(facts["several GPUs"]):
        return {}
    seconds = COLD_START_PCIE_S if row(facts["PCIe between GPUs"]) else COLD_START_S
    requests, rate = float(job.workload.requests or 1), job.request_rate_per_s
    if not rate:
        share = min(1.0, job.concurrency / requests)
        return {"mean": share * seconds} | {name: seconds if 1 - at < share else 0.0 for name, at in SHARES.items()}
    share = min(1.0, rate * seconds / requests)
    mean_s = share * seconds / 2 if share < 1 else seconds - requests / rate / 2
    return {"mean": mean_s} | {name: seconds * max(0.0, 1 - (1 - at) / share) for name, at in SHARES.items()}
