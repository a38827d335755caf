"""Latencies of requests: in a fixed batch, and in a closed loop, which keeps its sequences in flight.

Symbols: B sequences in flight on one replica · o output tokens of a request · n prompts that share a pass.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import asdict

from planner.engine.columns import Floats, RowRecord, Table
from planner.engine.columns.limits import chunk_tokens
from planner.engine.performance.prefill_decode.passes import Batch
from planner.workload.traffic.lengths import ROUNDS

N = TypeVar("N", float, Floats)
MOST_BUSY = 0.95
"""Share of time that prompts take above which a queue in a loop no longer grows."""
WAITING_ALONE = 1.25
"""`Engine.waiting_prompts` where no two prompts share a pass: prompts that were read one after the other end one after the other, and their
successors hardly meet. Of 1, 1.25, 1.5, 1.75 and 2 the value with which all three sources of such loops are predicted better than with the
engines' own numbers (first tokens, median error: InferenceX 21 %, AIConfigurator's silicon data 20 %, NIM's pages 58 % instead of 21, 22
and 179 %; 2026-11-27)."""
NORMAL_TAILS = (1.645, 2.326)
"""Standard deviations to the 95th and the 99th percentile."""


class Latency(RowRecord, frozen=True):
    """Seconds over the requests of a row. Shape [rows]."""

    mean: Floats
    p50: Floats
    p95: Floats
    p99: Floats

    def known_or(self, other: Latency) -> Latency:
        """Latency with the figures of `other` in place of those that are not finite."""
        return Latency(
            *(
                np.where(np.isfinite(own), own, others)
                for own, others in zip(asdict(self).values(), asdict(other).values(), strict=True)
            )
        )


def blended(share: Floats, one: Floats, other: Floats) -> Floats:
    """`share` of `one` and the rest of `other`."""
    return np.where(share >= 1, one, np.where(share <= 0, other, share * one + (1 - share) * other))


class LoopTimes(msgspec.Struct, frozen=True):
    """Seconds on one replica, shape [rows]."""

    prefill_s: Floats
    """Time of a prompt among those it shares a pass with."""
    single_s: Floats
    """Time of a prompt alone in its pass."""
    step_s: Floats
    """Time of a decoding step."""
    attention_s: Floats
    """Attention in a decoding step."""


class RequestTimes(NamedTuple):
    """Latencies of the requests that one replica serves, and their rate."""

    ttft: Latency
    """Time to the first token."""
    tpot: Latency
    """Time of each further token."""
    request: Latency
    requests_per_s: Floats


def fixed_batch(batch: Batch, prefill_s: Floats, step_s: Floats) -> RequestTimes:
    """A batch whose prompts are read together and whose sequences end together."""
    request_s = prefill_s + batch.steps * step_s
    ttft, tpot, request = (Latency(alike, alike, alike, alike) for alike in (prefill_s, step_s, request_s))
    return RequestTimes(ttft, tpot, request, batch.sequences / request_s)


def prompts_queued(sequences: N, prefill_s: N, decoding_s: N) -> N:
    """Prompts that an independent request waits for, including its own: a queue that prompts keep busy for their share of the time."""
    share = np.minimum(MOST_BUSY, sequences * prefill_s / (sequences * prefill_s + decoding_s))
    found: N = 1 + np.minimum(sequences / 2, 0.5 * share / (1 - share))
    return found


def prompts_in_step(sequences: N, prompts: N) -> N:
    """Prompts that the median of B requests in step waits for, including its own, where n share a pass (`_first_token`)."""
    return (sequences + prompts) / 2 + prompts * (1 - prompts / sequences)


class _FirstToken(NamedTuple):
    """Time to the first token in a closed loop of requests of one length."""

    mean_s: Floats
    p95_s: Floats
    p99_s: Floats
    prompts: Floats
    """Prompts that the median of the first round waits for."""


def _first_token(t: Table, batch: Batch, times: LoopTimes) -> _FirstToken:
    """Time to the first token in a closed loop of B requests of one length.

    All start together, so in the first round the median waits for (B + n)/2 prompts, n of which share a pass. Engines that
    put prompts first keep requests in step: running sequences wait until all have their first token, so all end
    together and every round is like the first. They deliver a token while the next pass runs, so it appears one pass of n
    later. Where prompts share iterations, sequences drift apart, and later rounds wait for few prompts, which share a pass where
    they fit into one, and hardly any where they do not.
    """
    sequences, prompts, prefill_s, single_s = batch.sequences, batch.prompts, times.prefill_s, times.single_s
    first = (sequences + prompts) / 2
    chunk = chunk_tokens(t)
    waiting = np.where((chunk > 0) & (chunk < 2 * batch.fresh), WAITING_ALONE, t.engine.waiting_prompts)
    few = np.minimum(waiting, first)
    few_s = single_s + (few - 1) * np.minimum(prefill_s, single_s)
    drifting = first / ROUNDS * prefill_s + (1 - 1 / ROUNDS) * few_s
    in_step = prefill_s * prompts_in_step(sequences, prompts)
    waits = t.engine.prompts_first > 0
    # a tenth of the requests belong to the first round: its middle is the 95th percentile, nine tenths of it the 99th
    late = np.where(waits, prefill_s * sequences, np.maximum(first * prefill_s, few_s))
    last = np.where(waits, prefill_s * sequences, np.maximum((0.9 * sequences + 0.1 * prompts) * prefill_s, late))
    return _FirstToken(np.where(waits, in_step, drifting), late, last, first)


def closed_loop(t: Table, batch: Batch, times: LoopTimes) -> RequestTimes:
    """A closed loop of B requests.

    While a request lives, every other is prefilled once, so it lasts B·prefill + o·step. Requests of one length start together
    (`_first_token`). Independent ones wait as in a queue that prefills keep busy for their share of the time. Lengths that hardly differ
    lie between both, by `uniform_loop`. High percentiles are those of an unlucky request: with many independent users the number in flight
    is Poisson, B + 1.645·sqrt(B) at the 95th, and the prefills and the reading of the caches grow with it. These figures screen candidates;
    `planner.engine.evaluate.request_rate` simulates those that are shown. A request of one token ends with its first, and nothing decodes.
    """
    only = t.job.output_tokens <= 1
    sequences, prefill_s, step_s = batch.sequences, times.prefill_s, np.where(only, 0.0, times.step_s)
    output = np.maximum(t.job.output_tokens, 1.0)
    cycle = sequences * prefill_s + output * step_s
    queued = prefill_s * prompts_queued(sequences, prefill_s, output * step_s)
    first = _first_token(t, batch, times)
    uniform = t.job.uniform_loop
    in_step = uniform * (t.engine.prompts_first > 0)
    decoding = np.maximum(output - 1, 0.0) * step_s
    ttft = blended(uniform, first.mean_s, queued) + 0.5 * step_s
    ttft = blended(in_step, ttft, np.minimum(ttft, cycle - decoding))
    # in step, a sequence waits for the prompts after its own and then decodes undisturbed
    cycle = blended(in_step * ~only, ttft + (sequences - first.prompts) * prefill_s + decoding, cycle)
    ttft = np.where(only, cycle, ttft)
    tpot = (cycle - ttft) / np.maximum(output - 1, 1.0)
    growing = prefill_s + output * times.attention_s / sequences
    request_p95, request_p99 = (cycle + tail * np.sqrt(sequences) * growing for tail in NORMAL_TAILS)
    tails = [prefill_s + np.minimum(sequences * prefill_s, factor * (queued - prefill_s)) for factor in (3.0, 4.6)]
    ttft_p95, ttft_p99 = (
        np.maximum(ttft, step_s + blended(uniform, percentile, tail))
        for percentile, tail in zip((first.p95_s, first.p99_s), tails, strict=True)
    )
    ttft_p95, ttft_p99 = np.where(only, request_p95, ttft_p95), np.where(only, request_p99, ttft_p99)
    steps = np.maximum(output - 1, 1.0)
    tpot_p95 = np.maximum(tpot, (request_p95 - ttft_p95) / steps)
    tpot_p99 = np.maximum(tpot, np.maximum(request_p95 - ttft_p95, request_p99 - ttft_p99) / steps)
    return RequestTimes(
        ttft=Latency(ttft, ttft, ttft_p95, ttft_p99),
        tpot=Latency(tpot, tpot, tpot_p95, tpot_p99),
        request=Latency(cycle, cycle, request_p95, request_p99),
        requests_per_s=sequences / cycle,
    )
