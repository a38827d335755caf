"""Continuous batching against queueing theory, and what has to hold whatever the load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_sample import ask
from msgspec.structs import replace
from simulation_sample import (
    load_of,
    mean_in_flight,
    recorded_cache,
    repeated,
    rules_of,
    simulate,
    simulated,
    table_of,
    traced,
)

from planner.engine.columns import Floats, joined
from planner.engine.performance.operators.forward_pass import forward
from planner.engine.performance.prefill_decode.engine_limits import padded_rows
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.simulation import replicas as replica
from planner.engine.performance.simulation.iteration_tables import tables_of
from planner.engine.performance.simulation.iteration_time import between, constant_time, iteration_time
from planner.engine.performance.simulation.load import thinned_variation, token_lengths
from planner.engine.performance.simulation.replicas import request_times, steady_state
from planner.engine.performance.simulation.summary import Summary, summarise
from planner.engine.performance.simulation.traffic import batch_arrivals, traffic_of
from planner.workload.tasks import Lengths

TOKENS_PER_S = 1e9
"""Prompt tokens of a replica that serves one request at a time: whole numbers of them stand for any time."""

# --- queues whose answer is known -----------------------------------------------------------------------------------------


def one_at_a_time(service: Floats, rate_per_s: float, runs: int, requests: int) -> tuple[Summary, float]:
    """A replica that serves one request at a time, in `service` seconds each; (figures, requests/s that arrived while measured)."""
    warm, tail = requests // 8, service.shape[1] - requests - requests // 8
    traffic = traffic_of(load_of(runs, inputs=1, outputs=1, rate_per_s=rate_per_s), range(runs), warm + requests + tail)
    tokens = traffic.input_tokens.copy()
    tokens[:, :-1] = np.ceil(service * TOKENS_PER_S)
    trace = simulate(
        constant_time(runs, prefill_s=1 / TOKENS_PER_S),
        rules_of(runs, sequences=1.0),
        replace(traffic, input_tokens=tokens),
        warm=warm,
        measured=requests,
    )
    found = summarise(trace, warm=np.full(runs, warm), measured=requests, row=np.zeros(runs, dtype=np.int64))
    return found, rate_per_s


@pytest.mark.sweep
@pytest.mark.parametrize("use", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("kind", ["fixed", "exponential"])
def test_one_at_a_time_waits_as_pollaczek_and_khinchine_say(kind: str, use: float) -> None:
    """Mean wait λ·E[S²] / (2·(1 - ρ)): M/D/1 and M/M/1."""
    runs, requests = 256, 1600
    shape = (runs, requests + requests // 8 + 2)
    service = np.full(shape, 1.0) if kind == "fixed" else np.random.default_rng(3).standard_exponential(shape)
    found, rate = one_at_a_time(service, use, runs, requests)
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


def test_one_client_takes_the_sum_of_the_passes() -> None:
    table = table_of(sequences=1.0)
    time = iteration_time(table)
    found, trace = traced(time, rules_of(1, budget=8192.0), load_of(concurrency=1), requests=5, warm=1)
    one = serve_of(table, continuous=True)
    want = one.prefill_s[0] + 199 * one.step_s[0]
    assert found.request_s.mean[0] == pytest.approx(want, rel=0.01)
    assert found.request_s.p99[0] == pytest.approx(found.request_s.p50[0], rel=1e-12), "every request is alike"
    way_s = time.front_end_s[0] + time.late_steps[0] * one.step_s[0]
    busy = float(found.request_s.mean[0] / (found.request_s.mean[0] + way_s))
    assert found.utilisation[0] == pytest.approx(busy, rel=1e-3), (
        "the engine waits while the answer and the next request are on their way"
    )
    assert mean_in_flight(trace, np.array([1]), np.array([5])) == pytest.approx(busy, rel=1e-3)


def test_requests_that_end_a_step_apart_wait_together_once_the_way_back_takes_longer() -> None:
    """Eight clients whose prompts fill a pass in pairs: sent on at once, a pair waits for a pass of its own; 20 ms later, every pair waits for all four."""
    load, rules = load_of(concurrency=8, inputs=1000, outputs=50), rules_of(1, budget=2008.0)
    step_s, prompt_s = 0.01, 0.1
    time = replace(constant_time(1, prefill_s=prompt_s / 1000), host_s=np.array([step_s]))
    waits = {}
    for way_s in (0.0, 2 * step_s):
        there = replace(time, front_end_s=np.array([way_s]))
        waits[way_s] = float(traced(there, rules, load, requests=200, warm=40)[0].ttft_s.mean[0])
    pair_s = 2 * prompt_s + step_s
    assert waits[0.0] == pytest.approx(pair_s, rel=0.15)
    assert waits[2 * step_s] == pytest.approx(2.5 * pair_s, rel=0.15)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "gemma-2-9b", "gpt2-xl"])
@pytest.mark.parametrize("tp", [1.0, 4.0])
def test_an_iteration_takes_what_its_pass_takes(model: str, tp: float) -> None:
    """At most 3 % from `forward`, for decoding and for prompts, on and between the knots."""
    table = table_of(model=model, layout={"tp": tp})
    time = iteration_time(table)
    for count in (1, 3, 7, 20, 45, 90, 200, 500):
        for context in (601, 700, 800):
            rows, one = np.array([float(count)]), np.ones(1)
            want = forward(table, rows, np.array([float(context)]), one, head_rows=rows).total + table.engine.host_sequence_s * rows
            got = (
                between(time.rows_s, rows)
                + between(time.head_s, rows)
                + time.sequence_s * rows
                + time.cached_s * rows * context
                + time.decode_latency_s
            )
            assert got == pytest.approx(want, rel=0.03), (count, context)
    for tokens in (300, 600):
        rows = np.array([float(tokens)])
        want = forward(table, rows, rows / 2, rows, head_rows=np.ones(1)).total
        pairs = tokens**2 / 2
        got = between(time.rows_s, rows) + time.head_s[:, 0] + time.prompt_s * rows + time.pair_s * pairs + time.prompt_latency_s
        assert np.maximum(got, time.prompt_floor_s) == pytest.approx(want, rel=0.03), tokens


@pytest.mark.parametrize(
    ("most", "doubled", "rows"), [(2048.0, 128.0, [128, 256, 256, 512, 2048]), (300.0, 128.0, [128, 256, 256, 300, 1500])]
)
def test_rows_of_a_step_are_those_of_the_next_graph(most: float, doubled: float, rows: list[int]) -> None:
    """Every number up to 128, then powers of two, the last one being of as many as may run; more than that are not padded."""
    sequences = np.array([128.0, 129.0, 256.0, 257.0, 1500.0])
    assert padded_rows(sequences, np.array(doubled), np.array(most)).tolist() == rows
    assert padded_rows(sequences, np.zeros(1), np.array(most)).tolist() == sequences.tolist()


@pytest.mark.parametrize(("engine", "padded"), [("tensorrt-llm@1.0", True), ("tensorrt-llm@0.17", False), ("vllm", False)])
def test_steps_are_padded_to_a_graph_and_attend_to_what_there_is(engine: str, padded: bool) -> None:
    """In the simulation and in the formulas: of 129 sequences products take as long as of 256, attention as of 129. Long answers: steps without prompts."""
    steps = tables_of(iteration_time(table_of(engine=engine)), 300)
    own = steps.time.sequence_s[0]
    level = [float(steps.decode_s[0, count] - own * count) for count in (128, 129, 255, 256, 257)]
    assert bool(level[1] == pytest.approx(level[3])) is padded
    assert level[2] == pytest.approx(level[3], rel=1e-9 if padded else 0.02)
    alone = [
        serve_of(table_of(engine=engine, sequences=count, output_tokens=100_000), continuous=True).phases["decode"].one
        for count in (129.0, 256.0)
    ]
    assert bool(alone[0].matmul[0] == pytest.approx(alone[1].matmul[0], rel=0.01)) is padded
    assert alone[0].attention[0] < 0.6 * alone[1].attention[0]


@pytest.mark.parametrize("clients", [1, 8, 64])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_a_request_of_one_token_ends_with_it(engine: str, clients: int) -> None:
    """In a loop of one length and of many; the rate is that of the clients' requests, and both loops hardly differ."""
    loop: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "gpu": "H100",
        "task": "serve",
        "output_tokens": 1,
        "concurrency": clients,
        "engine": engine,
    }
    alike, mixed = (ask(**loop, input_tokens=tokens) for tokens in (600, {"mean": 600, "p50": 590}))
    for answer in (alike, mixed):
        assert answer.ttft_s is not None
        assert answer.request_s is not None
        for name in ("mean", "p95", "p99"):
            assert getattr(answer.ttft_s, name).value == pytest.approx(getattr(answer.request_s, name).value)
    assert alike.requests_per_s is not None
    assert alike.request_s is not None
    assert alike.requests_per_s.value * alike.request_s.mean.value == pytest.approx(clients)
    assert mixed.request_s is not None
    assert alike.request_s.mean.value == pytest.approx(mixed.request_s.mean.value, rel=0.2)


@pytest.mark.parametrize("clients", [8, 64])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_at_saturation_it_serves_what_the_closed_form_says(engine: str, clients: int) -> None:
    """And up to a tenth more where prompts share passes with running sequences, which then read the weights once for both."""
    table = table_of(sequences=float(clients), engine=engine)
    rules = rules_of(1, budget=8192.0, sequences=float(clients), mixed=engine != "sglang")
    load = load_of(concurrency=clients)
    found, _ = traced(iteration_time(table), rules, load, requests=clients * 8, warm=clients * 3, tail=clients)
    ratio = found.requests_per_s[0] / serve_of(table, continuous=True).requests_per_s[0]
    assert 0.97 < ratio < (1.05 if engine == "sglang" else 1.1)


def test_littles_law_and_the_closed_form_hold_under_a_rate() -> None:
    table = table_of()
    runs = 32
    time = iteration_time(table)
    steady, keeps_up = steady_state(time, rules_of(1, budget=8192.0), load_of(rate_per_s=8.0))
    found, trace = traced(
        time.take(np.zeros(runs, dtype=np.int64)),
        rules_of(runs, budget=8192.0, sequences=512.0),
        load_of(runs, rate_per_s=8.0),
        requests=300,
        warm=60,
        tail=90,
        in_flight=15,
    )
    stay = found.request_s.mean[0] - found.wait_s.mean[0]
    in_flight = mean_in_flight(trace, np.full(runs, 60), np.full(runs, 300))
    assert in_flight == pytest.approx(found.requests_per_s[0] * stay, rel=0.03)
    assert keeps_up[0]
    assert in_flight == pytest.approx(steady[0], rel=0.05)


@pytest.mark.parametrize("outputs", [200, Lengths(mean=200, p95=600)])
def test_times_without_a_simulation_are_those_of_one(outputs: int | Lengths) -> None:
    """Mean and spread of requests by the expansion around Little's law, at light and heavy load."""
    table = table_of()
    for rate in (2.0, 8.0, 14.0):
        load = load_of(inputs=600, outputs=outputs, rate_per_s=rate)
        law = request_times(iteration_time(table), rules_of(1, budget=8192.0, sequences=512.0), load)
        found = replica.simulate(iteration_time(table), rules_of(1, budget=8192.0, sequences=512.0), load, seeds=16, measured=200)
        sigma = np.hypot(law.load_sigma, load.outputs.sigma)
        assert law.keeps_up[0]
        assert law.request_s[0] == pytest.approx(found.request_s.mean[0], rel=0.15)
        assert law.request_s[0] * np.exp(1.645 * sigma[0] - sigma[0] ** 2 / 2) == pytest.approx(found.request_s.p95[0], rel=0.25)


@pytest.mark.parametrize("rate", [0.05, 0.5, 2.0])
def test_a_request_that_meets_no_other_waits_for_its_own_prompt(rate: float) -> None:
    """A long prompt and a short answer, of whose time the prompt is two fifths."""
    time, rules = iteration_time(table_of()), rules_of(1, budget=8192.0, sequences=512.0)
    load = load_of(inputs=4000, outputs=20, rate_per_s=rate)
    law = request_times(time, rules, load)
    found = replica.simulate(time, rules, load, seeds=16, measured=200)
    assert law.request_s[0] == pytest.approx(found.request_s.mean[0], rel=0.06)
    assert law.token_s[0] == pytest.approx(found.tpot_s.mean[0], rel=0.1)
    assert law.request_s[0] == pytest.approx(found.ttft_s.mean[0] + 19 * law.token_s[0], rel=0.06)


def test_a_cache_bounds_what_is_in_flight() -> None:
    load = load_of(concurrency=20)
    for reserve in (True, False):
        rules = rules_of(1, budget=8192.0, capacity=4000.0, reserve=reserve)
        with recorded_cache() as cache:
            found, trace = traced(iteration_time(table_of()), rules, load, requests=60, warm=40, tail=30)
        assert 3000 < np.concatenate(cache).max() <= 4000
        assert mean_in_flight(trace, np.array([40]), np.array([60])) <= (5 if reserve else 6.7)
        assert found.wait_s.mean[0] > found.tpot_s.mean[0] * 200, "most of the clients wait for a place"
        assert (trace.preemptions[0] > 0) != reserve


def test_a_seed_says_it_all_and_neighbours_do_not_matter() -> None:
    table = table_of()
    time, rules, load = iteration_time(table), rules_of(1, budget=8192.0, capacity=30000.0), load_of(rate_per_s=20.0)
    alone = simulate(time, rules, traffic_of(load, [7], 60, most=np.array([60])))
    three = joined([load_of(rate_per_s=3.0), load, load_of(concurrency=30)])
    traffic = traffic_of(three, [1, 7, 2], 90, most=np.array([90, 60, 90]))
    among = simulate(time.take(np.zeros(3, dtype=np.int64)), rules_of(3, budget=8192.0, capacity=30000.0), traffic, measured=58)
    np.testing.assert_array_equal(among.end_s[1, :58], alone.end_s[0, :58])
    again = simulate(time, rules, traffic_of(load, [7], 60, most=np.array([60])))
    np.testing.assert_array_equal(alone.end_s, again.end_s)
    assert (alone.end_s != simulate(time, rules, traffic_of(load, [8], 60, most=np.array([60]))).end_s).any()


def test_latency_grows_with_the_rate_until_it_cannot_keep_up() -> None:
    rates = np.array([1.0, 4.0, 10.0, 20.0, 400.0])
    found = simulated(repeated(table_of(), 5), 400.0, replace(load_of(5), rate_per_s=rates))
    for latency in (found.ttft_s, found.tpot_s, found.request_s):
        assert (np.diff(latency.p95[:4]) > 0).all()
        assert (latency.p50 <= latency.p95).all()
        assert (latency.p95 <= latency.p99).all()
    assert found.saturated.tolist() == [False, False, False, False, True]
    assert np.isinf(found.request_s.p95[4])


def test_bursts_wait_longer_than_poisson_and_poisson_longer_than_an_even_stream() -> None:
    table = table_of()
    p95 = [simulated(table, 400.0, load_of(rate_per_s=12.0, variation=c)).ttft_s.p95[0] for c in (0.0, 1.0, 3.0)]
    assert p95[0] < p95[1] < p95[2]
    assert thinned_variation(3.0, np.array([1.0, 8.0, 1e9])) == pytest.approx([3.0, math.sqrt(2.0), 1.0])
    assert thinned_variation(1.0, np.array([1.0, 8.0])) == pytest.approx([1.0, 1.0])


def test_load_goes_on_until_the_last_measured_request_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many requests behind the measured ones change nothing in a closed loop with a long tail of outputs."""
    table = table_of()
    loop = load_of(concurrency=40, outputs=Lengths(mean=200, p95=450))
    found = simulated(table, 400.0, loop, measured=60)
    monkeypatch.setattr(replica, "WHOLE_TAIL", 4 * replica.WHOLE_TAIL)
    more = simulated(table, 400.0, loop, measured=60)
    for latency in ("ttft_s", "tpot_s", "request_s"):
        for part in ("mean", "p50", "p95", "p99"):
            assert getattr(getattr(found, latency), part)[0] == pytest.approx(getattr(getattr(more, latency), part)[0], rel=0.02)


def test_a_window_gathers_and_costs_its_wait() -> None:
    sent = np.array([[0.0, 0.01, 0.049, 0.06, 0.2]])
    assert batch_arrivals(sent, np.array([0.05])).tolist() == [pytest.approx([0.05, 0.05, 0.05, 0.11, 0.25])]
    table = table_of()
    plain, window = (simulated(table, 400.0, load_of(rate_per_s=6.0, window_s=w)) for w in (0.0, 0.05))
    assert plain.ttft_s.mean[0] + 0.02 < window.ttft_s.mean[0] < plain.ttft_s.mean[0] + 0.09


@pytest.mark.parametrize(
    ("given_", "mean", "p95"),
    [
        (Lengths(mean=1200, p50=900, p95=3500), 1200, 3500 * 1200 / (900 * math.exp((math.log(3500 / 900) / 1.6449) ** 2 / 2))),
        (Lengths(mean=300, p95=700), 300, 700),
        (Lengths(mean=300, p50=250), 300, 250 * math.exp(1.6449 * math.sqrt(2 * math.log(300 / 250)))),
        (Lengths(mean=64), 64, 64),
        (64, 64, 64),
    ],
)
def test_lengths_have_the_mean_and_the_tail_that_were_asked_for(given_: int | Lengths, mean: float, p95: float) -> None:
    normal = np.random.default_rng(0).standard_normal((1, 200_000))
    drawn = token_lengths([given_], [64]).draw(normal, np.zeros(1, dtype=np.int64))
    assert drawn.min() >= 1
    assert (drawn == np.floor(drawn)).all()
    assert drawn.mean() == pytest.approx(mean, rel=0.01)
    assert np.quantile(drawn, 0.95) == pytest.approx(p95, rel=0.02)


def test_a_request_longer_than_the_cache_is_cut_or_refused() -> None:
    time, traffic = iteration_time(table_of()), traffic_of(load_of(rate_per_s=1.0), [0], 8)
    with pytest.raises(ValueError, match="longer than the cache"):
        simulate(time, rules_of(1, capacity=700.0), traffic)
    cut = traffic.fitted(np.array([700.0]))
    assert (cut.input_tokens + cut.output_tokens).max() == 700
    assert not np.isnan(simulate(time, rules_of(1, capacity=700.0), cut).end_s[:, :-1]).any()
    with pytest.raises(ValueError, match="not above 0"):
        traffic_of(load_of(rate_per_s=0.0), [0], 8)


def test_a_request_has_to_follow_the_measured_ones() -> None:
    traffic = traffic_of(load_of(rate_per_s=1.0), [0], 10)
    simulate(constant_time(1, step_s=0.01), rules_of(1), traffic, warm=2, measured=7)
    with pytest.raises(ValueError, match="no request comes after"):
        simulate(constant_time(1, step_s=0.01), rules_of(1), traffic, warm=2, measured=8)
