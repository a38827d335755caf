"""The state of many replicas at once: what is queued, admitted and running in each, and how long its next iteration takes.

Requests of all lanes stand in flat arrays, one lane's after the other's, in the order in which they are admitted; a place in
them says both the lane and the request. What is known of a lane is an array of shape [lanes].
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.performance.simulation.arrivals import Traffic
from planner.engine.performance.simulation.completions import endings_of
from planner.engine.performance.simulation.iteration_time import KNOTS, Pace, at_whole
from planner.engine.performance.simulation.trace import Rules

NEVER_S = 1e30
"""When a request arrives that is not on its way."""
SHORTEST_GAP_S = 1e-6
GAP_BINS, GAP_RATIO = 320, 1.025
"""Times between tokens are counted in bins 2.5 % wide, from the shortest step of the lane to 2,700 times that."""
KNOT_WIDTHS = np.diff(KNOTS, append=np.inf)
FULL_SHARE = 0.85
"""Lanes that are done are left out when no more than this share is still going."""


class Lanes:
    """Arrays of the lanes still going; `home` is a lane's number among all that there were."""

    def __init__(self, pace: Pace, rules: Rules, traffic: Traffic, warm: Rows, measured: Rows, *, count_gaps: bool) -> None:
        lanes, width = traffic.arrival_s.shape
        self.pace, self.rules, self.count_gaps = pace, rules, count_gaps
        self.width: int = width
        self.home = np.arange(lanes)
        self._requests(traffic)
        base = self.home * width
        self.beyond = base + traffic.requests
        """Place behind the last request that may come."""
        self.at, self.begun = base + traffic.in_flight, base + traffic.in_flight
        """Places of the next request to be admitted, and of the next prompt to be completed."""
        self.warm, self.last = base + warm, base + warm + measured
        self.left = measured.astype(np.float64)
        """Measured requests that have not ended."""
        self.clock, self.step, self.stall = (np.zeros(lanes) for _ in range(3))
        self.held, self.filled, self.pairs, self.wanted, self.wanted_pairs = (np.zeros(lanes) for _ in range(5))
        """Tokens of cache taken; prompt tokens and their pairs: computed, and of all that are admitted."""
        self.idle, self.area, self.cached = (np.zeros(lanes) for _ in range(3))
        self._closed_loop(traffic, base)
        self._begin(traffic, base)
        self.next_arrival, self.claimed = self.arrival[self.at], self.claims[self.at]
        self.open = np.zeros(lanes, dtype=bool)
        """There is room for the next request."""
        self._tables()
        self.shortest = np.maximum(self.decode_s[:, 1] + pace.host_s, SHORTEST_GAP_S)
        self.gaps = np.zeros((lanes, GAP_BINS if count_gaps else 0))
        self.lost = np.zeros(lanes)
        self.totals = np.zeros((3, lanes))
        """`idle`, `area` and `cached` of all lanes that there were, once they are written down."""
        self.displaced = False
        """Whether any request ever lost its place; until then a place and its request have the same number."""

    def _requests(self, traffic: Traffic) -> None:
        """What is known of requests, by place; `who` of a place is in `origin`. Side by side stands what is looked up together."""
        inputs, outputs, fresh, prefix = traffic.input_tokens, traffic.output_tokens, traffic.fresh_tokens, traffic.prefix_tokens
        claims = inputs + np.where(self.rules.reserve[:, None], outputs, 1.0)
        prompting = fresh * (np.arange(fresh.shape[1]) >= traffic.in_flight[:, None])
        work = fresh * (prefix + fresh / 2)
        before = np.zeros((2, *fresh.shape))
        np.cumsum(prompting[:, :-1], axis=1, out=before[0, :, 1:])
        np.cumsum(np.where(prompting > 0, work, 0.0)[:, :-1], axis=1, out=before[1, :, 1:])
        self.known = np.stack([np.minimum(traffic.arrival_s, NEVER_S), claims, *before], axis=-1).reshape(-1, 4)
        self.arrival, self.claims, self.wanted_to, self.pairs_to = self.known.T
        """When it arrives, the tokens of cache it takes when it is admitted, and prompt tokens, and pairs of them, of the requests that
        are admitted before it."""
        left = traffic.still_to_come
        steps = left if traffic.rounds is None else traffic.rounds
        self.told = np.stack([inputs, steps], axis=-1).reshape(-1, 2)
        self.inputs, self.steps = self.told.T
        """Input tokens, and iterations that it decodes in."""
        self.per_step = None if traffic.rounds is None else (left / np.maximum(steps, 1.0)).ravel()
        """Tokens of it that come out with an iteration, on average over all of its own; None: one."""
        self.sent, self.prefix = traffic.sent_s.ravel().copy(), prefix.ravel().copy()
        self.whole = (inputs + outputs).ravel()
        """Tokens of cache it holds as it ends."""
        self.longest = float(self.whole.max())
        self.origin = np.arange(self.whole.size)
        self.admitted, self.first, self.end = (np.full(self.whole.size, np.nan) for _ in range(3))
        self.integral = bool((fresh == np.floor(fresh)).all())

    def _closed_loop(self, traffic: Traffic, base: Rows) -> None:
        self.closed, self.turnaround = traffic.concurrency > 0, traffic.turnaround_s
        self.issued = np.where(self.closed, base + np.maximum(traffic.concurrency, traffic.in_flight), self.beyond)
        self.ready = (self.issued - base) * self.turnaround * self.closed

    def _begin(self, traffic: Traffic, base: Rows) -> None:
        """Sequences that run from the start; there are tables for up to `slots` in a lane."""
        width, in_flight = traffic.arrival_s.shape[1], traffic.in_flight
        begun = np.maximum(in_flight, traffic.concurrency)
        self.slots = int(np.minimum(1.3 * begun + 8, np.maximum(np.minimum(self.rules.sequences, width - 1), begun + 1)).max())
        self.endings = endings_of(self.steps.reshape(-1, width), in_flight, self.slots)
        self.next_end = self.endings.soonest()
        place = np.arange(int(in_flight.max()))
        here = place < in_flight[:, None]
        at = np.minimum(base[:, None] + place, self.whole.size - 1)
        self.context = np.where(here, self.inputs[at], 0.0).sum(axis=1)
        full = np.where(here, self.whole[at], 0.0).sum(axis=1)
        self.held = np.where(self.rules.reserve, full, self.context)
        self.running, self.inside = in_flight.astype(np.float64), in_flight.astype(np.float64)
        self.rate = np.zeros(base.size)
        """Tokens that all running sequences put out with an iteration, where that is not one each."""
        if self.per_step is not None:
            self.rate = np.where(here, self.per_step[at], 0.0).sum(axis=1)
        for array in (self.admitted, self.first):
            array[at[here]] = 0.0

    def _tables(self) -> None:
        """Times by whole numbers of sequences, and of heads, up to the number of slots."""
        pace, count = self.pace, np.arange(self.slots + 1, dtype=np.float64)
        self.drafting = pace.draft is not None
        self.checked, self.side_s = np.ones(pace.lanes), np.zeros((pace.lanes, 1))
        """Tokens of a running sequence in a pass; and seconds of its draft's passes, by the number of sequences."""
        heads = count
        if pace.draft is not None:
            self.checked = pace.draft.proposed + 1
            self.side_s = at_whole(pace.draft.side_s, count) * (count > 0)
            heads = np.arange(self.slots * self.checked.max() + 1)
        self.head_s = at_whole(pace.head_s, heads) * (heads > 0)
        self.decode_s = pace.sequence_s[:, None] * count
        if pace.draft is not None:
            self.decode_s += at_whole(pace.draft.round_s, count)
        else:
            self.decode_s = at_whole(pace.rows_s, count) + self.head_s + self.decode_s + pace.decode_latency_s[:, None]
        self.row_s = np.diff(pace.rows_s, axis=1, append=pace.rows_s[:, -1:]) / KNOT_WIDTHS
        self.level_s = pace.rows_s - self.row_s * KNOTS
        """Of one more row from each knot to the next, and of none by the same line."""
        self._alike()

    def _alike(self) -> None:
        """Where each lane's own begin in arrays of two dimensions laid flat; and what need not be looked at, as it is the same for all."""
        pace, rules = self.pace, self.rules
        every = np.arange(self.home.size)
        self.row_of, self.head_of, self.knot_of = every * (self.slots + 1), every * self.head_s.shape[1], every * KNOTS.size
        self.mixed, self.reserving = bool(rules.mixed.all()), bool(rules.reserve.any())
        self.by_table = self.integral and bool((pace.row_share == 1).all())
        """Rows of a pass are whole numbers."""
        self.least_capacity = float(rules.capacity.min())
        self.floored = bool(pace.floor_s.any())
        self.mixing = bool(pace.mixed_floor_s.any() or (pace.mixed_factor != 1).any())
        self.looping = bool(self.closed.any())

    def widen(self) -> None:
        """Room for half as many sequences again."""
        more = self.slots // 2 + 8
        self.endings.widen(more)
        self.slots += more
        self._tables()

    @property
    def growth(self) -> Floats:
        """Tokens by which all running sequences of each lane grow with an iteration."""
        return self.rate if self.drafting else self.running

    def going(self) -> Flags:
        """Lanes that have measured requests under way, or have not yet admitted the one after them."""
        going: Flags = (self.left > 0) | (self.at <= self.last)
        return going

    def roomy(self, most: float) -> bool:
        """Whether no cache can be full while `most` requests are admitted in each lane."""
        return (most + 1) * (self.longest + 1) <= self.least_capacity

    def row_end(self, place: int) -> int:
        """The place behind all of the lane that `place` is of."""
        return (place // self.width + 1) * self.width

    def who(self, place: Rows) -> Rows:
        """The requests at places."""
        return self.origin.take(place) if self.displaced else place

    def note(self, when: Floats, place: Rows, now: Floats) -> None:
        """`when` of the requests at `place` is `now`, if it has not been before."""
        if self.displaced:
            place = self.origin.take(place)
            before = when.take(place)
            now = np.where(np.isnan(before), now, before)
        when[place] = now

    def write_down(self) -> None:
        """Bring `totals` up to date."""
        self.totals[:, self.home] = self.idle, self.area, self.cached

    def compact(self) -> None:
        """Leave out the lanes that are done, where they are many."""
        keep = self.going()
        if not 0 < np.count_nonzero(keep) <= FULL_SHARE * keep.size:
            return
        self.write_down()
        for name in PER_LANE:
            setattr(self, name, getattr(self, name)[keep])
        self.endings.keep(keep)
        self.pace = self.pace.take(np.flatnonzero(keep))
        self.rules = self.rules.take(keep)
        self._alike()


PER_LANE = (
    *("home", "beyond", "at", "begun", "warm", "last", "left", "clock", "step", "stall", "held", "filled", "pairs", "wanted"),
    *("wanted_pairs", "idle", "area", "cached", "closed", "turnaround", "issued", "ready", "next_end"),
    *(
        "context",
        "running",
        "inside",
        "next_arrival",
        "claimed",
        "open",
        "head_s",
        "decode_s",
        "row_s",
        "level_s",
        "rate",
        "checked",
        "side_s",
    ),
)
"""Arrays of `Lanes` that shrink with it."""
