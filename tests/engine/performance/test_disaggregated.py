"""Disaggregated services: pools of replicas for prompts and for answers, the cache that travels, and the wait before the prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import ask, ask_all, candidate, chip, evaluated, plan, solutions
from hypothesis import given, settings
from hypothesis import strategies as st
from repository import RunPlanner

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.performance.disaggregated import PoolRates, best_split, rates_of
from planner.engine.performance.prefill_decode.generation import ServeColumns, serve_of
from planner.errors import UserError

SERVICE: dict[str, Any] = {"model": "llama-3.1-8b", "task": "serve", "input_tokens": 2000, "output_tokens": 201}
POOLS = SERVICE | {"disaggregated": True}
ONE = {"gpu": "H100-SXM-80GB", "tp": 1}
CACHE_BYTES = 32 * 2 * 8 * 128 * 2 * 2000
"""Layers, keys and values, heads, width, bytes, tokens of the prompt."""


def of_pools(prefill: int, decode: int, *, batch: int = 32, per_node: float = 8.0, **changes: Any) -> Evaluated:
    replicas = float(prefill + decode)
    layout = {"dp": replicas, "gpus": replicas, "prefill": float(prefill), "sequences": float(batch), "gpus_per_node": per_node}
    return evaluated(chip("H100-SXM-80GB"), layout, **(POOLS | {"concurrency": "max"} | changes))


def times(e: Evaluated) -> ServeColumns:
    assert e.serve is not None
    return e.serve


def both(batch: int, **changes: Any) -> ServeColumns:
    """Times of one replica that does both."""
    asked = SERVICE | {"concurrency": batch} | changes
    return serve_of(candidate(chip("H100-SXM-80GB"), {"sequences": float(batch)}, **asked).table(), continuous=True)


def mean(answer: Answer, name: str) -> float:
    return float(getattr(answer, name).mean.value)


def pools(row: PlanRow) -> tuple[int, int, int]:
    """(replicas for prompts, for answers, sequences at once)."""
    layout = row.answer.layout
    assert layout is not None
    assert layout.batch is not None
    return layout.prefill_replicas, layout.dp - layout.prefill_replicas, layout.batch


def test_a_worked_example() -> None:
    alone = both(1)
    prompt_s, step_s = float(alone.prefill_s[0]), float(both(32).step_s[0])
    found = of_pools(2, 3)
    rates = rates_of(found.table, times(found))
    transfer_s = CACHE_BYTES / 450e9  # 262 MB of cache over NVLink: 0.58 ms
    assert rates.transfer_s[0] == pytest.approx(transfer_s)
    assert rates.prompt_s[0] == pytest.approx(prompt_s)
    assert rates.decode_s[0] == pytest.approx(200 * step_s)  # the first of 201 tokens is the prompt's
    assert rates.prompts_per_s[0] == pytest.approx(1 / prompt_s)
    assert rates.answers_per_s[0] == pytest.approx(32 / (200 * step_s))
    slower = min(2 / prompt_s, 3 * 32 / (200 * step_s))
    assert times(found).requests_per_s[0] * 5 == pytest.approx(slower)
    assert times(found).ttft_s.mean[0] == pytest.approx(prompt_s + transfer_s)
    assert times(found).tpot_s.mean[0] == pytest.approx(step_s)
    assert times(found).request_s.mean[0] == pytest.approx(prompt_s + transfer_s + 200 * step_s)
    assert sum(value[0] for value in times(found).by_class.values()) == pytest.approx(times(found).request_s.mean[0], rel=0.02)


def test_over_several_nodes_the_cache_goes_over_the_fabric() -> None:
    near, far = times(of_pools(2, 3)), times(of_pools(2, 3, per_node=4.0))
    assert far.ttft_s.mean[0] - near.ttft_s.mean[0] == pytest.approx(CACHE_BYTES / (0.8 * 50e9) - CACHE_BYTES / 450e9)
    assert far.tpot_s.mean[0] == near.tpot_s.mean[0]


def test_a_link_slower_than_the_pass_is_what_limits_a_replica() -> None:
    slow = of_pools(2, 6, batch=64)
    layout = {"dp": 8.0, "gpus": 8.0, "prefill": 2.0, "sequences": 64.0, "link_bytes_per_s": 1e9}
    found = evaluated(chip("H100-SXM-80GB"), layout, **(POOLS | {"concurrency": "max"}))
    assert times(found).requests_per_s[0] * 8 == pytest.approx(2 * 1e9 / CACHE_BYTES)
    assert times(found).requests_per_s[0] < times(slow).requests_per_s[0]


def test_requests_wait_as_in_a_queue_with_equal_service() -> None:
    prompt_s = float(both(1).prefill_s[0])
    transfer_s = CACHE_BYTES / 450e9
    for share in (0.2, 0.5, 0.8):
        rate = 2 * share / prompt_s
        found = times(of_pools(2, 6, batch=512, concurrency=None, request_rate_per_s=rate))
        waited = share * prompt_s / (2 * (1 - share))  # M/D/1
        assert found.ttft_s.mean[0] == pytest.approx(prompt_s + transfer_s + waited)
        assert found.requests_per_s[0] * 8 == pytest.approx(rate)


@pytest.mark.parametrize(("prefill", "decode"), [(1, 7), (4, 4)])
def test_a_closed_loop_waits_for_the_slower_pool(prefill: int, decode: int) -> None:
    found = [times(of_pools(prefill, decode, concurrency=clients)) for clients in (1, 8, 64, 512, 4096)]
    r = rates_of(of_pools(prefill, decode).table, found[0])
    rates = [float(one.requests_per_s[0] * 8) for one in found]
    for clients, one, rate in zip((1, 8, 64, 512, 4096), found, rates, strict=True):
        assert rate * one.request_s.mean[0] == pytest.approx(clients)  # Little's law
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(1 / r.alone_s[0], rel=0.02)
    assert rates[-1] == pytest.approx(min(prefill * r.prompts_per_s[0], decode * r.answers_per_s[0]), rel=0.02)


def served_one_by_one(share: float, requests: int = 400_000) -> np.ndarray:
    """What requests wait that come at random and each take one second: Lindley's recursion as a running minimum."""
    draw = np.random.default_rng(7)
    steps = 1.0 - draw.exponential(1 / share, requests)
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    waits: np.ndarray = walk - np.minimum.accumulate(walk)
    return waits


@pytest.mark.parametrize("share", [0.3, 0.6, 0.85])
def test_the_wait_agrees_with_requests_served_one_by_one(share: float) -> None:
    prompt_s = float(both(1).prefill_s[0])
    found = times(of_pools(1, 7, batch=512, concurrency=None, request_rate_per_s=share / prompt_s))
    waits = served_one_by_one(share)
    unloaded = prompt_s + CACHE_BYTES / 450e9
    assert (found.ttft_s.mean[0] - unloaded) / prompt_s == pytest.approx(waits.mean(), rel=0.05)
    for name, percent in (("p95", 95), ("p99", 99)):
        waited = (getattr(found.ttft_s, name)[0] - unloaded) / prompt_s
        assert waited == pytest.approx(np.percentile(waits, percent), rel=0.35 if share < 0.5 else 0.2)
        assert waited >= 0.95 * np.percentile(waits, percent)


def test_bursts_and_long_prompts_wait_longer() -> None:
    rate = 0.6 / float(both(1).prefill_s[0])
    asked: dict[str, Any] = {"batch": 512, "concurrency": None, "request_rate_per_s": rate}
    even = times(of_pools(1, 7, **asked, arrival_variation=0.0))
    poisson, bursts = times(of_pools(1, 7, **asked)), times(of_pools(1, 7, **asked, arrival_variation=3.0))
    spread = times(of_pools(1, 7, **asked, input_tokens={"mean": 2000, "p50": 1500, "p95": 5200}))
    assert even.ttft_s.mean[0] < poisson.ttft_s.mean[0] < bursts.ttft_s.mean[0]
    assert poisson.ttft_s.mean[0] < spread.ttft_s.mean[0]
    assert poisson.ttft_s.p95[0] < spread.ttft_s.p95[0]


COUNTS = st.integers(min_value=1, max_value=12)
BATCHES = st.sampled_from([1, 2, 8, 32, 128])
PER_NODE = 64.0


@pytest.mark.sweep
@settings(max_examples=40, deadline=None)
@given(prefill=COUNTS, decode=COUNTS, batch=BATCHES)
def test_the_slower_pool_sets_the_rate_and_more_replicas_never_lower_it(prefill: int, decode: int, batch: int) -> None:
    def rate(x: int, y: int) -> float:
        return float(times(of_pools(x, y, batch=batch, per_node=PER_NODE)).requests_per_s[0] * (x + y))

    found = of_pools(prefill, decode, batch=batch, per_node=PER_NODE)
    r = rates_of(found.table, times(found))
    assert rate(prefill, decode) == pytest.approx(min(prefill * r.prompts_per_s[0], decode * r.answers_per_s[0]))
    tolerance = 1 - 1e-12
    assert rate(prefill + 1, decode) >= rate(prefill, decode) * tolerance
    assert rate(prefill, decode + 1) >= rate(prefill, decode) * tolerance


@pytest.mark.sweep
@settings(max_examples=20, deadline=None)
@given(batch=BATCHES, rate=st.floats(min_value=0.1, max_value=4.0))
def test_tokens_come_no_later_than_from_replicas_that_do_both(batch: int, rate: float) -> None:
    together, apart = both(batch), of_pools(3, 5, batch=batch)
    assert times(apart).tpot_s.mean[0] <= together.tpot_s.mean[0]
    loaded = of_pools(3, 5, batch=batch, concurrency=None, request_rate_per_s=rate)
    assert times(loaded).tpot_s.mean[0] == times(apart).tpot_s.mean[0]  # prompts do not come between


@settings(max_examples=20, deadline=None)
@given(prefill=COUNTS, decode=COUNTS, batch=BATCHES)
def test_no_work_is_saved(prefill: int, decode: int, batch: int) -> None:
    lone = both(batch, input_tokens={"mean": 2000}, output_tokens={"mean": 201})  # each prompt in a pass of its own
    apart = times(of_pools(prefill, decode, batch=batch, per_node=PER_NODE))
    assert apart.requests_per_s[0] <= lone.requests_per_s[0] * 1.01  # the first token, and steps of other sizes


@settings(max_examples=60, deadline=None)
@given(
    replicas=st.integers(min_value=2, max_value=40),
    prompts=st.floats(min_value=0.01, max_value=100.0),
    answers=st.one_of(st.just(np.inf), st.floats(min_value=0.01, max_value=100.0)),
)
def test_the_split_serves_the_most(replicas: int, prompts: float, answers: float) -> None:
    column = np.array([1.0])
    r = PoolRates(column, column, column, column * prompts, column * answers)
    chosen = int(best_split(np.array([float(replicas)]), r)[0])
    most = max(min(x * prompts, (replicas - x) * answers) for x in range(1, replicas))
    assert 1 <= chosen < replicas
    assert min(chosen * prompts, (replicas - chosen) * answers) == pytest.approx(most)


def test_an_estimate_chooses_the_pools_and_says_so() -> None:
    found = ask(**POOLS, **ONE, dp=6, concurrency="max")
    rates = []
    for prefill in range(1, 6):
        fixed = ask(**POOLS, **ONE, dp=6, concurrency="max", prefill_replicas=prefill)
        assert fixed.layout is not None
        assert fixed.layout.prefill_replicas == prefill
        assert "prefill_replicas" not in fixed.assumed
        assert fixed.requests_per_s is not None
        rates.append(fixed.requests_per_s.value)
    assert found.layout is not None
    assert found.requests_per_s is not None
    assert found.assumed["prefill_replicas"] == found.layout.prefill_replicas == 1 + int(np.argmax(rates))
    assert found.requests_per_s.value == pytest.approx(max(rates))
    assert f"{found.layout.prefill_replicas}P:{6 - found.layout.prefill_replicas}D" in found.layout.text


def test_as_many_decode_as_littles_law_says() -> None:
    found = ask(**POOLS, **ONE, dp=4, prefill_replicas=1, request_rate_per_s=12.0)
    assert found.layout is not None
    assert found.requests_per_s is not None
    assert found.requests_per_s.value == pytest.approx(12.0)
    assert found.layout.batch == pytest.approx(12.0 * 200 * mean(found, "tpot_s") / 3, abs=0.6)
    assert mean(found, "request_s") == pytest.approx(mean(found, "ttft_s") + 200 * mean(found, "tpot_s"))
    closed = ask(**POOLS, **ONE, dp=4, prefill_replicas=2, concurrency=40)
    assert closed.requests_per_s is not None
    assert closed.requests_per_s.value * mean(closed, "request_s") == pytest.approx(40.0, rel=1e-6)


def test_a_small_load_is_answered_sooner_than_by_replicas_that_do_both() -> None:
    load = ONE | {"dp": 4, "concurrency": 64}
    together, apart = ask(**SERVICE, **load), ask(**POOLS, **load)
    assert mean(apart, "ttft_s") < mean(together, "ttft_s")
    assert mean(apart, "tpot_s") < mean(together, "tpot_s")


def test_pools_that_do_not_keep_up_are_named() -> None:
    found = ask(**POOLS, **ONE, dp=4, request_rate_per_s=500.0)
    assert found.ttft_s is None
    assert found.request_s is None
    assert found.requests_per_s is not None
    assert found.requests_per_s.value < 500
    assert found.assumed["percentiles"].startswith("none: 500 requests a second are needed")
    assert ask(**POOLS, **ONE, dp=4, request_rate_per_s=5.0).assumed["percentiles"] == "by formula"


def test_one_request_is_answered_alone_as_among_others() -> None:
    asked = [POOLS | ONE | {"dp": dp, "request_rate_per_s": rate} for dp in (2, 5) for rate in (1.0, 9.0)]
    mixed = [SERVICE | ONE | {"dp": 2, "concurrency": 8}, *asked, POOLS | ONE | {"dp": 3, "concurrency": "max"}]
    together = ask_all(*mixed)
    for request, answer in zip(mixed, together, strict=True):
        assert isinstance(answer, Answer)
        alone = ask(**request)
        assert answer.layout == alone.layout
        assert answer.ttft_s == alone.ttft_s
        assert answer.tpot_s == alone.tpot_s


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ({"dp": 1}, "dp", "at least 2 replicas"),
        ({"dp": 4, "prefill_replicas": 4}, "prefill_replicas", "below dp = 4"),
        ({"dp": 4, "prefill_replicas": 0}, "prefill_replicas", "a whole number from 1 "),
        ({"dp": 4, "prefill_replicas": 1, "disaggregated": False}, "prefill_replicas", "only disaggregated"),
        ({"task": "generate", "dp": 2}, "disaggregated", "only 'serve'"),
        ({"dp": 2, "request_rate_per_s": 1.0, "batch_window_s": 0.1}, "batch_window_s", "together with disaggregated"),
    ],
)
def test_what_pools_cannot_be(change: dict[str, Any], key: str, said: str) -> None:
    (answer,) = ask_all(POOLS | ONE | change)
    assert isinstance(answer, UserError)
    assert [problem.key for problem in answer.problems] == [key]
    assert said in str(answer)


def test_gpus_alone_are_halved() -> None:
    found = ask(**POOLS, gpu="H100-SXM-80GB", gpus=8, concurrency="max")
    assert found.layout is not None
    assert (found.layout.tp, found.layout.dp, found.layout.prefill_replicas) == (4, 2, 1)


SLA = "llama-3.1-70b-chat-service"


def test_a_plan_takes_the_fewest_replicas_that_keep_up() -> None:
    found = solutions(plan(SLA, disaggregated=True))
    assert found
    for row in found[:5]:
        prefill, decode, batch = pools(row)
        assert row.answer.requests_per_s is not None
        assert row.answer.prefill_s is not None
        assert row.answer.request_s is not None
        assert row.answer.request_s.p95 is not None
        assert row.answer.requests_per_s.value == pytest.approx(16.667)
        rate = 16.667 * 1.2  # with the room for bursts
        assert row.answer.request_s.p95.value <= 5.0
        assert prefill > rate * row.answer.prefill_s.value
        in_flight = rate * 199 * mean(row.answer, "tpot_s")
        assert (decode - 1) * batch < in_flight <= decode * batch * (1 + 1e-9)
        assert row.answer.assumed["percentiles"] == "by formula"


def test_sooner_first_tokens_take_more_replicas_for_prompts() -> None:
    def of_h100(**targets: float) -> PlanRow:
        changed = plan(SLA, disaggregated=True, gpus_considered=["H100-SXM-80GB"], targets=targets)
        return solutions(changed)[0]

    loose = of_h100(p95_tpot_s=0.05, p95_ttft_s=3.0)
    tight = of_h100(p95_tpot_s=0.05, p95_ttft_s=0.15)
    for row, limit in ((loose, 3.0), (tight, 0.15)):
        assert row.answer.ttft_s is not None
        assert row.answer.ttft_s.p95 is not None
        assert row.answer.ttft_s.p95.value <= limit
    assert loose.answer.layout is not None
    assert tight.answer.layout is not None
    assert loose.answer.layout.gpus < tight.answer.layout.gpus
    assert loose.usd_per_h is not None
    assert tight.usd_per_h is not None
    assert loose.usd_per_h.value <= tight.usd_per_h.value, "whole nodes are paid"


@pytest.mark.parametrize(
    "load", [{"concurrency": 200}, {"concurrency": "max"}, {"concurrency": "max", "requests": 1e6, "deadline": 24}]
)
def test_a_plan_for_any_load_has_both_pools(load: dict[str, Any]) -> None:
    targets = {"deadline_h": load.pop("deadline")} if "deadline" in load else {}
    found = plan(SLA, disaggregated=True, request_rate_per_s=None, targets=targets, **load)
    best = solutions(found)
    assert best
    for row in found.rows:
        if row.answer.layout is not None:
            prefill, decode, _ = pools(row)
            assert prefill >= 1
            assert decode >= 1
    if targets:
        assert best[0].answer.requests_per_s is not None
        assert best[0].answer.requests_per_s.value >= 1e6 / 86400 * (1 - 1e-9)


def test_the_command_shows_the_pools(run_planner: RunPlanner) -> None:
    done = run_planner("plan", SLA, "--set", "disaggregated=true", "--top", "1")
    assert done.returncode == 0, done.stderr
    assert "P:" in done.stdout
