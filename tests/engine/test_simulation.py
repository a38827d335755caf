"""Continuous batching against a plain reading of the same rules, queueing theory, and what has to hold whatever the load."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
from engine_sample import candidate, chip
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from planner.engine.columns import Floats, LayoutColumns, Table
from planner.engine.speed.operators import forward
from planner.engine.speed.serving import serve_of
from planner.engine.speed.simulation import lanes as lanes_module
from planner.engine.speed.simulation import replica
from planner.engine.speed.simulation.batching import run
from planner.engine.speed.simulation.endings import Endings, InSlots, InTurn, endings_of
from planner.engine.speed.simulation.pace import KNOTS, Pace, between, constant_pace, pace_of
from planner.engine.speed.simulation.replica import Demand, settled, share_of
from planner.engine.speed.simulation.replica import simulate as serve_replicas
from planner.engine.speed.simulation.summary import Summary, summarise
from planner.engine.speed.simulation.trace import Rules, Trace
from planner.engine.speed.simulation.traffic import Length, Load, Traffic, gathered, traffic_of

searching = settings(max_examples=100, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
INFINITE = float("inf")


def rules_of(lanes: int, **given_: Any) -> Rules:
    plain = {"budget": INFINITE, "sequences": 64.0, "capacity": INFINITE, "reserve": False, "mixed": True} | given_
    return Rules(**{name: np.full(lanes, value) for name, value in plain.items()})


def simulate(pace: Pace, rules: Rules, traffic: Traffic, *, warm: int = 0, measured: int | None = None) -> Trace:
    lanes, width = traffic.arrival_s.shape
    count = width - 2 - warm if measured is None else measured
    return run(pace, rules, traffic, warm=np.full(lanes, warm), measured=np.full(lanes, count))


def summary(
    pace: Pace, rules: Rules, loads: list[Load], *, requests: int, warm: int, tail: int = 2, seeds: list[int] | None = None
) -> Summary:
    """One group of all lanes."""
    lanes = len(loads)
    traffic = traffic_of(loads, seeds or list(range(lanes)), requests + warm + tail)
    trace = simulate(pace, rules, traffic, warm=warm, measured=requests)
    return summarise(trace, warm=np.full(lanes, warm), measured=np.full(lanes, requests), group=np.zeros(lanes, dtype=np.int64))


# --- the same, one iteration after the other -----------------------------------------------------------------------------


@dataclass
class _Item:
    number: int
    sent_s: float
    arrival_s: float
    inputs: int
    prefix: int
    outputs: int
    fresh: int
    done: int = 0
    """Fresh tokens computed."""
    made: int = 0
    """Tokens put out since it was last admitted."""
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
                last.inputs, last.outputs = last.inputs + last.made, last.outputs - last.made
                last.fresh = last.inputs - last.prefix
            last.done = last.made = 0
            self.queue.insert(0, last)

    def iteration(self) -> list[_Item]:
        """One pass; the requests that ended with it."""
        beside = list(self.running) if self.rule("mixed") or not self.prompts else []
        room = max(self.rule("budget") - len(beside), 1)
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
            item.made += 1
        for item in complete:
            self.prompts.remove(item)
            item.made = 1
            item.first_s = self.clock if math.isnan(item.first_s) else item.first_s
            self.running.append(item)
        ended = [item for item in self.running if item.made == item.outputs and (item in beside or item in complete)]
        for item in ended:
            self.running.remove(item)
            item.end_s = self.clock
        return ended

    def seconds(self, tokens: float, pairs: float, beside: list[_Item], complete: int) -> float:
        heads = len(beside) + complete
        rows = tokens * self.number("row_share") + len(beside)
        device = float(np.interp(max(rows, 1), KNOTS, self.pace.rows_s[self.lane]))
        device += float(np.interp(max(heads, 1), KNOTS, self.pace.head_s[self.lane])) if heads else 0.0
        device += self.number("sequence_s") * len(beside)
        device += self.number("cached_s") * sum(item.inputs + item.made for item in beside)
        device += self.number("prompt_s") * tokens + self.number("pair_s") * pairs
        device += self.number("prompt_latency_s") * (tokens > 0) + self.number("decode_latency_s") * (len(beside) > 0)
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
    parts = {item.name: np.array([draw(seconds) for _ in range(lanes)]) for item in fields(Pace)}
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


@searching
@given(cases())
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


def in_any_order(traffic: Traffic, slots: int) -> InSlots:
    """As where outputs differ."""
    lanes, width = traffic.arrival_s.shape
    here = np.arange(max(slots, int(traffic.in_flight.max()))) < traffic.in_flight[:, None]
    at = np.minimum(np.arange(lanes)[:, None] * width + np.arange(here.shape[1]), traffic.output_tokens.size - 1)
    return InSlots(np.where(here, traffic.output_tokens.ravel()[at], np.inf), np.where(here, at, 0), traffic.in_flight)


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
    assert isinstance(endings_of(traffic, 8), InTurn)
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

    def kept(traffic: Traffic, slots: int) -> Endings:
        blocks.append((traffic.arrival_s.shape[0], endings_of(traffic, slots)))
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


# --- queues whose answer is known -----------------------------------------------------------------------------------------


def one_at_a_time(service: Floats, rate_per_s: float, lanes: int, requests: int) -> tuple[Summary, float]:
    """A replica that serves one request at a time, in `service` seconds each; (figures, requests/s that arrived while measured)."""
    warm, tail = requests // 8, service.shape[1] - requests - requests // 8
    load = Load(inputs=Length(mean=1), outputs=Length(mean=1), rate_per_s=rate_per_s)
    traffic = traffic_of([load] * lanes, list(range(lanes)), warm + requests + tail)
    tokens = traffic.input_tokens.copy()
    tokens[:, :-1] = service
    pace, rules = constant_pace(lanes, prefill_s=1.0), rules_of(lanes, sequences=1.0)
    asked = replace(traffic, input_tokens=tokens, fresh_tokens=tokens)
    trace = simulate(pace, rules, asked, warm=warm, measured=requests)
    found = summarise(trace, warm=np.full(lanes, warm), measured=np.full(lanes, requests), group=np.zeros(lanes, dtype=np.int64))
    return found, rate_per_s


@pytest.mark.parametrize("use", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("kind", ["fixed", "exponential"])
def test_one_at_a_time_waits_as_pollaczek_and_khinchine_say(kind: str, use: float) -> None:
    """Mean wait λ·E[S²] / (2·(1 - ρ)): M/D/1 and M/M/1."""
    lanes, requests = 256, 1600
    shape = (lanes, requests + requests // 8 + 2)
    service = np.full(shape, 1.0) if kind == "fixed" else np.random.default_rng(3).standard_exponential(shape)
    found, rate = one_at_a_time(service, use, lanes, requests)
    want = rate * float((service**2).mean()) / (2 * (1 - rate * float(service.mean())))
    assert found.wait_s.mean[0] == pytest.approx(want, rel=0.03)
    assert found.utilisation[0] == pytest.approx(use, rel=0.01), "busy exactly as long as there is work"
    assert found.requests_per_s[0] == pytest.approx(rate, rel=0.01)
    assert not found.saturated[0]
    if kind == "exponential":  # the time in the system is exponential too
        assert found.request_s.p95[0] == pytest.approx(math.log(20) / (1 - use), rel=0.05)


def test_more_than_can_be_served_is_seen() -> None:
    found, _ = one_at_a_time(np.full((64, 400 + 50 + 100), 1.0), 1.2, 64, 400)
    assert found.saturated[0]
    assert found.requests_per_s[0] == pytest.approx(1.0, rel=0.01), "it still serves all it can"


# --- what has to hold ------------------------------------------------------------------------------------------------------

SERVING = {"task": "serve", "engine": "vllm", "input_tokens": 600, "output_tokens": 200}


def table_of(gpu: str = "H100-SXM-80GB", *, sequences: float = 32.0, layout: dict[str, float] | None = None, **more: Any) -> Table:
    asked = {"model": "llama-3.1-8b", "concurrency": 8} | SERVING | more
    return candidate(chip(gpu), {"sequences": sequences} | (layout or {}), **asked).table()


def load_of(**more: Any) -> Load:
    return Load(**{"inputs": Length(mean=600), "outputs": Length(mean=200)} | more)


def test_one_client_takes_the_sum_of_the_passes() -> None:
    table = table_of(sequences=1.0)
    found = summary(pace_of(table), rules_of(1, budget=8192.0), [load_of(arrivals="closed", concurrency=1)], requests=5, warm=1)
    one = serve_of(table, continuous=True)
    want = one.prefill_s[0] + 199 * one.step_s[0]
    assert found.request_s.mean[0] == pytest.approx(want, rel=0.01)
    assert found.request_s.p99[0] == pytest.approx(found.request_s.p50[0], rel=1e-12), "every request is alike"
    assert found.utilisation[0] == pytest.approx(1.0)
    assert found.in_flight[0] == pytest.approx(1.0)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "gemma-2-9b", "gpt2-xl"])
@pytest.mark.parametrize("tp", [1.0, 4.0])
def test_the_pace_is_that_of_a_pass(model: str, tp: float) -> None:
    """At most 3 % from `forward`, for decoding and for prompts, on and between the knots."""
    table = table_of(model=model, layout={"tp": tp})
    pace, lane = pace_of(table), np.zeros(1, dtype=np.int64)
    for count in (1, 3, 7, 20, 45, 90, 200, 500):
        for context in (601, 700, 800):
            rows, one = np.array([float(count)]), np.ones(1)
            want = forward(table, rows, np.array([float(context)]), one, head_rows=rows).total + table.engine.host_sequence_s * rows
            got = (
                between(pace.rows_s, rows, lane)
                + between(pace.head_s, rows, lane)
                + pace.sequence_s * rows
                + pace.cached_s * rows * context
                + pace.decode_latency_s
            )
            assert got == pytest.approx(want, rel=0.03), (count, context)
    for tokens in (300, 600):
        rows = np.array([float(tokens)])
        want = forward(table, rows, rows / 2, rows, head_rows=np.ones(1)).total
        pairs = tokens**2 / 2
        got = (
            between(pace.rows_s, rows, lane)
            + pace.head_s[:, 0]
            + pace.prompt_s * rows
            + pace.pair_s * pairs
            + pace.prompt_latency_s
        )
        assert got == pytest.approx(want, rel=0.03), tokens


@pytest.mark.parametrize("clients", [8, 64])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_at_saturation_it_serves_what_the_closed_form_says(engine: str, clients: int) -> None:
    """And up to a tenth more where prompts share passes with running sequences, which then read the weights once for both."""
    table = table_of(sequences=float(clients), engine=engine)
    rules = rules_of(1, budget=8192.0, sequences=float(clients), mixed=engine != "sglang")
    load = load_of(arrivals="closed", concurrency=clients)
    found = summary(pace_of(table), rules, [load], requests=clients * 8, warm=clients * 3, tail=clients)
    ratio = found.requests_per_s[0] / serve_of(table, continuous=True).requests_per_s[0]
    assert 0.97 < ratio < (1.05 if engine == "sglang" else 1.1)


def test_littles_law_and_the_closed_form_hold_under_a_rate() -> None:
    table = table_of()
    lanes = 32
    pace = pace_of(table).take(np.zeros(lanes, dtype=np.int64))
    demand = Demand(np.array([8.0]), np.zeros(1), [Length(mean=600)], [Length(mean=200)], np.zeros(1), np.ones(1), np.zeros(1))
    steady, keeps_up = settled(pace_of(table), rules_of(1, budget=8192.0), demand)
    found = summary(
        pace,
        rules_of(lanes, budget=8192.0, sequences=512.0),
        [load_of(rate_per_s=8.0, in_flight=15)] * lanes,
        requests=300,
        warm=60,
        tail=90,
    )
    stay = found.request_s.mean[0] - found.wait_s.mean[0]
    assert found.in_flight[0] == pytest.approx(found.requests_per_s[0] * stay, rel=0.03)
    assert keeps_up[0]
    assert found.in_flight[0] == pytest.approx(steady[0], rel=0.05)


def test_a_cache_bounds_what_is_in_flight() -> None:
    load = load_of(arrivals="closed", concurrency=20)
    for reserve in (True, False):
        rules = rules_of(1, budget=8192.0, capacity=4000.0, reserve=reserve)
        found = summary(pace_of(table_of()), rules, [load], requests=60, warm=40, tail=30)
        assert found.cached_tokens[0] <= 4000 * (1 + 1e-9)
        assert found.in_flight[0] <= (5 if reserve else 6.7)
        assert found.wait_s.mean[0] > found.tpot_s.mean[0] * 200, "most of the clients wait for a place"
        assert (found.preempted[0] > 0) != reserve


def test_a_seed_says_it_all_and_neighbours_do_not_matter() -> None:
    table = table_of()
    pace, rules = pace_of(table), rules_of(1, budget=8192.0, capacity=30000.0)
    alone = simulate(pace, rules, traffic_of([load_of(rate_per_s=20.0)], [7], 60, np.array([60])))
    loads = [load_of(rate_per_s=3.0), load_of(rate_per_s=20.0), load_of(arrivals="closed", concurrency=30, turnaround_s=0.01)]
    three = np.zeros(3, dtype=np.int64)
    traffic = traffic_of(loads, [1, 7, 2], 90, np.array([90, 60, 90]))
    among = simulate(pace.take(three), rules_of(3, budget=8192.0, capacity=30000.0), traffic, measured=58)
    np.testing.assert_array_equal(among.end_s[1, :58], alone.end_s[0, :58])
    again = simulate(pace, rules, traffic_of([load_of(rate_per_s=20.0)], [7], 60, np.array([60])))
    np.testing.assert_array_equal(alone.end_s, again.end_s)
    assert (alone.end_s != simulate(pace, rules, traffic_of([load_of(rate_per_s=20.0)], [8], 60, np.array([60]))).end_s).any()


def demand_at(rates: list[float], *, variation: float = 1.0, window_s: float = 0.0) -> Demand:
    rows = len(rates)
    return Demand(
        rate_per_s=np.array(rates),
        concurrency=np.zeros(rows),
        inputs=[Length(mean=600)] * rows,
        outputs=[Length(mean=200)] * rows,
        prefix_tokens=np.zeros(rows),
        variation=np.full(rows, variation),
        window_s=np.full(rows, window_s),
    )


def test_latency_grows_with_the_rate_until_it_cannot_keep_up() -> None:
    rates = [1.0, 4.0, 10.0, 20.0, 400.0]
    one = table_of()
    five = LayoutColumns(**{item.name: np.repeat(getattr(one.layout, item.name), 5) for item in fields(LayoutColumns)})
    found = serve_replicas(replace(one, layout=five), np.full(5, 400.0), demand_at(rates))
    for latency in (found.ttft_s, found.tpot_s, found.request_s):
        assert (np.diff(latency.p95[:4]) > 0).all()
        assert (latency.p50 <= latency.p95).all()
        assert (latency.p95 <= latency.p99).all()
    assert found.saturated.tolist() == [False, False, False, False, True]
    assert np.isinf(found.request_s.p95[4])


def test_bursts_wait_longer_than_poisson_and_poisson_longer_than_an_even_stream() -> None:
    table = table_of()
    p95 = [serve_replicas(table, np.full(1, 400.0), demand_at([12.0], variation=c)).ttft_s.p95[0] for c in (0.0, 1.0, 3.0)]
    assert p95[0] < p95[1] < p95[2]
    assert share_of(3.0, np.array([1.0, 8.0, 1e9])) == pytest.approx([3.0, math.sqrt(2.0), 1.0])
    assert share_of(1.0, np.array([1.0, 8.0])) == pytest.approx([1.0, 1.0])


def test_load_goes_on_until_the_last_measured_request_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a closed loop with a long tail of outputs, four times as many requests behind the measured ones change nothing."""
    table = table_of()
    loop = replace(demand_at([0.0]), concurrency=np.full(1, 40.0), outputs=[Length(mean=200, p95=450)])
    found = serve_replicas(table, np.full(1, 400.0), loop, measured=60)
    monkeypatch.setattr(replica, "WHOLE_TAIL", 4 * replica.WHOLE_TAIL)
    more = serve_replicas(table, np.full(1, 400.0), loop, measured=60)
    for latency in ("ttft_s", "tpot_s", "request_s"):
        for part in ("mean", "p50", "p95", "p99"):
            assert getattr(getattr(found, latency), part)[0] == pytest.approx(getattr(getattr(more, latency), part)[0], rel=0.02)


def test_a_window_gathers_and_costs_its_wait() -> None:
    sent = np.array([[0.0, 0.01, 0.049, 0.06, 0.2]])
    assert gathered(sent, np.array([0.05])).tolist() == [pytest.approx([0.05, 0.05, 0.05, 0.11, 0.25])]
    table = table_of()
    plain, window = (serve_replicas(table, np.full(1, 400.0), demand_at([6.0], window_s=w)) for w in (0.0, 0.05))
    assert plain.ttft_s.mean[0] + 0.02 < window.ttft_s.mean[0] < plain.ttft_s.mean[0] + 0.09


@pytest.mark.parametrize(
    ("length", "mean", "p95"),
    [
        (Length(mean=1200, p50=900, p95=3500), 1200, 3500 * 1200 / (900 * math.exp((math.log(3500 / 900) / 1.6449) ** 2 / 2))),
        (Length(mean=300, p95=700), 300, 700),
        (Length(mean=300, p50=250), 300, 250 * math.exp(1.6449 * math.sqrt(2 * math.log(300 / 250)))),
        (Length(mean=500, spread=0.2), 500, 590),
        (Length(mean=64), 64, 64),
    ],
)
def test_lengths_have_the_mean_and_the_tail_that_were_asked_for(length: Length, mean: float, p95: float) -> None:
    stream = np.random.default_rng(0)
    drawn = length.tokens(stream.standard_normal(200_000), stream.random(200_000))
    assert drawn.min() >= 1
    assert (drawn == np.floor(drawn)).all()
    assert drawn.mean() == pytest.approx(mean, rel=0.01)
    assert np.quantile(drawn, 0.95) == pytest.approx(p95, rel=0.02)


def test_a_request_longer_than_the_cache_is_cut_or_refused() -> None:
    traffic = traffic_of([load_of(rate_per_s=1.0)], [0], 8)
    with pytest.raises(ValueError, match="longer than the cache"):
        simulate(pace_of(table_of()), rules_of(1, capacity=700.0), traffic)
    cut = traffic.fitted(np.array([700.0]))
    assert (cut.input_tokens + cut.output_tokens).max() == 700
    assert not np.isnan(simulate(pace_of(table_of()), rules_of(1, capacity=700.0), cut).end_s[:, :-1]).any()
    with pytest.raises(ValueError, match="not above 0"):
        traffic_of([load_of(rate_per_s=0.0)], [0], 8)


def test_a_request_has_to_follow_the_measured_ones() -> None:
    traffic = traffic_of([load_of(rate_per_s=1.0)], [0], 10)
    simulate(constant_pace(1, step_s=0.01), rules_of(1), traffic, warm=2, measured=7)
    with pytest.raises(ValueError, match="no request comes after"):
        simulate(constant_pace(1, step_s=0.01), rules_of(1), traffic, warm=2, measured=8)
