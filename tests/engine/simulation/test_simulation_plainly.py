"""The simulation against a plain reading of the same rules, one iteration after the other, in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from simulation_sample import INFINITE, load_of, repeated, simulated, table_of

from planner.engine.columns import Floats, Rows, joined
from planner.engine.performance.prefill_decode.speculative_decoding import DraftRounds, rounds_of
from planner.engine.performance.simulation import replica_state
from planner.engine.performance.simulation.batching_rules import BatchingRules
from planner.engine.performance.simulation.completions import Completions, InOrder, InSlots, completions_of
from planner.engine.performance.simulation.continuous_batching import Trace, run_batches
from planner.engine.performance.simulation.iteration_time import KNOTS, IterationTime
from planner.engine.performance.simulation.traffic import Traffic, traffic_of
from planner.workload.tasks import Lengths

pytestmark = pytest.mark.sweep

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
    """The rules of `BatchingRules` and `IterationTime` for one replica, spelt out."""

    time: IterationTime
    rules: BatchingRules
    run: int
    queue: list[_Item] = field(default_factory=list)
    prompts: list[_Item] = field(default_factory=list)
    running: list[_Item] = field(default_factory=list)
    clock: float = 0.0
    step_s: float = 0.0
    """Time of the last iteration of decoding alone."""
    preempted: int = 0

    def number(self, part: str) -> float:
        return float(getattr(self.time, part)[self.run])

    def wide(self) -> int:
        """Tokens of a running sequence in a pass."""
        return 1 if self.time.draft is None else 1 + int(self.time.draft.proposed[self.run])

    def table(self, values: Floats, at: float) -> float:
        return float(np.interp(max(at, 1), KNOTS, values[self.run]))

    def rule(self, part: str) -> float:
        return float(getattr(self.rules, part)[self.run])

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
        seconds = self.seconds(tokens, pairs, beside, len(complete))
        self.clock += seconds
        self.step_s = self.step_s if tokens else seconds
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
        encodes = self.time.encodes is not None and self.number("encodes") > 0
        rows = (complete if encodes else tokens * self.number("row_share")) + len(beside) * self.wide()
        draft = self.time.draft
        if draft is None or tokens:
            device = self.table(self.time.rows_s, rows) + self.table(self.time.head_s, heads) * (heads > 0)
            device += self.number("decode_latency_s") * (len(beside) > 0)
        else:
            device = self.table(draft.round_s, len(beside))
        if draft is not None and tokens:
            device += self.table(draft.prompt_s, tokens) + self.table(draft.side_s, len(beside)) * (len(beside) > 0)
        if self.time.encoder_s is not None and tokens:
            device += self.table(self.time.encoder_s, tokens)
        device += self.number("sequence_s") * len(beside)
        device += self.number("cached_s") * sum(item.inputs + item.made for item in beside)
        device += self.number("prompt_s") * tokens + self.number("pair_s") * pairs
        device += self.number("prompt_latency_s") * (tokens > 0)
        if tokens and beside:
            device *= 1 + (self.number("mixed_factor") - 1) * tokens / (tokens + len(beside))
            device = max(device, self.number("mixed_floor_s"))
        return max(device, self.number("prompt_floor_s" if tokens else "floor_s")) + self.number("host_s")


def plainly(time: IterationTime, rules: BatchingRules, traffic: Traffic, run: int) -> tuple[list[_Item], int]:
    """Every request of a run served to its end by `Engine`."""
    engine = Engine(time, rules, run)
    items = [
        _Item(
            number,
            float(traffic.sent_s[run, number]),
            float(traffic.arrival_s[run, number]),
            int(traffic.input_tokens[run, number]),
            int(traffic.prefix_tokens[run, number]),
            int(traffic.output_tokens[run, number]),
            int(traffic.fresh_tokens[run, number]),
            None if traffic.rounds is None else int(traffic.rounds[run, number]),
        )
        for number in range(traffic.arrival_s.shape[1] - 1)
    ]
    engine.queue = [item for item in items if math.isfinite(item.arrival_s)]
    later = [item for item in items if not math.isfinite(item.arrival_s)] if traffic.clients[run] else []
    while engine.queue or engine.prompts or engine.running:
        engine.admit()
        engine.preempt()
        if not engine.prompts and not engine.running:
            engine.clock = engine.queue[0].arrival_s
            continue
        for place, _ in enumerate(engine.iteration()):
            if later:
                item = later.pop(0)
                item.sent_s = engine.clock + engine.number("front_end_s") + engine.number("late_steps") * engine.step_s
                item.arrival_s = item.sent_s + place * engine.number("intake_s")
                item.arrival_s = max(item.arrival_s, items[item.number - 1].arrival_s)
                engine.queue.append(item)
    return items, engine.preempted


def some_time(draw: Any, runs: int, *, floor: bool) -> IterationTime:
    seconds = st.floats(0, 1e-3)
    power = np.array([[draw(st.floats(0.1, 1.5))] for _ in range(runs)])
    rising = 1e-3 + 1e-4 * KNOTS**power
    parts: dict[str, Any] = {
        name: np.array([draw(seconds) for _ in range(runs)])
        for name in IterationTime.__struct_fields__
        if name not in {"draft", "graphs", "encoder_s", "encodes"}
    }
    if draw(st.booleans()):
        parts["encodes"] = np.array([float(draw(st.booleans())) for _ in range(runs)])
        parts["encoder_s"] = rising / 3 * parts["encodes"][:, None]
    parts |= {"rows_s": rising, "head_s": rising / 7, "row_share": np.ones(runs)}
    parts |= {"cached_s": parts["cached_s"] / 1e3, "pair_s": parts["pair_s"] / 1e3}
    for name in ("floor_s", "prompt_floor_s", "mixed_floor_s"):
        parts[name] = np.array([draw(st.sampled_from([0.0, 2e-3, 0.05])) * floor for _ in range(runs)])
    parts["mixed_factor"] = np.array([draw(st.sampled_from([1.0, 1.3])) for _ in range(runs)])
    return IterationTime(**parts)


def lengths(draw: Any, most: int, tail: float) -> Lengths:
    """All of one length up to `most`, or of many."""
    mean = draw(st.integers(1, most))
    return Lengths(mean=mean, p95=draw(st.sampled_from([None, tail * mean])))


@st.composite
def cases(draw: Any) -> tuple[IterationTime, BatchingRules, Traffic]:
    runs = draw(st.integers(1, 3))
    longest = 40
    loads = []
    for _ in range(runs):
        closed = draw(st.booleans())
        loads.append(
            load_of(
                inputs=lengths(draw, 15, 2.2),
                outputs=lengths(draw, 9, 2.2),
                prefix_tokens=draw(st.sampled_from([0, 3])),
                rate_per_s=0.0 if closed else draw(st.floats(1, 200)),
                variation=draw(st.sampled_from([0.0, 1.0, 3.0])),
                concurrency=draw(st.integers(1, 6)) if closed else 0,
                window_s=draw(st.sampled_from([0.0, 0.0, 0.0103])),
            )
        )
    rules = BatchingRules(
        budget=np.array([draw(st.sampled_from([2.0, 7.0, 100.0, INFINITE])) for _ in range(runs)]),
        sequences=np.array([float(draw(st.integers(1, 5))) for _ in range(runs)]),
        capacity=np.array([draw(st.sampled_from([float(longest), 70.0, INFINITE])) for _ in range(runs)]),
        reserve=np.array([draw(st.booleans()) for _ in range(runs)]),
        mixed=np.array([draw(st.booleans()) for _ in range(runs)]),
    )
    seeds = [draw(st.integers(0, 99)) for _ in range(runs)]
    traffic = traffic_of(joined(loads), seeds, draw(st.integers(8, 25))).fitted(rules.capacity)
    return some_time(draw, runs, floor=draw(st.booleans())), rules, traffic


@st.composite
def drafted_cases(draw: Any) -> tuple[IterationTime, BatchingRules, Traffic]:
    """With drafts, good ones and bad ones, in caches that do not fill."""
    time, rules, traffic = draw(cases())
    runs, knots = len(rules.budget), time.rows_s * draw(st.floats(0.1, 2.0))
    share = np.array([draw(st.sampled_from([0.0, 0.4, 0.9, 1.0])) for _ in range(runs)])
    proposed = np.array([float(draw(st.integers(1, 5))) for _ in range(runs)])
    draft = DraftRounds(proposed, share, round_s=3 * knots, side_s=knots, prompt_s=knots / 2)
    seeds = np.array([draw(st.integers(0, 99)) for _ in range(runs)])
    rounds = rounds_of(traffic.decoded_tokens, seeds, draft)
    return (
        replace(time, draft=draft, encoder_s=None, encodes=None),
        replace(rules, capacity=np.full(runs, INFINITE)),
        replace(traffic, rounds=rounds),
    )


@searching
@given(cases() | drafted_cases())
def test_it_is_what_one_iteration_after_the_other_gives(case: tuple[IterationTime, BatchingRules, Traffic]) -> None:
    time, rules, traffic = case
    runs, width = traffic.arrival_s.shape
    # everything but the last request is measured, so that all of it is served
    trace = run_batches(time, rules, traffic, warm=np.zeros(runs, dtype=np.int64), measured=np.full(runs, width - 2))
    for run in range(runs):
        items, preempted = plainly(time, rules, traffic, run)
        assert trace.preemptions[run] <= preempted  # the last request may go on after the run has stopped
        for name in ("sent_s", "admitted_s", "first_s", "end_s"):
            want = [getattr(item, name) for item in items[:-1]]
            np.testing.assert_allclose(getattr(trace, name)[run, :-1], want, rtol=1e-9, atol=1e-12, err_msg=name)


def in_slots(iterations: Floats, in_flight: Rows, slots: int) -> InSlots:
    """Requests in the slots where outputs differ."""
    runs, width = iterations.shape
    here = np.arange(max(slots, int(in_flight.max()))) < in_flight[:, None]
    at = np.minimum(np.arange(runs)[:, None] * width + np.arange(here.shape[1]), iterations.size - 1)
    return InSlots(np.where(here, iterations.ravel()[at], np.inf), np.where(here, at, 0), in_flight)


@st.composite
def alike(draw: Any) -> tuple[IterationTime, BatchingRules, Traffic]:
    """Outputs of one length in each run, some of them on their way at the start; caches that fill."""
    runs = draw(st.integers(1, 3))
    rules = BatchingRules(
        budget=np.array([draw(st.sampled_from([2.0, 7.0, INFINITE])) for _ in range(runs)]),
        sequences=np.array([float(draw(st.integers(2, 9))) for _ in range(runs)]),
        capacity=np.array([draw(st.sampled_from([60.0, 90.0, INFINITE])) for _ in range(runs)]),
        reserve=np.array([draw(st.booleans()) for _ in range(runs)]),
        mixed=np.array([draw(st.booleans()) for _ in range(runs)]),
    )
    loads, in_flight = [], np.array([draw(st.integers(0, 2)) for _ in range(runs)])
    for _ in range(runs):
        closed = draw(st.booleans())
        loads.append(
            load_of(
                inputs=lengths(draw, 15, 1.4),
                outputs=draw(st.integers(2, 25)),
                rate_per_s=0.0 if closed else draw(st.floats(10, 500)),
                concurrency=draw(st.integers(2, 6)) if closed else 0,
            )
        )
    seeds = [draw(st.integers(0, 99)) for _ in range(runs)]
    traffic = traffic_of(joined(loads), seeds, draw(st.integers(10, 40)), in_flight=in_flight)
    return some_time(draw, runs, floor=draw(st.booleans())), rules, traffic.fitted(rules.capacity)


@pytest.mark.parametrize("examples", [50, pytest.param(100, marks=pytest.mark.thorough)])
def test_sequences_end_in_order_as_they_do_in_slots(examples: int) -> None:
    preempted: list[float] = []
    settings(searching, max_examples=examples)(given(alike())(lambda case: _ends_alike(case, preempted)))()
    assert sum(preempted) > 10, "also where requests lose their places"


def _ends_alike(case: tuple[IterationTime, BatchingRules, Traffic], preempted: list[float]) -> None:
    time, rules, traffic = case
    width = traffic.arrival_s.shape[1]
    span = {"warm": traffic.in_flight, "measured": width - 2 - traffic.in_flight}
    assert (np.diff(traffic.output_tokens[:, :-1]) >= 0).all(), "who ends first stands first"
    assert isinstance(completions_of(traffic.decoded_tokens, traffic.in_flight, 8), InOrder)
    in_order = run_batches(time, rules, traffic, **span)
    preempted.append(float(in_order.preemptions.sum()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_state, "completions_of", in_slots)
        slots = run_batches(time, rules, traffic, **span)
    for name in Trace.__struct_fields__:
        np.testing.assert_array_equal(getattr(in_order, name), getattr(slots, name), err_msg=name)


def test_outputs_that_differ_are_simulated_beside_none_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order is faster, and a row is the same whatever stands beside it."""
    blocks = []

    def recording(iterations: Floats, in_flight: Rows, slots: int) -> Completions:
        blocks.append((iterations.shape[0], completions_of(iterations, in_flight, slots)))
        return blocks[-1][1]

    monkeypatch.setattr(replica_state, "completions_of", recording)
    outputs: list[int | Lengths] = [200, Lengths(mean=200, p95=300), 100, Lengths(mean=90, p95=200)]
    load = joined([load_of(rate_per_s=rate, outputs=one) for rate, one in zip([2.0, 3.0, 2.5, 4.0], outputs, strict=True)])
    table = repeated(table_of(), 4)
    together = simulated(table, 400.0, load, seeds=2)
    assert [(runs, type(of)) for runs, of in blocks] == [(4, InOrder), (4, InSlots)]
    for row in range(4):
        own = np.array([row])
        alone = simulated(table.take(own), 400.0, load.take(own), seeds=2)
        assert alone.request_s.p95[0] == together.request_s.p95[row]
        assert alone.ttft_s.mean[0] == together.ttft_s.mean[row]
