"""The loop of an engine that batches continuously, over many lanes at once.

A lane is one replica under one load. Each step of the loop takes every lane to its next event: one iteration that computes
prompt tokens (with the running sequences beside them, or before them), or as many decoding iterations as pass until a
sequence ends, a request can be admitted, or the cache is full. Requests are served in the order they arrive. When the cache
runs out the last admitted one loses its place and is computed again later, its output so far taken as input.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.speed.simulation.pace import Pace, between
from planner.engine.speed.simulation.trace import Rules, Trace
from planner.engine.speed.simulation.traffic import Traffic

LOOK_EVERY, COMPACT_EVERY = 8, 64
"""Steps after which it is seen whether all lanes are done, and after which those that are are left out of the arrays."""
SHORTEST_GAP_S = 1e-6
GAP_BINS, GAP_RATIO = 320, 1.025
"""Times between tokens are counted in bins 2.5 % wide, from the shortest step of the lane to 2,700 times that."""


class _Lanes:
    """Arrays of the lanes still going; `home` is a lane's place in the arrays of requests, which stay whole and flat."""

    def __init__(self, pace: Pace, rules: Rules, traffic: Traffic, warm: Rows, measured: Rows, *, count_gaps: bool = True) -> None:
        lanes, width = traffic.arrival_s.shape
        self.width = width
        self.pace, self.rules = pace, rules
        self.arrival, self.sent = traffic.arrival_s.ravel().copy(), traffic.sent_s.ravel().copy()
        self.inputs, self.outputs = traffic.input_tokens.ravel().copy(), traffic.output_tokens.ravel().copy()
        self.fresh, self.prefix = traffic.fresh_tokens.ravel().copy(), traffic.prefix_tokens.ravel().copy()
        self.origin = np.arange(lanes * width)
        self.admitted, self.first, self.end = (np.full(lanes * width, np.nan) for _ in range(3))
        self.wanted_to = np.full(lanes * width + 1, np.inf)
        self.pairs_to = np.zeros(lanes * width + 1)
        begun = np.maximum(traffic.in_flight, traffic.concurrency)
        self.slots = int(np.minimum(1.3 * begun + 8, np.maximum(np.minimum(rules.sequences, width - 1), begun + 1)).max())
        whole = np.zeros(lanes)
        self.home = np.arange(lanes)
        self.base = self.home * width
        self.clock, self.step = whole.copy(), whole.copy()
        self.running, self.inside, self.context = whole.copy(), whole.copy(), whole.copy()
        self.held, self.filled, self.pairs, self.wanted = whole.copy(), whole.copy(), whole.copy(), whole.copy()
        self.stall, self.ready = whole.copy(), whole.copy()
        self.head, self.begun = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
        self.issued = np.where(traffic.concurrency > 0, np.maximum(traffic.concurrency, traffic.in_flight), width)
        self.turnaround = traffic.turnaround_s
        self.closed = traffic.concurrency > 0
        self.ready = self.issued * self.turnaround * self.closed
        self.warm, self.last = warm, warm + measured
        self.left = measured.astype(np.int64).copy()
        self.busy, self.area, self.cached = (np.zeros(lanes) for _ in range(3))
        self.lost = np.zeros(lanes)
        self.ends = np.full((lanes, self.slots), np.inf)
        self.owner = np.zeros((lanes, self.slots), dtype=np.int64)
        self.next_end = np.full(lanes, np.inf)
        self.count_gaps = count_gaps
        self.gaps = np.zeros((lanes, GAP_BINS))
        self._tables()
        self.shortest = np.maximum(self.decode_s[:, 1] + pace.host_s, SHORTEST_GAP_S)
        self._begin(traffic.in_flight)
        self.wanted_to[self.base + self.head] = 0.0

    def _tables(self) -> None:
        """Times by whole numbers of sequences, and of heads."""
        lanes = self.home.size
        count = np.arange(self.slots + 1, dtype=np.float64)
        lane = np.repeat(np.arange(lanes), count.size)
        at = np.tile(count, lanes)
        shape = (lanes, count.size)
        pace = self.pace
        self.head_s = (between(pace.head_s, at, lane) * (at > 0)).reshape(shape)
        rows_s = between(pace.rows_s, at, lane).reshape(shape)
        self.decode_s = rows_s + self.head_s + pace.sequence_s[:, None] * count + pace.decode_latency_s[:, None]

    def _widen(self) -> None:
        """Room for half as many sequences again."""
        more = self.slots // 2 + 8
        self.ends = np.pad(self.ends, ((0, 0), (0, more)), constant_values=np.inf)
        self.owner = np.pad(self.owner, ((0, 0), (0, more)))
        self.slots += more
        self._tables()

    def _begin(self, in_flight: Rows) -> None:
        """Sequences that run from the start."""
        place = np.arange(self.slots)
        here = place < in_flight[:, None]
        at = np.minimum(self.base[:, None] + place, self.inputs.size - 1)
        self.ends = np.where(here, self.outputs[at], np.inf)
        self.owner = np.where(here, at, 0)
        self.next_end = self.ends.min(axis=1)
        self.context = np.where(here, self.inputs[at], 0.0).sum(axis=1)
        full = np.where(here, self.inputs[at] + self.outputs[at], 0.0).sum(axis=1)
        self.held = np.where(self.rules.reserve, full, self.context)
        self.running, self.inside = in_flight.astype(np.float64), in_flight.astype(np.float64)
        self.head, self.begun = in_flight.copy(), in_flight.copy()
        for array in (self.admitted, self.first):
            array[at[here]] = 0.0

    def going(self) -> Flags:
        """Lanes that have measured requests under way, or have not yet admitted the one after them."""
        return (self.left > 0) | (self.head <= self.last)

    def claim(self, at: Rows, reserve: Flags) -> Floats:
        """Tokens of cache a request takes when it is admitted."""
        claimed: Floats = self.inputs[at] + np.where(reserve, self.outputs[at], 1.0)
        return claimed

    def admit(self) -> None:
        """Take in what has arrived, in order, while there is room; `at` and `claimed` are then the next of each lane."""
        self.at = self.base + self.head
        self.claimed = self.claim(self.at, self.rules.reserve)
        room = (self.inside < self.rules.sequences) & (self.held + self.claimed <= self.rules.capacity)
        lane = np.flatnonzero((self.arrival[self.at] <= self.clock) & room)
        while lane.size:
            r, claim = self.at[lane], self.claimed[lane]
            fresh = self.fresh[r]
            held, inside = self.held[lane] + claim, self.inside[lane] + 1
            self.held[lane], self.inside[lane] = held, inside
            self.head[lane] += 1
            wanted = self.wanted[lane] + fresh
            self.wanted[lane] = wanted
            self.wanted_to[r + 1] = wanted
            self.pairs_to[r + 1] = self.pairs_to[r] + fresh * (self.prefix[r] + fresh / 2)
            who, now = self.origin[r], self.clock[lane]
            self.admitted[who] = np.where(np.isnan(self.admitted[who]), now, self.admitted[who])
            at = r + 1
            claim = self.claim(at, self.rules.reserve[lane])
            self.at[lane], self.claimed[lane] = at, claim
            more = (inside < self.rules.sequences[lane]) & (held + claim <= self.rules.capacity[lane])
            lane = lane[(self.arrival[at] <= now) & more]

    def preempt(self) -> None:
        """Turn out the last admitted until one more token of every running sequence fits."""
        while (self.held + self.running > self.rules.capacity).any():
            short = ~self.rules.reserve & (self.running > 1) & (self.held + self.running > self.rules.capacity)
            lane = np.flatnonzero(short)
            if not lane.size:
                return
            r = self.base[lane] + self.head[lane] - 1
            going = self.begun[lane] == self.head[lane]  # the last admitted one is decoding, else still a prompt
            if going.any():
                self._interrupt(lane[going], r[going])
            self.held[lane] -= self.inputs[r] + 1
            self.inside[lane] -= 1
            self.head[lane] -= 1
            self.wanted_to[r + 1] = np.inf
            before = np.where(going, self.wanted[lane], self.wanted_to[r])
            self.wanted[lane] = before
            self.wanted_to[r] = before
            self.filled[lane] = np.minimum(self.filled[lane], before)
            self.pairs[lane] = np.where(going, self.pairs[lane], np.minimum(self.pairs[lane], self.pairs_to[r]))
            self.pairs_to[r] = np.where(going, self.pairs[lane], self.pairs_to[r])
            self.lost[self.home[lane]] += 1

    def _interrupt(self, lane: Rows, r: Rows) -> None:
        """The last running sequence becomes a prompt at place `r`: its output so far has to be computed with its input.

        Those admitted after it have ended, so it takes the last of their places; `origin` remembers which request it is.
        """
        alive = np.where(np.isfinite(self.ends[lane]), self.owner[lane], -1)
        slot = np.argmax(alive, axis=1)
        old = alive[np.arange(lane.size), slot]
        remaining = self.ends[lane, slot] - self.step[lane]
        self.inputs[r], self.outputs[r] = self.inputs[old] + self.outputs[old] - remaining, remaining
        self.prefix[r], self.origin[r] = self.prefix[old], self.origin[old]
        self.fresh[r] = self.inputs[r] - self.prefix[r]
        self.context[lane] -= self.inputs[r]
        self.held[lane] += 1  # its claim counts one token more than it held
        self.running[lane] -= 1
        self.begun[lane] -= 1
        self.ends[lane, slot] = np.inf
        self.next_end[lane] = self.ends[lane].min(axis=1)

    def iterate(self) -> None:
        """Every lane to its next event."""
        while self.inside.max() > self.slots:
            self._widen()
        pace, rules = self.pace, self.rules
        pending = self.wanted - self.filled
        prompting = pending > 0
        beside = np.where(rules.mixed | ~prompting, self.running, 0.0)
        tokens = np.minimum(pending, np.maximum(rules.budget - beside, 1.0)) if prompting.any() else pending
        ended = self._ended(tokens, prompting)
        every = np.arange(self.home.size)
        device_s = self.decode_s[every, self.running.astype(np.int64)]
        if prompting.any():
            device_s = np.where(prompting, self._prompt_s(tokens, beside, ended), device_s)
        device_s = device_s + pace.cached_s * self.context * (beside > 0)
        slope = np.where(prompting, 0.0, pace.cached_s * self.running)
        floored = device_s < pace.floor_s
        first_s = np.maximum(device_s, pace.floor_s) + pace.host_s
        count = self._iterations(prompting, first_s, np.where(floored, 0.0, slope), device_s, slope)
        slope = np.where(floored, 0.0, slope)
        taken = count * first_s + slope * count * (count - 1) / 2
        self._account(prompting, beside, count, first_s, taken)
        idle = count == 0
        self.clock = np.where(idle, np.maximum(self.clock, np.where(self.going(), self.arrival[self.at], 0.0)), self.clock + taken)
        self.step += np.where(prompting, rules.mixed, count)
        grown = beside * count
        self.context += grown
        self.held += np.where(rules.reserve, 0.0, grown)
        self.filled += np.where(prompting, tokens, 0.0)
        if ended.any():
            self._start(ended)
        self._finish()

    def _ended(self, tokens: Floats, prompting: Flags) -> Rows:
        """Prompts of each lane that are complete after `tokens` more."""
        ended = np.zeros(self.home.size, dtype=np.int64)
        lane = np.flatnonzero(prompting)
        target = self.filled[lane] + tokens[lane]
        place = self.base[lane] + self.begun[lane] + 1
        most = self.base[lane] + self.head[lane]
        while lane.size:
            complete = (self.wanted_to[place] <= target) & (place <= most)
            lane, target, place, most = lane[complete], target[complete], place[complete] + 1, most[complete]
            ended[lane] += 1
        return ended

    def _prompt_s(self, tokens: Floats, beside: Floats, ended: Rows) -> Floats:
        """Of an iteration with prompt tokens, without the cached tokens its running sequences read."""
        pace = self.pace
        r = self.base + self.begun + ended
        into = self.filled + tokens - self.wanted_to[r]
        pairs = self.pairs_to[r] + np.where(into > 0, into * (self.prefix[np.minimum(r, self.prefix.size - 1)] + into / 2), 0.0)
        every = np.arange(self.home.size)
        heads = np.minimum(beside + ended, self.slots).astype(np.int64)
        seconds: Floats = (
            between(pace.rows_s, tokens * pace.row_share + beside, every)
            + self.head_s[every, heads]
            + pace.sequence_s * beside
            + pace.prompt_s * tokens
            + pace.pair_s * (pairs - self.pairs)
            + pace.prompt_latency_s
            + pace.decode_latency_s * (beside > 0)
        )
        self.pairs = np.where(tokens > 0, pairs, self.pairs)
        return seconds

    def _iterations(self, prompting: Flags, first_s: Floats, slope: Floats, device_s: Floats, rising: Floats) -> Floats:
        """Iterations until something changes; 0 when there is nothing to do."""
        decoding = ~prompting & (self.running > 0)
        count = np.where(decoding, self.next_end - self.step, 1.0)
        if self.pace.floor_s.any():  # as long as the host is slower, every iteration takes the same
            level = np.ceil((self.pace.floor_s - device_s) / np.maximum(rising, 1e-30))
            count = np.where(
                decoding & (device_s < self.pace.floor_s) & (rising > 1e-30), np.minimum(count, np.maximum(level, 1.0)), count
            )
        room = np.where(self.rules.reserve, np.inf, np.floor((self.rules.capacity - self.held) / np.maximum(self.running, 1.0)))
        count = np.where(decoding, np.minimum(count, np.maximum(room, 1.0)), count)
        until = self.arrival[self.at] - self.clock
        open_ = decoding & (self.inside < self.rules.sequences) & (self.held + self.claimed <= self.rules.capacity)
        until = np.where(open_ & (until > 0) & np.isfinite(until), until, 1e30)
        steady = first_s - slope / 2
        met = np.ceil(2 * until / np.maximum(steady + np.sqrt(steady**2 + 2 * slope * until), 1e-30))
        count = np.where(decoding, np.minimum(count, np.maximum(met, 1.0)), count)
        return np.where(prompting | decoding, count, 0.0)

    def _account(self, prompting: Flags, beside: Floats, count: Floats, first_s: Floats, taken: Floats) -> None:
        """Sums over the measured time, and the gaps between tokens."""
        measuring = (self.head > self.warm) & (self.head <= self.last)
        within = np.where(measuring, taken, 0.0)
        home = self.home
        self.busy[home] += within
        self.area[home] += within * self.inside
        self.cached[home] += within * np.where(self.rules.reserve, self.held, self.held + beside * (count - 1) / 2)
        if not self.count_gaps:
            return
        rest = np.maximum(count - 1, 0.0)
        weight = np.where(measuring & (count > 0), beside, 0.0)
        self._count_gap(first_s + self.stall, weight)
        self._count_gap((taken - first_s) / np.maximum(rest, 1.0), weight * rest)
        waits = prompting & ~self.rules.mixed & (self.running > 0)
        self.stall = np.where(waits, self.stall + taken, 0.0)

    def _count_gap(self, gap_s: Floats, weight: Floats) -> None:
        ratio = np.maximum(gap_s / self.shortest[self.home], 1.0)
        place = np.minimum(np.log(ratio) * (1 / np.log(GAP_RATIO)), GAP_BINS - 1.0).astype(np.int64)
        self.gaps[self.home, place] += weight

    def _start(self, ended: Rows) -> None:
        """Prompts that are complete have their first token and go on decoding."""
        lane = np.flatnonzero(ended)
        count = ended[lane]
        while lane.size:
            r = self.base[lane] + self.begun[lane]
            who = self.origin[r]
            self.first[who] = np.where(np.isnan(self.first[who]), self.clock[lane], self.first[who])
            slot = np.argmax(np.isinf(self.ends[lane]), axis=1)
            end = self.step[lane] + self.outputs[r] - 1
            self.ends[lane, slot], self.owner[lane, slot] = end, r
            self.next_end[lane] = np.minimum(self.next_end[lane], end)
            self.context[lane] += self.inputs[r] + 1
            self.running[lane] += 1
            self.begun[lane] += 1
            more = count > 1
            lane, count = lane[more], count[more] - 1

    def _finish(self) -> None:
        """Sequences whose last token is out leave, and in a closed loop the next request is on its way."""
        lane = np.flatnonzero(self.next_end <= self.step)
        if not lane.size:
            return
        ends = self.ends[lane]
        place, slot = np.nonzero(ends <= self.step[lane][:, None])
        owner = lane[place]
        r = self.owner[owner, slot]
        who = self.origin[r]
        number = who - self.base[owner]
        self.end[who] = self.clock[owner]
        counted = (number >= self.warm[owner]) & (number < self.last[owner])
        gone = np.bincount(place, minlength=lane.size)
        tokens = np.bincount(place, weights=self.inputs[r] + self.outputs[r], minlength=lane.size)
        self.left[lane] -= np.bincount(place, weights=counted, minlength=lane.size).astype(np.int64)
        self.running[lane] -= gone
        self.inside[lane] -= gone
        self.context[lane] -= tokens
        self.held[lane] -= tokens
        ends[place, slot] = np.inf
        self.ends[lane] = ends
        self.next_end[lane] = ends.min(axis=1)
        if self.closed.any():
            self._issue(lane, gone)

    def _issue(self, lane: Rows, gone: Rows) -> None:
        """The next request of every one that ended; each takes the front end's time, one after the other."""
        keep = self.closed[lane]
        lane, gone = lane[keep], gone[keep]
        rank = np.arange(gone.sum()) - np.repeat(np.cumsum(gone) - gone, gone)
        owner = np.repeat(lane, gone)
        number = self.issued[owner] + rank
        arrival = np.maximum(self.clock[owner], self.ready[owner]) + self.turnaround[owner] * (rank + 1)
        fits = number < self.width - 1
        r = self.base[owner[fits]] + number[fits]
        self.sent[r], self.arrival[r] = self.clock[owner[fits]], arrival[fits]
        self.ready[lane] = np.maximum(self.clock[lane], self.ready[lane]) + self.turnaround[lane] * gone
        self.issued[lane] += gone

    def compact(self) -> None:
        """Leave out the lanes that are done."""
        keep = self.going()
        if keep.mean() > 0.8:
            return
        whole = {"busy", "area", "cached", "lost", "gaps", "shortest"}
        lanes = self.home.size
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and name not in whole and value.shape[0] == lanes and value.size != self.sent.size:
                setattr(self, name, value[keep])
        self.pace = self.pace.take(np.flatnonzero(keep))
        self.rules = Rules(**{item.name: getattr(self.rules, item.name)[keep] for item in fields(Rules)})


def run(pace: Pace, rules: Rules, traffic: Traffic, *, warm: Rows, measured: Rows, count_gaps: bool = True) -> Trace:
    """Serve `traffic` until requests number `warm` to `warm + measured` of every lane have ended.

    Without `count_gaps` the times between single tokens stay uncounted, which takes a tenth less time. Raises ValueError for a
    request that is longer than the cache.
    """
    if (traffic.input_tokens + traffic.output_tokens > np.floor(rules.capacity)[:, None]).any():
        raise ValueError("a request is longer than the cache")
    s = _Lanes(pace, rules, traffic, warm, measured, count_gaps=count_gaps)
    lanes, width = traffic.arrival_s.shape
    steps = 0
    while steps % LOOK_EVERY or s.going().any():
        s.admit()
        s.preempt()
        s.iterate()
        steps += 1
        if steps % COMPACT_EVERY == 0:
            s.compact()

    def requests(flat: Floats) -> Floats:
        return flat.reshape(lanes, width)[:, :-1]

    admitted = s.admitted.reshape(lanes, width)
    every = np.arange(lanes)
    opened, closed = admitted[every, warm], admitted[every, warm + measured]
    elapsed = np.where(closed > opened, closed - opened, np.nan)
    after = np.arange(width) >= (warm + measured)[:, None]
    return Trace(
        sent_s=requests(s.sent),
        admitted_s=requests(s.admitted),
        first_s=requests(s.first),
        end_s=requests(s.end),
        output_tokens=traffic.output_tokens[:, :-1],
        elapsed_s=closed - opened,
        busy_s=s.busy,
        in_flight=s.area / elapsed,
        cached_tokens=s.cached / elapsed,
        waiting=((s.arrival.reshape(lanes, width) <= closed[:, None]) & after).sum(axis=1) - 1.0,
        preempted=s.lost,
        gaps=s.gaps,
        gap_s=s.shortest[:, None] * GAP_RATIO ** (np.arange(GAP_BINS) + 0.5),
    )
