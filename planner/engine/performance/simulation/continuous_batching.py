"""The loop of an engine that batches continuously, over many runs at once.

Each step of the loop takes every run to its next event: one iteration that computes prompt tokens (together with the running sequences, or
before them), and as many decoding iterations as pass until a sequence ends, a request can be admitted, or the cache is
full. Requests are served in the order of arrival. When the cache runs out, the last admitted request is preempted: it is computed
again later, with its output so far as input.
"""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.completions import repeated
from planner.engine.performance.simulation.iteration_time import IterationTime
from planner.engine.performance.simulation.preemption import preempt, short_of_cache
from planner.engine.performance.simulation.replica_state import NEVER_S, ReplicaState
from planner.engine.performance.simulation.traffic import Traffic

LOOK_EVERY, LEAVE_OUT_EVERY = 8, 32
"""Steps after which the loop checks whether all runs are done, and after which it drops those that are."""


class Trace(msgspec.Struct, frozen=True):
    """Times of events in each run, up to its last measured request. Shape [runs, requests]; NaN: had not happened by then."""

    sent_s: Floats
    admitted_s: Floats
    first_s: Floats
    end_s: Floats
    output_tokens: Floats
    elapsed_s: Floats
    """Shape [runs], as all below: from the admission of the first measured request to that of the one after the last, or to the end of all."""
    busy_s: Floats
    """The part of it in which requests are in flight."""
    waiting: Floats
    """Requests that wait for admission at the end of that time."""
    preemptions: Floats


def run_batches(time: IterationTime, rules: BatchingRules, traffic: Traffic, *, warm: Rows, measured: Rows) -> Trace:
    """Serve `traffic` until requests number `warm` to `warm + measured` [runs] of every run have ended.

    Raises ValueError for a request that is longer than the cache, and where no request follows the measured ones.
    """
    if (traffic.input_tokens + traffic.output_tokens > np.floor(rules.capacity)[:, None]).any():
        raise ValueError("a request is longer than the cache")
    if (warm + measured > traffic.arrival_s.shape[1] - 2).any():
        raise ValueError("no request comes after the measured ones")
    s = ReplicaState(time, rules, traffic, warm, measured)
    steps = 0
    while steps % LOOK_EVERY or s.goes_on().any():
        never_full = _admit(s)
        preempted = not never_full and preempt(s)
        _iterate(s, never_full=never_full, preempted=preempted)
        steps += 1
        if steps % LEAVE_OUT_EVERY == 0:
            s.leave_out_done()
    return _trace(s, traffic, warm, measured)


def _trace(s: ReplicaState, traffic: Traffic, warm: Rows, measured: Rows) -> Trace:
    runs, width = traffic.arrival_s.shape
    sent, admitted, first, end, arrival = (
        flat.reshape(runs, width)[:, :-1]
        for flat in (s.requests.sent_s, s.requests.admitted_s, s.requests.first_s, s.requests.end_s, s.requests.arrival_s)
    )
    run, behind = np.arange(runs), warm + measured
    begins, ends = admitted[run, warm], np.where(traffic.requests > behind, admitted[run, behind], np.nanmax(end, axis=1))
    after = np.arange(width - 1) >= behind[:, None]
    return Trace(
        sent_s=sent,
        admitted_s=admitted,
        first_s=first,
        end_s=end,
        output_tokens=traffic.output_tokens[:, :-1],
        elapsed_s=ends - begins,
        busy_s=ends - begins - s.idle_s,
        waiting=((arrival <= ends[:, None]) & after).sum(axis=1) - 1.0,
        preemptions=s.preemptions,
    )


def _admit(s: ReplicaState) -> bool:
    """Admit arrived requests, in order, while there is room; returns whether every cache can then hold all in flight to the end."""
    requests, admitted, never_full = s.requests, False, s.never_full()
    while True:
        s.has_room = s.room(never_full=never_full)
        admits = s.has_room & (s.next_arrival_s <= s.clock_s)
        run = admits.nonzero()[0]
        if not run.size:
            break
        admitted = True
        requests.note(requests.admitted_s, s.next_admitted[run], s.clock_s[run])
        s.promised += requests.tokens[s.next_admitted] * admits
        s.held += s.next_claim * admits
        s.in_flight += admits
        s.next_admitted += admits
        s.next_arrival_s, s.next_claim = requests.arrival_s[s.next_admitted], requests.claims[s.next_admitted]
        never_full = never_full and s.never_full()
    if admitted:
        s.prompt_tokens, s.pairs = requests.prompt_tokens_before[s.next_admitted], requests.pairs_before[s.next_admitted]
        while np.count_nonzero(s.in_flight > s.slots):
            s.add_slots()
    return never_full


def _iterate(s: ReplicaState, *, never_full: bool, preempted: bool) -> None:
    """Take every run to its next event; `never_full`: no cache can be full; `preempted`: a request just was.

    Where no request can be admitted after the iteration with prompt tokens, no sequence has ended with it, and the cache has room for one
    more token of each, decoding continues at once.
    """
    pending = s.prompt_tokens - s.prompt_tokens_done
    prompting = pending > 0
    if np.count_nonzero(prompting):
        _compute_prompts(s, pending, prompting)
        decoding = (s.running > 0) & (s.next_end > s.iteration)
        if not never_full:
            room = s.room(never_full=False)
            # a preempted request waits for the next event
            s.has_room = np.where(prompting, room, s.has_room) if preempted else room
            decoding &= ~short_of_cache(s)
        decoding &= ~(s.has_room & (s.next_arrival_s <= s.clock_s))
        if s.prompt_tokens_done is not s.prompt_tokens:
            decoding &= s.prompt_tokens <= s.prompt_tokens_done
    else:
        decoding = s.running > 0
    if np.count_nonzero(decoding):
        _decode(s, decoding, never_full=never_full)
    _finish(s)
    _skip_idle_time(s)


def _compute_prompts(s: ReplicaState, pending: Floats, prompting: Flags) -> None:
    """One iteration of the runs that have prompt tokens to compute."""
    beside, context = (s.running, s.context) if s.all_mixed else (s.running * s.rules.mixed, s.context * s.rules.mixed)
    rows = s.tables.rows_of(beside)
    tokens, pairs, completed = _next_prompt_tokens(s, pending, rows)
    seconds = s.tables.prompting_s(tokens, pairs - s.pairs_done, completed, beside, rows, context)
    s.pairs_done = pairs
    s.clock_s += seconds * prompting
    s.iteration += prompting if s.all_mixed else prompting & s.rules.mixed
    beside = beside * prompting
    _grow(s, beside if s.requests.per_iteration is None else s.per_iteration * (beside > 0))
    _start_decoding(s, completed)


def _decode(s: ReplicaState, decoding: Flags, *, never_full: bool) -> None:
    """Iterations of the runs that only decode, up to the next change.

    The time of an iteration rises by the same amount from each to the next, as the cache grows.
    """
    device_s, floor_s = s.tables.decoding_s(s.running, s.context), s.tables.time.floor_s
    rising = s.tables.time.cached_s * s.growth
    slope, first_s = rising, device_s
    if s.tables.has_floor:  # while the host is slower, every iteration takes the same time
        slope, first_s = np.where(device_s < floor_s, 0.0, rising), np.maximum(device_s, floor_s)
    first_s = first_s + s.tables.time.host_s
    count = _iterations(s, decoding, first_s, slope, never_full=never_full)
    if s.tables.has_floor:
        level = np.ceil((floor_s - device_s) / np.maximum(rising, 1e-30))
        count = np.where((device_s < floor_s) & (rising > 1e-30), np.minimum(count, np.maximum(level, 1.0)), count)
    count *= decoding
    if s.any_closed:
        s.step_s = np.where(decoding, first_s + slope * (count - 1.0), s.step_s)
    s.clock_s += count * first_s + slope * count * (count - 1.0) * 0.5
    s.iteration += count
    _grow(s, s.growth * count)


def _grow(s: ReplicaState, tokens: Floats) -> None:
    """Add the output `tokens` [runs] of the running sequences to the cache."""
    s.context += tokens
    s.held += tokens * ~s.rules.reserve if s.any_reserve else tokens


def _next_prompt_tokens(s: ReplicaState, pending: Floats, rows: Floats) -> tuple[Floats, Floats, Rows]:
    """The prompt tokens of an iteration with `rows` of running sequences; they count as computed afterwards.

    Returns these tokens, the pairs of all computed by its end, and the number of prompts it completes; shape [runs].
    """
    room = np.maximum(s.rules.budget - rows, 1.0)
    completed = s.next_admitted - s.next_prompt
    cut = (pending > room).nonzero()[0]
    if not cut.size:
        s.prompt_tokens_done = s.prompt_tokens
        return pending, s.pairs, completed
    pairs, done, pending = s.pairs.copy(), s.prompt_tokens.copy(), np.minimum(pending, room)
    target = s.prompt_tokens_done[cut] + pending[cut]
    done[cut] = target
    completed[cut] = _completed(s, cut, target)
    position = s.next_prompt[cut] + completed[cut]
    into = target - s.requests.prompt_tokens_before[position]
    pairs[cut] = s.requests.pairs_before[position] + into * (s.requests.prefix[position] + into / 2)
    s.prompt_tokens_done = done
    return pending, pairs, completed


def _completed(s: ReplicaState, run: Rows, target: Floats) -> Rows:
    """Prompts of `run` that become complete when `target` prompt tokens are computed."""
    first, most = s.next_prompt[run] + 1, s.next_admitted[run]
    behind = first
    while np.count_nonzero(complete := (behind <= most) & (s.requests.prompt_tokens_before[behind] <= target)):
        behind = behind + complete
    return behind - first


def _iterations(s: ReplicaState, decoding: Flags, first_s: Floats, slope: Floats, *, never_full: bool) -> Floats:
    """Iterations of decoding runs until a sequence ends, the cache is full or a request can be admitted; any number for other runs.

    n iterations take n·(first - slope/2) + n²·slope/2 seconds; the smallest n that reaches the next arrival solves a quadratic.
    """
    count = s.next_end - s.iteration
    if not never_full:
        room = np.floor((s.rules.capacity - s.held) / np.maximum(s.growth, 1.0))
        count = np.minimum(count, np.maximum(np.where(s.rules.reserve, np.inf, room) if s.any_reserve else room, 1.0))
    twice = np.where(decoding & s.has_room, (s.next_arrival_s - s.clock_s) * 2.0, NEVER_S)
    steady = first_s - slope * 0.5
    until_arrival = np.ceil(twice / np.maximum(steady + np.sqrt(steady * steady + slope * twice), 1e-30))
    return np.minimum(count, np.maximum(until_arrival, 1.0))


def _start_decoding(s: ReplicaState, completed: Rows) -> None:
    """Complete a number of prompts of each run: they have their first token and decode from now on."""
    run = completed.nonzero()[0]
    if not run.size:
        return
    r, runs = s.requests, s.number.size
    count = completed[run]
    owner, position, begins = repeated(run, s.next_prompt[run], count)
    r.note(r.first_s, position, s.clock_s[owner])
    end = s.iteration[owner] + r.iterations[position]
    s.completions.start(run, count, position, end)
    soonest = end if begins is None else np.minimum.reduceat(end, begins)
    s.next_end[run] = np.minimum(s.next_end[run], soonest)
    s.context += np.bincount(owner, weights=r.inputs[position] + 1, minlength=runs)
    s.running += completed
    s.next_prompt += completed
    if r.per_iteration is not None:
        s.per_iteration = s.per_iteration + np.bincount(owner, weights=r.per_iteration[position], minlength=runs)


def _finish(s: ReplicaState) -> None:
    """Remove the sequences whose last token is out; in a closed loop their clients send the next requests."""
    run = (s.next_end <= s.iteration).nonzero()[0]
    if not run.size:
        return
    r, runs = s.requests, s.number.size
    owner, position, s.next_end[run] = s.completions.finish(run, s.iteration[run])
    request = r.at(position)
    r.end_s[request] = s.clock_s[owner]
    s.ended.append((owner, request))
    gone = np.bincount(owner, minlength=runs)
    tokens = np.bincount(owner, weights=r.tokens[position], minlength=runs)
    s.running -= gone
    s.in_flight -= gone
    s.context -= tokens
    s.held -= tokens
    s.promised -= tokens
    if r.per_iteration is not None:  # sums of fractions do not return to exactly 0
        some = s.running > 0
        s.per_iteration = (s.per_iteration - np.bincount(owner, weights=r.per_iteration[position], minlength=runs)) * some
        s.context *= some
        s.held *= s.in_flight > 0
    if s.any_closed:
        _send_next(s, run[s.closed[run]], gone)


def _send_next(s: ReplicaState, run: Rows, ended: Rows) -> None:
    """The clients of each closed loop `run` send a request for every one of `ended` [runs], as soon as they have its last token."""
    owner, position, _ = repeated(run, s.next_sent[run], ended[run])
    arrives = position < s.queue_end[owner]
    position, owner = position[arrives], owner[arrives]
    sent_s = (s.clock_s + s.front_end_s + s.late_steps * s.step_s)[owner]
    before = np.arange(owner.size) - np.searchsorted(owner, owner)  # requests of the same run that are read first
    last_s = s.requests.arrival_s[position - before - 1]
    s.requests.sent_s[position] = sent_s
    s.requests.arrival_s[position] = np.maximum(sent_s + before * s.intake_s[owner], last_s)
    s.next_sent[run] += ended[run]
    s.next_arrival_s[run] = s.requests.arrival_s[s.next_admitted[run]]


def _skip_idle_time(s: ReplicaState) -> None:
    """Runs without a request in flight continue when the next one arrives."""
    run = (s.in_flight == 0).nonzero()[0]
    if run.size:
        run = run[s.goes_on()[run] & (s.next_arrival_s[run] < NEVER_S)]
        now, following = s.clock_s[run], s.next_admitted[run]
        until = np.maximum(now, s.next_arrival_s[run])
        measured = (following > s.measured_from[run]) & (following <= s.measured_to[run])
        s.idle_s[s.number[run]] += np.where(measured, until - now, 0.0)
        s.clock_s[run] = until
