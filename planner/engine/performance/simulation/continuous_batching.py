"""The loop of an engine that batches continuously, over many lanes at once.

A lane is one replica under one load. Each step of the loop takes every lane to its next event: one iteration that computes
prompt tokens (with the running sequences beside them, or before them), and as many decoding iterations as pass until a
sequence ends, a request can be admitted, or the cache is full. Requests are served in the order they arrive. When the cache
runs out the last admitted one loses its place and is computed again later, its output so far taken as input.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Flags, Floats, Rows
from planner.engine.performance.simulation.arrivals import Traffic
from planner.engine.performance.simulation.completions import each
from planner.engine.performance.simulation.iteration_time import BELOW, Pace, between
from planner.engine.performance.simulation.preemption import preempt
from planner.engine.performance.simulation.replica_state import GAP_BINS, GAP_RATIO, NEVER_S, Lanes
from planner.engine.performance.simulation.trace import Rules, Trace

LOOK_EVERY, COMPACT_EVERY = 8, 32
"""Steps after which it is seen whether all lanes are done, and after which those that are are left out of the arrays."""


def run(pace: Pace, rules: Rules, traffic: Traffic, *, warm: Rows, measured: Rows, count_gaps: bool = True) -> Trace:
    """Serve `traffic` until requests number `warm` to `warm + measured` of every lane have ended.

    Without `count_gaps` the times between single tokens stay uncounted, and so do requests in flight and cached tokens, which takes
    a fifth less time. Raises ValueError for a request that is longer than the cache, and where no request follows the measured ones.
    """
    if (traffic.input_tokens + traffic.output_tokens > np.floor(rules.capacity)[:, None]).any():
        raise ValueError("a request is longer than the cache")
    if (warm + measured > traffic.arrival_s.shape[1] - 2).any():
        raise ValueError("no request comes after the measured ones")
    s = Lanes(pace, rules, traffic, warm, measured, count_gaps=count_gaps)
    steps = 0
    while steps % LOOK_EVERY or s.going().any():
        most = _admit(s)
        while most > s.slots:
            s.widen()
        roomy = s.roomy(most)
        if not roomy:
            preempt(s)
        _iterate(s, roomy=roomy)
        steps += 1
        if steps % COMPACT_EVERY == 0:
            s.compact()
    s.write_down()
    return _trace(s, traffic, warm, measured)


def _trace(s: Lanes, traffic: Traffic, warm: Rows, measured: Rows) -> Trace:
    lanes, width = traffic.arrival_s.shape

    def requests(flat: Floats) -> Floats:
        return flat.reshape(lanes, width)[:, :-1]

    admitted = s.admitted.reshape(lanes, width)
    every = np.arange(lanes)
    opened, closed = admitted[every, warm], admitted[every, warm + measured]
    elapsed = np.where(closed > opened, closed - opened, np.nan)
    after = np.arange(width) >= (warm + measured)[:, None]
    idle, area, cached = s.totals if s.count_gaps else (s.totals[0], np.nan, np.nan)
    return Trace(
        sent_s=requests(s.sent),
        admitted_s=requests(s.admitted),
        first_s=requests(s.first),
        end_s=requests(s.end),
        output_tokens=traffic.output_tokens[:, :-1],
        elapsed_s=closed - opened,
        busy_s=closed - opened - idle,
        in_flight=area / elapsed,
        cached_tokens=cached / elapsed,
        waiting=((s.arrival.reshape(lanes, width) <= closed[:, None]) & after).sum(axis=1) - 1.0,
        preempted=s.lost,
        gaps=s.gaps,
        gap_s=s.shortest[:, None] * GAP_RATIO ** (np.arange(s.gaps.shape[1]) + 0.5),
    )


def _admit(s: Lanes) -> float:
    """Take in what has arrived, in order, while there is room; returns the most that any lane has admitted then."""
    rules = s.rules
    s.open = (s.inside < rules.sequences) & (s.held + s.claimed <= rules.capacity)
    lane = (s.open & (s.next_arrival <= s.clock)).nonzero()[0]
    while lane.size:
        r, now = s.at.take(lane), s.clock.take(lane)
        held, inside = s.held.take(lane) + s.claimed.take(lane), s.inside.take(lane) + 1
        s.held[lane], s.inside[lane] = held, inside
        s.note(s.admitted, r, now)
        at = r + 1
        arrival, claim, wanted, pairs = s.known.take(at, axis=0).T
        s.wanted[lane], s.wanted_pairs[lane] = wanted, pairs
        s.at[lane], s.next_arrival[lane], s.claimed[lane] = at, arrival, claim
        more = (inside < rules.sequences.take(lane)) & (held + claim <= rules.capacity.take(lane))
        s.open[lane] = more
        lane = lane[more & (arrival <= now)]
    return float(s.inside.max())


def _iterate(s: Lanes, *, roomy: bool) -> None:
    """Every lane to its next event; `roomy`: no cache can be full.

    Where nobody else can be admitted after the iteration with prompt tokens and nobody has ended with it, decoding goes on at once.
    """
    pending = s.wanted - s.filled
    prompting = pending > 0
    active = s.running > 0
    if prompting.any():
        _compute_prompts(s, pending, prompting)
        if roomy:
            calling = s.open & (s.next_arrival <= s.clock)
            active = (s.running > 0) & (s.next_end > s.step) & ~calling
            prompting = s.wanted > s.filled
    decoding = active > prompting
    if decoding.any():
        _decode(s, decoding, roomy=roomy)
    _finish(s)
    _wait(s)


def _compute_prompts(s: Lanes, pending: Floats, prompting: Flags) -> None:
    """One iteration of the lanes that have prompt tokens to compute."""
    pace = s.pace
    beside = s.running if s.mixed else np.where(s.rules.mixed, s.running, 0.0)
    rows = beside * s.checked if s.drafting else beside
    tokens, pairs, ended = _prompts(s, pending, rows)
    cached_s = pace.cached_s * s.context
    device_s = _prompt_s(s, tokens, pairs, beside, rows, ended) + (cached_s if s.mixed else cached_s * (beside > 0))
    if s.mixing:
        slower = 1 + (pace.mixed_factor - 1) * tokens / np.maximum(tokens + beside, 1.0)
        device_s = np.where(beside > 0, np.maximum(device_s * slower, pace.mixed_floor_s), device_s)
    first_s = (np.maximum(device_s, pace.floor_s) if s.floored else device_s) + pace.host_s
    taken = np.where(prompting, first_s, 0.0)
    beside = beside * prompting
    grown = s.rate * (beside > 0) if s.drafting else beside
    if s.count_gaps:
        measured = _account(s, taken, s.held)
        _count_gap(s, first_s + s.stall, np.where(measured, beside, 0.0))
        waits = prompting & ~s.rules.mixed & (s.running > 0)
        s.stall = np.where(waits, s.stall + taken, s.stall)
    s.pairs = pairs
    s.clock = s.clock + taken
    s.step = s.step + (prompting if s.mixed else prompting & s.rules.mixed)
    s.context = s.context + grown
    s.held = s.held + (np.where(s.rules.reserve, 0.0, grown) if s.reserving else grown)
    _start(s, ended)


def _decode(s: Lanes, decoding: Flags, *, roomy: bool) -> None:
    """As many iterations of the lanes that decode alone as pass until something changes."""
    pace = s.pace
    device_s = s.decode_s.ravel().take(s.row_of + s.running.astype(np.int64)) + pace.cached_s * s.context
    growth = s.growth
    rising = pace.cached_s * growth
    slope, first_s = rising, device_s
    if s.floored:  # as long as the host is slower, every iteration takes the same
        slope, first_s = np.where(device_s < pace.floor_s, 0.0, rising), np.maximum(device_s, pace.floor_s)
    first_s = first_s + pace.host_s
    count = _iterations(s, decoding, first_s, slope, roomy=roomy)
    if s.floored:
        level = np.ceil((pace.floor_s - device_s) / np.maximum(rising, 1e-30))
        count = np.where((device_s < pace.floor_s) & (rising > 1e-30), np.minimum(count, np.maximum(level, 1.0)), count)
    count = np.where(decoding, count, 0.0)
    taken = count * first_s + slope * count * (count - 1) / 2
    grown = growth * count
    if s.count_gaps:
        measured = _account(s, taken, s.held + np.where(s.rules.reserve, 0.0, (grown - growth) / 2))
        rest, weight = np.maximum(count - 1, 0.0), np.where(measured & decoding, s.running, 0.0)
        _count_gap(s, first_s + s.stall, weight)
        _count_gap(s, (taken - first_s) / np.maximum(rest, 1.0), weight * rest)
        s.stall = np.where(decoding, 0.0, s.stall)
    s.clock = s.clock + taken
    s.step = s.step + count
    s.context = s.context + grown
    s.held = s.held + (np.where(s.rules.reserve, 0.0, grown) if s.reserving else grown)


def _prompts(s: Lanes, pending: Floats, rows: Floats) -> tuple[Floats, Floats, Rows]:
    """Of an iteration in every lane beside so many `rows`: (prompt tokens, pairs of all computed by its end, prompts it completes).

    `filled` is then that of its end.
    """
    most = np.maximum(s.rules.budget - rows, 1.0)
    ended, pairs, filled = s.at - s.begun, s.wanted_pairs.copy(), s.wanted.copy()
    cut = (pending > most).nonzero()[0]
    if cut.size:
        pending = np.minimum(pending, most)
        target = s.filled[cut] + pending[cut]
        filled[cut] = target
        ended[cut] = _completed(s, cut, target)
        r = s.begun[cut] + ended[cut]
        into = target - s.wanted_to[r]
        pairs[cut] = s.pairs_to[r] + into * (s.prefix[r] + into / 2)
    s.filled = filled
    return pending, pairs, ended


def _completed(s: Lanes, lane: Rows, target: Floats) -> Rows:
    """Prompts of `lane` that are complete once `target` prompt tokens are computed, of those not complete yet."""
    found = np.zeros(lane.size, dtype=np.int64)
    own, place, most = np.arange(lane.size), s.begun[lane] + 1, s.at[lane]
    while own.size:
        complete = (place <= most) & (s.wanted_to[place] <= target[own])
        own, place, most = own[complete], place[complete] + 1, most[complete]
        found[own] += 1
    return found


def _prompt_s(s: Lanes, tokens: Floats, pairs: Floats, beside: Floats, rows: Floats, ended: Rows) -> Floats:
    """Of an iteration with prompt tokens, without the cached tokens that its running sequences read; `rows`: what these compute."""
    pace, heads = s.pace, (rows + ended).astype(np.int64)
    if s.by_table:
        rows = tokens + rows
        at = s.knot_of + BELOW.take(rows.astype(np.int64), mode="clip")
        rows_s = s.level_s.ravel().take(at) + s.row_s.ravel().take(at) * rows
    else:
        rows_s = between(pace.rows_s, tokens * pace.row_share + rows, np.arange(s.home.size))
    if pace.draft is not None:
        drafted_s = between(pace.draft.prompt_s, tokens * pace.row_share, np.arange(s.home.size)) * (tokens > 0)
        rows_s = rows_s + drafted_s + s.side_s.ravel().take(s.row_of + beside.astype(np.int64))
    seconds: Floats = (
        rows_s
        + s.head_s.ravel().take(s.head_of + heads)
        + pace.sequence_s * beside
        + pace.prompt_s * tokens
        + pace.pair_s * (pairs - s.pairs)
        + pace.prompt_latency_s
        + pace.decode_latency_s * (beside > 0)
    )
    return seconds


def _iterations(s: Lanes, decoding: Flags, first_s: Floats, slope: Floats, *, roomy: bool) -> Floats:
    """Iterations of decoding lanes until a sequence ends, the cache is full or a request can be admitted; of others any number."""
    count = s.next_end - s.step
    if not roomy:
        room = np.floor((s.rules.capacity - s.held) / np.maximum(s.growth, 1.0))
        count = np.minimum(count, np.maximum(np.where(s.rules.reserve, np.inf, room), 1.0))
    twice = 2 * np.where(decoding & s.open, s.next_arrival - s.clock, NEVER_S)
    steady = first_s - slope / 2
    met = np.ceil(twice / np.maximum(steady + np.sqrt(steady**2 + slope * twice), 1e-30))
    until: Floats = np.minimum(count, np.maximum(met, 1.0))
    return until


def _account(s: Lanes, taken: Floats, held: Floats) -> Flags:
    """Add up `taken` seconds of the measured time; returns the lanes that are in it."""
    measured: Flags = (s.at > s.warm) & (s.at <= s.last)
    within = np.where(measured, taken, 0.0)
    s.area += within * s.inside
    s.cached += within * held
    return measured


def _count_gap(s: Lanes, gap_s: Floats, weight: Floats) -> None:
    ratio = np.maximum(gap_s / s.shortest[s.home], 1.0)
    place = np.minimum(np.log(ratio) * (1 / np.log(GAP_RATIO)), GAP_BINS - 1.0).astype(np.int64)
    s.gaps[s.home, place] += weight


def _start(s: Lanes, ended: Rows) -> None:
    """Prompts that are complete have their first token and go on decoding; `ended`: so many of each lane."""
    lane = ended.nonzero()[0]
    if not lane.size:
        return
    count = ended.take(lane)
    owner, rank, begins = each(lane, count)
    r = s.begun.take(owner) + rank
    s.note(s.first, r, s.clock.take(owner))
    inputs, steps = s.told.take(r, axis=0).T
    end = s.step.take(owner) + steps
    s.endings.begin(owner, r, rank, end)
    soonest = end if begins is None else np.minimum.reduceat(end, begins)
    s.next_end[lane] = np.minimum(s.next_end.take(lane), soonest)
    s.context = s.context + np.bincount(owner, weights=inputs + 1, minlength=s.home.size)
    s.running = s.running + ended
    s.begun = s.begun + ended
    if s.per_step is not None:
        s.rate = s.rate + np.bincount(owner, weights=s.per_step.take(r), minlength=s.home.size)


def _finish(s: Lanes) -> None:
    """Sequences whose last token is out leave, and in a closed loop the next request is on its way."""
    lane = (s.next_end <= s.step).nonzero()[0]
    if not lane.size:
        return
    owner, r, s.next_end[lane] = s.endings.over(lane, s.step.take(lane))
    who, lanes = s.who(r), s.home.size
    s.end[who] = s.clock.take(owner)
    counted = (who >= s.warm.take(owner)) & (who < s.last.take(owner))
    s.left = s.left - np.bincount(owner, weights=counted, minlength=lanes)
    gone = np.bincount(owner, minlength=lanes)
    tokens = np.bincount(owner, weights=s.whole.take(r), minlength=lanes)
    s.running, s.inside = s.running - gone, s.inside - gone
    s.context, s.held = s.context - tokens, s.held - tokens
    if s.per_step is not None:
        s.rate = s.rate - np.bincount(owner, weights=s.per_step.take(r), minlength=lanes)
        _settle(s)
    if s.looping:
        _issue(s, lane, gone.take(lane))


def _settle(s: Lanes) -> None:
    """Who has nobody running, or nobody at all, has nothing left of them either: fractions do not add up to nothing."""
    some = s.running > 0
    s.rate, s.context = s.rate * some, s.context * some
    s.held = s.held * (s.inside > 0)


def _issue(s: Lanes, lane: Rows, gone: Rows) -> None:
    """The next request of every one that ended; each takes the front end's time, one after the other."""
    keep = s.closed[lane]
    lane, gone = lane[keep], gone[keep]
    owner, rank, _ = each(lane, gone)
    r = s.issued[owner] + rank
    arrival = np.maximum(s.clock[owner], s.ready[owner]) + s.turnaround[owner] * (rank + 1)
    fits = r < s.beyond[owner]
    s.sent[r[fits]], s.arrival[r[fits]] = s.clock[owner[fits]], arrival[fits]
    s.ready[lane] = np.maximum(s.clock[lane], s.ready[lane]) + s.turnaround[lane] * gone
    s.issued[lane] += gone
    s.next_arrival[lane] = s.arrival[s.at[lane]]


def _wait(s: Lanes) -> None:
    """Lanes without any work go on when the next request arrives."""
    lane = (s.inside == 0).nonzero()[0]
    if lane.size:
        arrival = s.next_arrival.take(lane)
        lane = lane[s.going()[lane] & (arrival < NEVER_S)]
        now, at = s.clock.take(lane), s.at.take(lane)
        until = np.maximum(now, s.next_arrival.take(lane))
        s.idle[lane] += np.where((at > s.warm.take(lane)) & (at <= s.last.take(lane)), until - now, 0.0)
        s.clock[lane] = until
