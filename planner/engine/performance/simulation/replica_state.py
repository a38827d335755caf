"""The state of many simulated runs: the requests that wait, are in flight and decode in each of them.

A run is one replica under one load with one seed; attributes of a run have shape [runs]. Requests of all runs are in flat arrays,
one run's queue after the other's, in the order of admission. A position in them determines both the run and the place in its queue.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Floats, RowRecord, Rows
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.completions import completions_of
from planner.engine.performance.simulation.iteration_tables import tables_of
from planner.engine.performance.simulation.iteration_time import IterationTime
from planner.engine.performance.simulation.traffic import Traffic

NEVER_S = 1e30
"""Arrival of a request that is not on its way."""
FULL_SHARE = 0.85
"""Runs that are done are dropped when at most this share is still active."""


class Requests:
    """Attributes by position, shape [runs·(requests + 1)]; times in seconds by request. They differ once a request was preempted."""

    def __init__(self, traffic: Traffic, rules: BatchingRules) -> None:
        inputs, outputs, fresh, prefix = traffic.input_tokens, traffic.output_tokens, traffic.fresh_tokens, traffic.prefix_tokens
        prompting = fresh * (np.arange(fresh.shape[1]) >= traffic.in_flight[:, None])
        pairs = fresh * (prefix + fresh / 2)
        self.arrival_s = np.minimum(traffic.arrival_s, NEVER_S).ravel()
        self.claims = (inputs + np.where(rules.reserve[:, None], outputs, 1.0)).ravel()
        """Tokens of cache it takes as it is admitted."""
        self.prompt_tokens_before, self.pairs_before = (
            _before(column) for column in (prompting, np.where(prompting > 0, pairs, 0.0))
        )
        """Prompt tokens, and their pairs, of all before it in its queue."""
        decoded = traffic.decoded_tokens
        iterations = decoded if traffic.rounds is None else traffic.rounds
        self.inputs, self.iterations = inputs.ravel(), iterations.ravel()
        """Input tokens, and the iterations it decodes in."""
        self.per_iteration = None if traffic.rounds is None else (decoded / np.maximum(iterations, 1.0)).ravel()
        """Mean number of its tokens that come out with an iteration; None: one."""
        self.prefix = prefix.ravel()
        self.tokens = (inputs + outputs).ravel()
        """Tokens of cache it holds as it ends."""
        self.sent_s = traffic.sent_s.ravel().copy() if traffic.clients.any() else traffic.sent_s.ravel()
        self.admitted_s, self.first_s, self.end_s = (np.full(self.tokens.size, np.nan) for _ in range(3))
        self.preempted = False
        """True if any request was."""
        self.at_position = np.arange(self.tokens.size)
        """The request at each position; see `preemption`."""

    def copy_lengths(self) -> None:
        """Copy the lengths of requests before the first preemption, which changes them; until then they are those of the traffic."""
        if not self.preempted:
            self.preempted = True
            self.inputs, self.iterations, self.prefix = self.inputs.copy(), self.iterations.copy(), self.prefix.copy()

    def at(self, position: Rows) -> Rows:
        """The requests at positions."""
        return self.at_position[position] if self.preempted else position

    def note(self, times: Floats, position: Rows, now: Floats) -> None:
        """Set the times of the requests at `position`, for each request only once."""
        if self.preempted:
            position = self.at_position[position]
            now = np.fmin(times[position], now)  # times that are known are earlier
        times[position] = now


def _before(amounts: Floats) -> Floats:
    """The sum of all `amounts` [runs, requests + 1] before each in its run, flat."""
    sums = np.zeros(amounts.shape)
    np.cumsum(amounts[:, :-1], axis=1, out=sums[:, 1:])
    return sums.ravel()


class ReplicaState:
    """The active runs. Tokens may be fractions where drafts yield several at a time."""

    def __init__(self, time: IterationTime, rules: BatchingRules, traffic: Traffic, warm: Rows, measured: Rows) -> None:
        runs, self.width = traffic.arrival_s.shape
        self.rules, self.requests = rules, Requests(traffic, rules)
        self.number = np.arange(runs)
        """Each run's number among all that there were."""
        self.idle_s, self.preemptions = np.zeros(runs), np.zeros(runs)
        """Totals over all runs: measured time without a request in flight, and requests preempted."""
        first = self.number * self.width
        self.queue_end = first + traffic.requests
        """Position behind the last request that ever arrives."""
        self.next_admitted, self.next_prompt = first + traffic.in_flight, first + traffic.in_flight
        """Positions of the next request to be admitted, and of the next prompt to be completed."""
        self.measured_from, self.measured_to = first + warm, first + warm + measured
        self.unfinished = measured.astype(np.float64)
        """Measured requests that have not ended, without those of `ended`."""
        self.ended: list[tuple[Rows, Rows]] = []
        """Requests that have ended since they were counted last, and the run of each."""
        self.clock_s, self.iteration = np.zeros(runs), np.zeros(runs)
        """`iteration` counts those in which running sequences decode."""
        self.prompt_tokens_done, self.pairs_done, self.prompt_tokens, self.pairs = (np.zeros(runs) for _ in range(4))
        """Prompt tokens and the pairs they attend to: computed, and of all that were admitted."""
        self.closed = traffic.clients > 0
        self.front_end_s, self.intake_s, self.late_steps = time.front_end_s, time.intake_s, time.late_steps
        """Time that a client's next request takes to the engine after its last token, and that each of several sent at once takes to be
        read; iterations after which a token is handed over."""
        self.step_s = np.zeros(runs)
        """Time of the last iteration of decoding alone."""
        self.next_sent = np.where(self.closed, first + np.maximum(traffic.clients, traffic.in_flight), self.queue_end)
        """Position of the next request that a client sends."""
        tokens = traffic.input_tokens + traffic.output_tokens
        self.unlimited: Flags = rules.sequences >= self.width
        """True if as many requests as there are may be in flight at once."""
        self.ample: Flags = tokens.sum(axis=1) + tokens.max(axis=1) < rules.capacity
        """True if the cache holds all of them at once."""
        self._start(traffic, first)
        self.next_arrival_s = self.requests.arrival_s[self.next_admitted]
        self.next_claim = self.requests.claims[self.next_admitted]
        self.has_room = np.zeros(runs, dtype=bool)
        """True if the next request could be admitted."""
        self.tables = tables_of(time, self.slots)
        self._summarise_rules()

    def _start(self, traffic: Traffic, first: Rows) -> None:
        """Set up the sequences that are decoding from the start; there are tables for up to `slots` in a run."""
        r, in_flight = self.requests, traffic.in_flight
        begun = np.maximum(in_flight, traffic.clients)
        self.slots = int(np.minimum(1.3 * begun + 8, np.maximum(np.minimum(self.rules.sequences, self.width - 1), begun + 1)).max())
        self.completions = completions_of(r.iterations.reshape(-1, self.width), in_flight, self.slots)
        self.next_end = self.completions.next_end()
        """The `iteration` after which the next sequence ends."""
        place = np.arange(int(in_flight.max()))
        here = place < in_flight[:, None]
        position = np.minimum(first[:, None] + place, r.tokens.size - 1)
        self.context = np.where(here, r.inputs[position], 0.0).sum(axis=1)
        """Tokens of cache of the decoding sequences."""
        self.promised = np.where(here, r.tokens[position], 0.0).sum(axis=1)
        """Tokens of cache that all requests in flight take as they end."""
        self.held = np.where(self.rules.reserve, self.promised, self.context)
        """Tokens of cache taken by all requests in flight."""
        self.running, self.in_flight = in_flight.astype(np.float64), in_flight.astype(np.float64)
        """Requests that decode, and all that were admitted and have not ended."""
        self.per_iteration = np.zeros(first.size)
        """Mean number of tokens that all running sequences get with an iteration; used with drafts alone."""
        if r.per_iteration is not None:
            self.per_iteration = np.where(here, r.per_iteration[position], 0.0).sum(axis=1)
        for times in (r.admitted_s, r.first_s):
            times[position[here]] = 0.0

    def _summarise_rules(self) -> None:
        self.all_mixed, self.any_reserve = bool(self.rules.mixed.all()), bool(self.rules.reserve.any())
        self.any_closed, self.all_ample = bool(self.closed.any()), bool(self.ample.all())
        self.all_unlimited = bool(self.unlimited.all())

    def add_slots(self) -> None:
        """Make room for half as many sequences again."""
        more = self.slots // 2 + 8
        self.completions.add_slots(more)
        self.slots += more
        self.tables = tables_of(self.tables.time, self.slots)

    @property
    def growth(self) -> Floats:
        """Tokens that the running sequences of each run get in an iteration."""
        return self.running if self.requests.per_iteration is None else self.per_iteration

    def goes_on(self) -> Flags:
        """True if measured requests have not ended, or the one after them, where any comes, is not admitted."""
        if self.ended:
            owner, request = (np.concatenate(numbers) for numbers in zip(*self.ended, strict=True))
            counted = (request >= self.measured_from[owner]) & (request < self.measured_to[owner])
            self.unfinished -= np.bincount(owner, weights=counted, minlength=self.number.size)
            self.ended.clear()
        return (self.unfinished > 0) | (self.next_admitted <= self.measured_to) & (self.measured_to < self.queue_end)

    def room(self, *, never_full: bool) -> Flags:
        """True if the next request of each run could be admitted; `never_full`: the cache always has room."""
        if never_full:
            return self.unlimited if self.all_unlimited else self.in_flight < self.rules.sequences
        return (self.in_flight < self.rules.sequences) & (self.held + self.next_claim <= self.rules.capacity)

    def never_full(self) -> bool:
        """True if every cache holds all that is in flight to the end, and the next request as well."""
        return self.all_ample or bool(np.count_nonzero(self.promised + self.next_claim >= self.rules.capacity) == 0)

    def leave_out_done(self) -> None:
        """Drop the runs that are done from the arrays, if there are many."""
        keep = self.goes_on()
        if not 0 < np.count_nonzero(keep) <= FULL_SHARE * keep.size:
            return
        for name, value in vars(self).items():
            if name in {"idle_s", "preemptions"}:
                continue
            if isinstance(value, np.ndarray):
                setattr(self, name, value[keep])
            elif isinstance(value, RowRecord):
                setattr(self, name, value.take(keep))
        self.completions.keep(keep)
        self._summarise_rules()
