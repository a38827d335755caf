"""Requests of a trace as runs of the simulation, one replica each, in chunks that any process may serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows
from planner.engine.performance.prefill_decode.speculative_decoding import rounds_of
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.continuous_batching import run_batches
from planner.engine.performance.simulation.iteration_time import IterationTime
from planner.engine.performance.simulation.load import Load, TokenLengths
from planner.engine.performance.simulation.replicas import steady_state
from planner.engine.performance.simulation.traffic import Traffic

FEWEST_RUNS, MOST_RUNS, REQUESTS_AT_ONCE = 64, 1024, 160_000
"""Limits of one chunk: enough requests to spread the cost of a step, few enough to have chunks to share."""
RATES = np.geomspace(1e-4, 1e5, 400)
"""Requests per second that are tried on one replica, each 5 % above the previous."""
FAR_S = 1e7
"""Seconds after the last request of a run at which the request comes that ends it."""


class Recorded(msgspec.Struct, frozen=True):
    """Requests in the order of arrival; shape [requests]."""

    arrival_s: Floats
    input_tokens: Floats
    output_tokens: Floats
    prefix_tokens: Floats


class Run(msgspec.Struct, frozen=True):
    """Requests served by one replica, by their numbers in the trace."""

    requests: Rows
    warm: int
    """Number of the first requests, which only fill the replica."""
    measured: int
    """Number of requests after these whose times are reported; those that follow only keep the replica busy."""


def stretch(recorded: Recorded, begin_s: float, end_s: float, replicas: int, lead_s: float) -> list[Run]:
    """A run for each of `replicas` that serve, in turn, the requests from `begin_s` to `end_s`.

    Requests in the `lead_s` before fill them, and requests for as long afterwards keep them busy.
    """
    times = np.array([begin_s - lead_s, begin_s, end_s, end_s + lead_s])
    lead, begin, end, behind = np.searchsorted(recorded.arrival_s, times).tolist()
    runs = []
    for rank in range(replicas):
        own = np.arange(lead + (rank - lead) % replicas, behind, replicas)
        warm, last = np.searchsorted(own, [begin, end]).tolist()
        if last > warm:
            runs.append(Run(own, warm, last - warm))
    return runs


class Chunk(msgspec.Struct, frozen=True):
    """Runs that are simulated together, with the replica that serves them."""

    time: IterationTime
    rules: BatchingRules
    traffic: Traffic
    warm: Rows
    measured: Rows


class Served(msgspec.Struct, frozen=True):
    """Times of the requests of a chunk in seconds; shape [runs, requests]."""

    admitted_s: Floats
    first_s: Floats
    end_s: Floats
    busy_s: Floats
    """Shape [runs], as below."""
    preemptions: Floats


MapChunks = Callable[[Callable[[Chunk], Served], Sequence[Chunk]], Iterable[Served]]
"""Function that yields the results of a function for several chunks in their order, as `map` does, in this process or in others."""


class Times(msgspec.Struct, frozen=True):
    """Times of the measured requests of many runs; shape [measured], in the order of the runs."""

    request: Rows
    run: Rows
    wait_s: Floats
    ttft_s: Floats
    tpot_s: Floats
    """NaN for outputs of one token."""
    request_s: Floats
    busy_s: Floats
    """Shape [runs], as below."""
    preemptions: Floats


class Replica(msgspec.Struct, frozen=True):
    """Speed of one replica and iterations of its engine, each a table of one row."""

    time: IterationTime
    rules: BatchingRules

    def serve(self, recorded: Recorded, runs: Sequence[Run], map_chunks: MapChunks = map) -> Times:
        """Serve every run; runs of about the same length are simulated together."""
        groups = _groups([run.requests.size for run in runs])
        chunks = [self._chunk(recorded, [runs[number] for number in group]) for group in groups]
        results = list(map_chunks(served, chunks))
        places = {number: (chunk, row) for chunk, group in enumerate(groups) for row, number in enumerate(group)}
        parts = [
            _times(self.time, chunks[chunk], results[chunk], row, runs[number], number)
            for number, (chunk, row) in sorted(places.items())
        ]
        request, run, wait_s, ttft_s, tpot_s, request_s = (np.concatenate(column) for column in zip(*parts, strict=True))
        own = [places[number] for number in range(len(runs))]
        busy_s = np.array([results[chunk].busy_s[row] for chunk, row in own])
        preemptions = np.array([results[chunk].preemptions[row] for chunk, row in own])
        return Times(request, run, wait_s, ttft_s, tpot_s, request_s, busy_s, preemptions)

    def capacity_per_s(self, recorded: Recorded) -> float:
        """Highest rate of requests with the mean lengths of `recorded` that it can keep up with, by Little's law."""
        inputs, outputs, prefix = (
            np.full(RATES.size, float(values.mean()))
            for values in (recorded.input_tokens, recorded.output_tokens, recorded.prefix_tokens)
        )
        same, nothing = np.zeros(RATES.size, dtype=np.int64), np.zeros(RATES.size)
        lengths = (TokenLengths(values, nothing) for values in (inputs, outputs))
        load = Load(RATES, nothing, next(lengths), next(lengths), prefix, nothing, nothing)
        _, keeps_up = steady_state(self.time.take(same), self.rules.take(same), load)
        return float(RATES[keeps_up].max(initial=RATES[0]))

    def longest(self) -> float:
        """Tokens of the longest request that fits in its cache."""
        return float(np.floor(self.rules.capacity[0]))

    def _chunk(self, recorded: Recorded, runs: Sequence[Run]) -> Chunk:
        count = np.array([run.requests.size for run in runs])
        width = int(count.max()) + 2  # one comes long after all others, one never

        def filled(values: Floats, otherwise: float) -> Floats:
            table = np.full((len(runs), width), otherwise)
            for row, run in enumerate(runs):
                table[row, : run.requests.size] = values[run.requests]
            return table

        arrival = filled(recorded.arrival_s, np.inf)
        rows, zeros = np.arange(len(runs)), np.zeros(len(runs), dtype=np.int64)
        arrival[rows, count] = [recorded.arrival_s[run.requests[-1]] + FAR_S for run in runs]
        rules = self.rules.take(zeros)
        traffic = Traffic(
            arrival_s=arrival,
            sent_s=arrival,
            input_tokens=filled(recorded.input_tokens, 1.0),
            prefix_tokens=filled(recorded.prefix_tokens, 0.0),
            output_tokens=filled(recorded.output_tokens, 1.0),
            in_flight=zeros,
            clients=zeros,
            requests=count + 1,
        ).fitted(rules.capacity)
        warm, measured = (np.array(column) for column in zip(*((run.warm, run.measured) for run in runs), strict=True))
        return Chunk(self.time, self.rules, traffic, warm, measured)


def _groups(sizes: Sequence[int]) -> list[list[int]]:
    """Numbers of runs of about the same `sizes` that are simulated together, the longest first."""
    groups, most = list[list[int]](), 0
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        if not groups or len(groups[-1]) >= most:
            groups.append([])
            most = min(max(REQUESTS_AT_ONCE // sizes[number], FEWEST_RUNS), MOST_RUNS)
        groups[-1].append(number)
    return groups


def served(chunk: Chunk) -> Served:
    """Serve the runs of `chunk`."""
    same = np.zeros(chunk.warm.size, dtype=np.int64)
    time, traffic = chunk.time.take(same), chunk.traffic
    if time.draft is not None and not time.draft.proposed.any():
        time = replace(time, draft=None)
    if time.draft is not None:
        traffic = replace(traffic, rounds=rounds_of(traffic.decoded_tokens, same, time.draft))
    trace = run_batches(time, chunk.rules.take(same), traffic, warm=chunk.warm, measured=chunk.measured)
    return Served(trace.admitted_s, trace.first_s, trace.end_s, trace.busy_s, trace.preemptions)


def _times(time: IterationTime, chunk: Chunk, result: Served, row: int, run: Run, number: int) -> tuple[Any, ...]:
    """Measured requests of one run, as the first six columns of `Times`."""
    inside = slice(int(chunk.warm[row]), int(chunk.warm[row] + chunk.measured[row]))
    sent, outputs = chunk.traffic.sent_s[row, inside], chunk.traffic.output_tokens[row, inside]
    admitted, first, end = result.admitted_s[row, inside], result.first_s[row, inside], result.end_s[row, inside]
    tpot = np.where(outputs > 1, (end - first) / np.maximum(outputs - 1, 1.0), np.nan)
    late_s = float(time.front_end_s[0] + time.late_steps[0] * np.nan_to_num(tpot).mean())
    requests = run.requests[inside]
    return requests, np.full(requests.size, number), admitted - sent, first + late_s - sent, tpot, end + late_s - sent
