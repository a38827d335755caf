"""The simulation against a plain reading of the same rules, one iteration after the other, in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from simulation_sample import INFINITE, demand_at, table_of

from planner.engine.columns import Floats, LayoutColumns, Rows
from planner.engine.performance.simulation import replica_state as lanes_module
from planner.engine.performance.simulation.arrivals import Length, Load, Traffic, traffic_of
from planner.engine.performance.simulation.completions import Endings, InSlots, InTurn, endings_of
from planner.engine.performance.simulation.continuous_batching import run
from planner.engine.performance.simulation.draft_rounds import Drafting, rounds_of
from planner.engine.performance.simulation.iteration_time import KNOTS, Pace
from planner.engine.performance.simulation.replicas import simulate as serve_replicas
from planner.engine.performance.simulation.trace import Rules, Trace

searching = settings(max_examples=100, deadline=None, derandomize=True, database=None, phases=[Phase.generate])


@dataclass
class _Item:
    number: int
    sent_s: float
    arrival_s: float
    inputs: int
    prefix: int
    outputs: int
    fresh: int
    rounds: int | None = None
    """Iterations it decodes in, with a draft."""
    done: int = 0
    """Fresh tokens computed."""
    made: float = 0.0
    """Tokens put out since it was last admitted."""
    decoded: int = 0
    """Iterations since then that it was decoded in."""
    admitted_s: float = math.nan
    first_s: float = math.nan
    end_s: float = math.nan


@dataclass
class Engine:
    """The rules of `Rules` and `Pace` for one replica, spelt out."""

    pace: Pace
    rules: Rules
    lane: int
    queue: list[_Item] = field(default_factory=list)
    prompts: list[_Item] = field(default_factory=list)
    running: list[_Item] = field(default_factory=list)
    clock: float = 0.0
    preempted: int = 0

    def number(self, part: str) -> float:
        return float(getattr(self.pace, part)[self.lane])

    def wide(self) -> int:
        """Tokens of a running sequence in a pass."""
        return 1 if self.pace.draft is None else 1 + int(self.pace.draft.proposed[self.lane])

    def table(self, values: Floats, at: float) -> float:
        return float(np.interp(max(at, 1), KNOTS, values[self.lane]))

    def rule(self, part: str) -> float:
        return float(getattr(self.rules, part)[self.lane])

    def held(self) -> float:
        inside = self.prompts + self.running
        if self.rule("reserve"):
            return sum(item.inputs + item.outputs for item in inside)
        return sum(item.inputs + 1 for item in self.prompts) + sum(item.inputs + item.made for item in self.running)

    def admit(self) -> None:
        while self.queue and self.queue[0].arrival_s <= self.clock:
            item = self.queue[0]
            claim = item.inputs + (item.outputs if self.rule("reserve") else 1)
            if len(self.prompts) + len(self.running) >= self.rule("sequences") or self.held() + claim > self.rule("capacity"):
                return
            self.prompts.append(self.queue.pop(0))
            if math.isnan(item.admitted_s):
                item.admitted_s = self.clock

    def preempt(self) -> None:
        while not self.rule("reserve") and len(self.running) > 1 and self.held() + len(self.running) > self.rule("capacity"):
            self.preempted += 1
            last = max(self.prompts + self.running, key=lambda item: item.number)
            if last in self.prompts:
                self.prompts.remove(last)
            else:
                self.running.remove(last)
                last.inputs, last.outputs = last.inputs + int(last.made), last.outputs - int(last.made)
                last.fresh = last.inputs - last.prefix
            last.done, last.made, last.decoded = 0, 0.0, 0
            self.queue.insert(0, last)

    def iteration(self) -> list[_Item]:
        """One pass; the requests that ended with it."""
        beside = list(self.running) if self.rule("mixed") or not self.prompts else []
        room = max(self.rule("budget") - len(beside) * self.wide(), 1)
        tokens, pairs, complete = 0.0, 0.0, []
        for item in self.prompts:
            part = min(item.fresh - item.done, room - tokens)
            tokens += part
            pairs += part * item.prefix + ((item.done + part) ** 2 - item.done**2) / 2
            item.done += int(part)
            if item.done == item.fresh:
                complete.append(item)
            if tokens >= room:
                break
        self.clock += self.seconds(tokens, pairs, beside, len(complete))
        for item in beside:
            item.made += 1 if item.rounds is None else (item.outputs - 1) / item.rounds
            item.decoded += 1
        for item in complete:
            self.prompts.remove(item)
            item.made = 1
            item.first_s = self.clock if math.isnan(item.first_s) else item.first_s
            self.running.append(item)
        ended = [item for item in beside + complete if item.decoded == (item.outputs - 1 if item.rounds is None else item.rounds)]
        for item in ended:
            self.running.remove(item)
            item.end_s = self.clock
        return ended

    def seconds(self, tokens: float, pairs: float, beside: list[_Item], complete: int) -> float:
        heads = len(beside) * self.wide() + complete
        rows = tokens * self.number("row_share") + len(beside) * self.wide()
        draft = self.pace.draft
        if draft is None or tokens:
            device = self.table(self.pace.rows_s, rows) + self.table(self.pace.head_s, heads) * (heads > 0)
            device += self.number("decode_latency_s") * (len(beside) > 0)
        else:
            device = self.table(draft.round_s, len(beside))
        if draft is not None and tokens:
            device += self.table(draft.prompt_s, tokens) + self.table(draft.side_s, len(beside)) * (len(beside) > 0)
        device += self.number("sequence_s") * len(beside)
        device += self.number("cached_s") * sum(item.inputs + item.made for item in beside)
        device += self.number("prompt_s") * tokens + self.number("pair_s") * pairs
        device += self.number("prompt_latency_s") * (tokens > 0)
        if tokens and beside:
            device *= 1 + (self.number("mixed_factor") - 1) * tokens / (tokens + len(beside))
            device = max(device, self.number("mixed_floor_s"))
        return max(device, self.number("floor_s")) + self.number("host_s")


def plainly(pace: Pace, rules: Rules, traffic: Traffic, lane: int) -> tuple[list[_Item], int]:
    """Every request of a lane served to its end by `Engine`."""
    engine = Engine(pace, rules, lane)
    items = [
        _Item(
            number,
            float(traffic.sent_s[lane, number]),
            float(traffic.arrival_s[lane, number]),
            int(traffic.input_tokens[lane, number]),
            int(traffic.prefix_tokens[lane, number]),
            int(traffic.output_tokens[lane, number]),
            int(traffic.fresh_tokens[lane, number]),
            None if traffic.rounds is None else int(traffic.rounds[lane, number]),
        )
        for number in range(traffic.arrival_s.shape[1] - 1)
    ]
    closed, ready = int(traffic.concurrency[lane]), float(traffic.concurrency[lane] * traffic.turnaround_s[lane])
    engine.queue = [item for item in items if math.isfinite(item.arrival_s)]
    later = [item for item in items if not math.isfinite(item.arrival_s)] if closed else []
    while engine.queue or engine.prompts or engine.running:
        engine.admit()
        engine.preempt()
        if not engine.prompts and not engine.running:
            engine.clock = engine.queue[0].arrival_s
            continue
        for _ in engine.iteration():
            if later:
                item = later.pop(0)
                ready = max(ready, engine.clock) + float(traffic.turnaround_s[lane])
                item.sent_s, item.arrival_s = engine.clock, ready
                engine.queue.append(item)
    return items, engine.preempted


def some_pace(draw: Any, lanes: int, *, floor: bool) -> Pace:
    seconds = st.floats(0, 1e-3)
    power = np.array([[draw(st.floats(0.1, 1.5))] for _ in range(lanes)])
    rising = 1e-3 + 1e-4 * KNOTS**power
    parts: dict[str, Any] = {
        item.name: np.array([draw(seconds) for _ in range(lanes)]) for item in fields(Pace) if item.name != "draft"
    }
    parts |= {"rows_s": rising, "head_s": rising / 7, "row_share": np.ones(lanes)}
    parts |= {"cached_s": parts["cached_s"] / 1e3, "pair_s": parts["pair_s"] / 1e3}
    for name in ("floor_s", "mixed_floor_s"):
        parts[name] = np.array([draw(st.sampled_from([0.0, 2e-3, 0.05])) * floor for _ in range(lanes)])
    parts["mixed_factor"] = np.array([draw(st.sampled_from([1.0, 1.3])) for _ in range(lanes)])
    return Pace(**parts)


@st.composite
def cases(draw: Any) -> tuple[Pace, Rules, Traffic]:
    lanes = draw(st.integers(1, 3))
    longest = 40
    loads = []
    for _ in range(lanes):
        closed = draw(st.booleans())
        loads.append(
            Load(
                inputs=Length(mean=draw(st.integers(1, 15)), spread=draw(st.sampled_from([0.0, 0.9]))),
                outputs=Length(mean=draw(st.integers(1, 9)), spread=draw(st.sampled_from([0.0, 0.9]))),
                prefix_tokens=draw(st.sampled_from([0, 3])),
                arrivals="closed" if closed else draw(st.sampled_from(["poisson", "fixed"])),
                rate_per_s=draw(st.floats(1, 200)),
                variation=draw(st.sampled_from([1.0, 3.0])),
                concurrency=draw(st.integers(1, 6)),
                turnaround_s=draw(st.sampled_from([0.0, 1.0003e-3, 0.0500173])),  # never a whole number of iterations
            )
        )
    rules = Rules(
        budget=np.array([draw(st.sampled_from([2.0, 7.0, 100.0, INFINITE])) for _ in range(lanes)]),
        sequences=np.array([float(draw(st.integers(1, 5))) for _ in range(lanes)]),
        capacity=np.array([draw(st.sampled_from([float(longest), 70.0, INFINITE])) for _ in range(lanes)]),
        reserve=np.array([draw(st.booleans()) for _ in range(lanes)]),
        mixed=np.array([draw(st.booleans()) for _ in range(lanes)]),
    )
    seeds = [draw(st.integers(0, 99)) for _ in range(lanes)]
    traffic = traffic_of(loads, seeds, draw(st.integers(8, 25))).fitted(rules.capacity)
    return some_pace(draw, lanes, floor=draw(st.booleans())), rules, traffic


@st.composite
def drafted_cases(draw: Any) -> tuple[Pace, Rules, Traffic]:
    """With drafts, good ones and bad ones, in caches that do not fill."""
    pace, rules, traffic = draw(cases())
    knots = pace.rows_s * draw(st.floats(0.1, 2.0))
    share = np.array([draw(st.sampled_from([0.0, 0.4, 0.9, 1.0])) for _ in range(pace.lanes)])
    proposed = np.array([float(draw(st.integers(1, 5))) for _ in range(pace.lanes)])
    draft = Drafting(proposed, share, round_s=3 * knots, side_s=knots, prompt_s=knots / 2)
    seeds = np.array([draw(st.integers(0, 99)) for _ in range(pace.lanes)])
    rounds = rounds_of(traffic.still_to_come, seeds, draft)
    return replace(pace, draft=draft), replace(rules, capacity=np.full(pace.lanes, INFINITE)), replace(traffic, rounds=rounds)


@searching
@given(cases() | drafted_cases())
def test_it_is_what_one_iteration_after_the_other_gives(case: tuple[Pace, Rules, Traffic]) -> None:
    pace, rules, traffic = case
    lanes, width = traffic.arrival_s.shape
    # everything but the last request is measured, so that all of it is served
    trace = run(pace, rules, traffic, warm=np.zeros(lanes, dtype=np.int64), measured=np.full(lanes, width - 2))
    for lane in range(lanes):
        items, preempted = plainly(pace, rules, traffic, lane)
        assert trace.preempted[lane] <= preempted  # the last request may go on after the lane has stopped
        for name in ("sent_s", "admitted_s", "first_s", "end_s"):
            want = [getattr(item, name) for item in items[:-1]]
            np.testing.assert_allclose(getattr(trace, name)[lane, :-1], want, rtol=1e-9, atol=1e-12, err_msg=name)


def in_any_order(steps: Floats, in_flight: Rows, slots: int) -> InSlots:
    """As where outputs differ."""
    lanes, width = steps.shape
    here = np.arange(max(slots, int(in_flight.max()))) < in_flight[:, None]
    at = np.minimum(np.arange(lanes)[:, None] * width + np.arange(here.shape[1]), steps.size - 1)
    return InSlots(np.where(here, steps.ravel()[at], np.inf), np.where(here, at, 0), in_flight)


@st.composite
def alike(draw: Any) -> tuple[Pace, Rules, Traffic]:
    """Outputs of one length each lane, some of them on their way at the start; caches that fill."""
    lanes = draw(st.integers(1, 3))
    rules = Rules(
        budget=np.array([draw(st.sampled_from([2.0, 7.0, INFINITE])) for _ in range(lanes)]),
        sequences=np.array([float(draw(st.integers(2, 9))) for _ in range(lanes)]),
        capacity=np.array([draw(st.sampled_from([60.0, 90.0, INFINITE])) for _ in range(lanes)]),
        reserve=np.array([draw(st.booleans()) for _ in range(lanes)]),
        mixed=np.array([draw(st.booleans()) for _ in range(lanes)]),
    )
    loads = [
        Load(
            inputs=Length(mean=draw(st.integers(1, 15)), spread=draw(st.sampled_from([0.0, 0.9]))),
            outputs=Length(mean=draw(st.integers(2, 25))),
            arrivals=draw(st.sampled_from(["closed", "poisson"])),
            rate_per_s=draw(st.floats(10, 500)),
            concurrency=draw(st.integers(2, 6)),
            in_flight=draw(st.integers(0, 2)),
        )
        for _ in range(lanes)
    ]
    traffic = traffic_of(loads, [draw(st.integers(0, 99)) for _ in range(lanes)], draw(st.integers(10, 40)))
    return some_pace(draw, lanes, floor=draw(st.booleans())), rules, traffic.fitted(rules.capacity)


def test_who_ends_in_turn_ends_as_in_any_order() -> None:
    turned_out: list[float] = []
    searching(given(alike())(lambda case: _ends_alike(case, turned_out)))()
    assert sum(turned_out) > 10, "also where requests lose their places"


def _ends_alike(case: tuple[Pace, Rules, Traffic], turned_out: list[float]) -> None:
    pace, rules, traffic = case
    width = traffic.arrival_s.shape[1]
    span = {"warm": traffic.in_flight, "measured": width - 2 - traffic.in_flight}
    assert (np.diff(traffic.output_tokens[:, :-1]) >= 0).all(), "who ends first stands first"
    assert isinstance(endings_of(traffic.still_to_come, traffic.in_flight, 8), InTurn)
    in_turn = run(pace, rules, traffic, **span)
    turned_out.append(float(in_turn.preempted.sum()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_module, "endings_of", in_any_order)
        slots = run(pace, rules, traffic, **span)
    for item in fields(Trace):
        np.testing.assert_array_equal(getattr(in_turn, item.name), getattr(slots, item.name), err_msg=item.name)


def test_outputs_that_differ_are_simulated_beside_none_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """In turn is faster, and a row is the same whatever stands beside it."""
    blocks = []

    def kept(steps: Floats, in_flight: Rows, slots: int) -> Endings:
        blocks.append((steps.shape[0], endings_of(steps, in_flight, slots)))
        return blocks[-1][1]

    monkeypatch.setattr(lanes_module, "endings_of", kept)
    demand = demand_at([2.0, 3.0, 2.5, 4.0])
    demand = replace(demand, outputs=[Length(mean=200), Length(mean=200, p95=300), Length(mean=100), Length(mean=90, p95=200)])
    one = table_of()
    layout = LayoutColumns(**{item.name: np.repeat(getattr(one.layout, item.name), 4) for item in fields(LayoutColumns)})
    table = replace(one, layout=layout)
    together = serve_replicas(table, np.full(4, 400.0), demand, seeds=2)
    assert [(lanes, type(of)) for lanes, of in blocks] == [(4, InTurn), (4, InSlots)]
    for row in range(4):
        own = np.array([row])
        alone = serve_replicas(table.take(own), np.full(1, 400.0), demand.take(own), seeds=2)
        assert alone.request_s.p95[0] == together.request_s.p95[row]
        assert alone.ttft_s.mean[0] == together.ttft_s.mean[row]
