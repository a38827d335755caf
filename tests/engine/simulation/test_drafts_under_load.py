"""Drafts of services that are simulated: how many tokens rounds yield, what a round takes, and that a line stays what it is."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from engine_sample import ask, ask_all, candidate, chip, session
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from repository import ROOT
from simulation_sample import load_of, mean_in_flight, recorded_cache, recorded_traces, repeated, rules_of, simulate, simulated

from planner.engine.answers.answer import Answer
from planner.engine.columns import Floats, Table
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.forward_pass import forward
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.prefill_decode.speculative_decoding import DraftRounds, rounds_of, tokens_out, tokens_per_round
from planner.engine.performance.simulation.iteration_time import KNOTS, constant_time, iteration_time
from planner.engine.performance.simulation.load import Load
from planner.engine.performance.simulation.replica_state import ReplicaState
from planner.engine.performance.simulation.replicas import steady_state
from planner.engine.performance.simulation.traffic import Traffic, traffic_of
from planner.workload.tasks import Companion, Lengths

SERVICE: dict[str, Any] = {
    "gpu": "H100-SXM-80GB", "model": "llama-3.1-8b", "task": "serve", "engine": "vllm", "input_tokens": 500, "output_tokens": 200,
}  # fmt: skip
DRAFT: dict[str, Any] = {"role": "draft", "model": "llama-3.2-1b", "acceptance": 0.8, "draft_tokens": 4}


def drafted(**more: Any) -> dict[str, Any]:
    return {"companions": [Companion(**DRAFT | more)]}


def timeless(proposed: float, acceptance: float, count: int = 1) -> DraftRounds:
    """Rounds of `count` runs that take no time."""
    none = np.zeros((count, KNOTS.size))
    return DraftRounds(np.full(count, proposed), np.full(count, acceptance), none, none, none)


# --- tokens of a round ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("proposed", "acceptance"), [(4, 0.8), (1, 0.5), (7, 0.3), (3, 0.0), (5, 1.0)])
def test_a_round_yields_what_the_law_says(proposed: int, acceptance: float) -> None:
    """j more tokens than one with a^j·(1 - a), all g + 1 with a^g; the mean is that of the formula."""
    yielded = tokens_out(np.random.default_rng(0).random(400_000), proposed, acceptance)
    shares = [acceptance**j * (1 - acceptance) for j in range(proposed)] + [acceptance**proposed]
    for tokens, share in enumerate(shares, start=1):
        assert (yielded == tokens).mean() == pytest.approx(share, abs=0.003)
    assert sum(shares) == pytest.approx(1.0)
    mean = tokens_per_round(np.array([float(proposed)]), np.array([acceptance]))[0]
    assert yielded.mean() == pytest.approx(mean, rel=0.005)


def one_after_the_other(tokens: int, seed: int, request: int, proposed: int, acceptance: float) -> int:
    """Rounds of one request of a seed, its tokens put out one round after the other."""
    out = rounds = 0
    while out < tokens:
        even = float(np.random.default_rng([seed // 2, 7, rounds // 64]).random((request + 1, 64))[request, rounds % 64])
        even = 1 - even if seed % 2 else even
        accepted = 0
        while accepted < proposed and (acceptance == 1 or even <= acceptance ** (accepted + 1)):
            accepted += 1
        out, rounds = out + 1 + accepted, rounds + 1
    return rounds


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.lists(st.integers(0, 300), min_size=4, max_size=4), min_size=1, max_size=3),
    st.integers(0, 5),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.3, 0.8, 0.97, 1.0]),
)
def test_rounds_are_those_until_all_tokens_are_out(tokens: list[list[int]], seed: int, proposed: int, acceptance: float) -> None:
    seeds = np.arange(seed, seed + len(tokens))
    found = rounds_of(np.array(tokens, dtype=np.float64), seeds, timeless(float(proposed), acceptance, len(tokens)))
    for run, own in enumerate(tokens):
        want = [one_after_the_other(count, seed + run, request, proposed, acceptance) for request, count in enumerate(own)]
        assert found[run].tolist() == want


def test_long_answers_take_as_many_rounds_as_the_formula_says() -> None:
    tokens = np.full((8, 50), 1000.0)
    for proposed, acceptance in ((4.0, 0.8), (2.0, 0.5), (8.0, 0.9), (6.0, 0.1)):
        rounds = rounds_of(tokens, np.arange(8), timeless(proposed, acceptance, 8))
        mean = tokens_per_round(np.array([proposed]), np.array([acceptance]))[0]
        assert tokens.sum() / rounds.sum() == pytest.approx(mean, rel=0.01)
    assert (rounds_of(tokens, np.arange(8), timeless(4.0, 1.0, 8)) == 200).all()
    assert (rounds_of(tokens, np.arange(8), timeless(4.0, 0.0, 8)) == 1000).all()


def test_the_luck_of_a_request_is_its_own() -> None:
    """Whatever stands beside it, how many requests there are, and how long they are."""
    tokens = np.random.default_rng(1).integers(1, 400, (4, 30)).astype(np.float64)
    seeds = np.array([3, 4, 3, 9])
    draft = DraftRounds(np.array([4.0, 4.0, 2.0, 4.0]), np.array([0.8, 0.8, 0.8, 0.6]), *(np.zeros((4, 1)) for _ in range(3)))
    together = rounds_of(tokens, seeds, draft)
    for run in range(4):
        one = np.array([run])
        assert (rounds_of(tokens[one, :7], seeds[one], draft.take(one)) == together[run, :7]).all()


# --- time of a round ------------------------------------------------------------------------------------------------------


def in_rounds(load: Load, requests: int, draft: DraftRounds) -> Traffic:
    traffic = traffic_of(load, [0], requests)
    return replace(traffic, rounds=rounds_of(traffic.decoded_tokens, np.zeros(1, dtype=np.int64), draft))


def test_an_answer_by_hand() -> None:
    """Its prompt in 1.25 s, of which the draft takes 0.25; 13 more tokens, four a round, in 4 rounds of 0.5 s; then the next.

    The cache, which grows by 13/4 tokens with each round, adds 1 ms for each of its tokens.
    """
    prompt, rest = np.full((1, KNOTS.size), 0.25), np.full((1, KNOTS.size), 0.5)
    draft = DraftRounds(np.array([3.0]), np.array([1.0]), round_s=rest, side_s=rest / 2, prompt_s=prompt)
    time = replace(constant_time(1, prefill_s=0.1, cached_s=1e-3), draft=draft)
    trace = simulate(time, rules_of(1), in_rounds(load_of(inputs=10, outputs=14, concurrency=1), 6, draft), measured=4)
    request_s = 1.25 + 4 * 0.5 + sum(11 + 13 / 4 * n for n in range(4)) * 1e-3
    assert trace.first_s[0, :4].tolist() == pytest.approx([request_s * n + 1.25 for n in range(4)])
    assert trace.end_s[0, :4].tolist() == pytest.approx([request_s * (n + 1) for n in range(4)])


def test_prompts_beside_rounds_by_hand() -> None:
    """One sequence decodes while the prompt of another is read: 5 + 4 rows of a second each, and what the draft takes for both."""
    rising = KNOTS[None, :]
    draft = DraftRounds(
        np.array([3.0]), np.array([1.0]), round_s=4 * rising + 10, side_s=10 * rising / rising, prompt_s=100 * rising
    )
    time = replace(constant_time(1), rows_s=rising, draft=draft)
    load = load_of(inputs=5, outputs=101, variation=0.0, rate_per_s=1 / 700)
    trace = simulate(time, rules_of(1), in_rounds(load, 4, draft), measured=2)
    prompt_s, round_s = 5 + 500.0, 14.0
    assert trace.first_s[0, 0] == pytest.approx(prompt_s)
    begins = prompt_s + math.ceil((700 - prompt_s) / round_s) * round_s
    assert trace.admitted_s[0, 1] == pytest.approx(begins), "it is looked for after each round"
    assert trace.first_s[0, 1] == pytest.approx(begins + 9 + 500 + 10)


def table_of(*, sequences: float = 16.0, companions: list[Companion] | None = None, **more: Any) -> Table:
    """A replica with its usual draft, or with `companions`."""
    asked = {name: value for name, value in SERVICE.items() if name != "gpu"} | {"concurrency": 8} | more
    one = candidate(chip("H100-SXM-80GB"), {"sequences": sequences}, **asked)
    beside = drafted()["companions"] if companions is None else companions
    workload = msgspec.structs.replace(one.jobs[0].workload, companions=tuple(beside))
    return replace(one, jobs=[resolve(workload, session().models_of(workload))]).table()


def test_a_round_takes_what_its_passes_take() -> None:
    """Four passes of the draft and one of the model over five tokens of each of eight sequences."""
    table, plain = table_of(), table_of(companions=[])
    time = iteration_time(table)
    assert time.draft is not None
    eight, middle = np.full(1, 8.0), np.full(1, 600.0)
    checked = forward(plain, eight * 5, middle, np.full(1, 5.0), head_rows=eight * 5)
    side_s = time.draft.side_s[0, KNOTS.tolist().index(8.0)]
    whole = time.draft.round_s[0, KNOTS.tolist().index(8.0)] + (time.sequence_s[0] + time.cached_s[0] * 600) * 8
    closed = serve_of(table_of(sequences=8.0), continuous=True).step_s[0] * tokens_per_round(np.full(1, 4.0), np.full(1, 0.8))[0]
    assert whole + time.host_s[0] == pytest.approx(closed, rel=0.005)
    assert whole - side_s > checked.total[0] * 0.99


def test_one_client_takes_the_sum_of_the_passes() -> None:
    """The last round of an answer may yield more than it needs: a little less than half a round more than the formula."""
    table = table_of(sequences=1.0)
    found = simulated(table, 400.0, load_of(inputs=500, concurrency=1), measured=200)
    one = serve_of(table, continuous=True)
    late_s = table.engine.front_end_s[0] + table.engine.late_steps[0] * one.step_s[0]
    want = one.prefill_s[0] + 199 * one.step_s[0] + late_s
    assert want < found.request_s.mean[0] < 1.02 * want
    assert found.request_s.p95[0] > 1.03 * found.request_s.p50[0], "some are luckier than others"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("clients", [4, 32])
def test_at_saturation_it_serves_what_the_closed_form_says(engine: str, clients: int) -> None:
    table = table_of(sequences=float(clients), engine=engine)
    found = simulated(table, 400.0, load_of(inputs=500, concurrency=clients))
    ratio = found.requests_per_s[0] / serve_of(table, continuous=True).requests_per_s[0]
    assert 0.95 < ratio < (1.05 if engine == "sglang" else 1.1)


@pytest.mark.parametrize("rate", [2.0, 8.0])
def test_littles_law_and_the_closed_form_hold_under_a_rate(rate: float) -> None:
    table = table_of()
    load = load_of(inputs=500, rate_per_s=rate)
    with recorded_traces() as traces:
        found = simulated(table, 400.0, load, seeds=32, measured=200)
    stay = found.request_s.mean[0] - found.wait_s.mean[0]
    (trace,) = traces
    assert mean_in_flight(*trace) == pytest.approx(found.requests_per_s[0] * stay, rel=0.03)
    steady, keeps_up = steady_state(iteration_time(table), rules_of(1, sequences=512.0), load)
    assert keeps_up[0]
    assert mean_in_flight(*trace) == pytest.approx(steady[0], rel=0.05)


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_a_cache_that_fills_turns_requests_out_and_loses_none(engine: str) -> None:
    """Answers of many lengths in a cache for six of the mean; one client whose longest answers fill all of it."""
    loop = load_of(inputs=500, outputs=Lengths(mean=200, p95=600), concurrency=6)
    with recorded_traces() as traces, recorded_cache() as cache:
        found = simulated(table_of(engine=engine), 6.0, loop)
    held = np.concatenate(cache)
    assert 6 * 350 < held.mean() < held.max() <= 6 * 700 * (1 + 1e-9)
    assert (traces[0][0].preemptions.sum() > 0) == (engine != "tensorrt-llm")
    assert np.isfinite(found.request_s.p99[0])
    alone = simulated(table_of(engine=engine), 1.0, replace(loop, concurrency=np.ones(1)))
    assert np.isfinite(alone.request_s.p99[0]), "who fills the whole cache is admitted to an empty one"


# --- among others ---------------------------------------------------------------------------------------------------------


@pytest.mark.sweep
def test_rows_with_and_without_drafts_do_not_change_each_other() -> None:
    assert iteration_time(table_of(companions=[])).draft is None
    load = {"request_rate_per_s": 3.0}
    long = {"output_tokens": Lengths(mean=200, p50=150, p95=500)}
    requests = [
        SERVICE | load,
        SERVICE | load | drafted(),
        SERVICE | load | long,
        SERVICE | load | drafted(acceptance=0.5, draft_tokens=2),
        SERVICE | {"concurrency": 6} | long | drafted(),
        SERVICE | load | drafted(model="qwen3-0.6b") | {"model": "qwen3-8b", "gpu": "L40S"},
        SERVICE | {"concurrency": 6} | long | {"engine": "sglang"} | drafted(),
    ]
    for asked, among in zip(requests, ask_all(*requests), strict=True):
        alone = ask(**asked)
        assert isinstance(among, Answer)
        assert msgspec.json.encode(alone) == msgspec.json.encode(among)
        assert "simulated" in str(alone.assumed["percentiles"])


def test_what_no_draft_is_in_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without drafts know nothing of rounds, also beside others that have them."""
    seen = []
    plain = ReplicaState.__init__

    def recording(self: ReplicaState, *given_: Any) -> None:
        plain(self, *given_)
        seen.append((self.number.size, self.tables.draft_s is None, self.requests.per_iteration is None))

    monkeypatch.setattr(ReplicaState, "__init__", recording)
    load = SERVICE | {"request_rate_per_s": 3.0}
    ask_all(load, load | drafted(), load)
    assert seen == [(8, True, True), (4, False, False)]


def p95(**more: Any) -> float:
    answer = ask(**SERVICE | more)
    assert answer.request_s is not None
    assert answer.request_s.p95 is not None
    return answer.request_s.p95.value


@pytest.mark.sweep
def test_a_good_draft_is_faster_under_a_rate_and_a_bad_one_slower() -> None:
    load = {"request_rate_per_s": 4.0}
    alone, good, bad = p95(**load), p95(**load, **drafted()), p95(**load, **drafted(acceptance=0.0))
    assert good < 0.75 * alone < alone < bad


def test_the_plan_of_a_service_is_simulated_with_its_draft() -> None:
    asked = {name: value for name, value in SERVICE.items() if name not in {"gpu", "engine"}} | {"request_rate_per_s": 30.0}
    asked |= {"gpus_considered": ["H100 SXM5 80GB"], "targets": {"p95_tpot_s": 0.012}}
    s = session()
    plain, fast = (
        s.plan(s.workload(asked | more, "test"), basis="spec") for more in ({}, {"companions": [DRAFT | {"acceptance": 0.9}]})
    )
    best = [next(row for row in found.rows if row.rank == 1) for found in (plain, fast)]
    assert all("simulated" in str(row.answer.assumed["percentiles"]) for row in best)
    assert all(row.answer.layout is not None for row in best)
    times = [row.answer.request_s.mean.value for row in best if row.answer.request_s is not None]
    assert times[1] < times[0]


def test_disaggregated_replicas_have_none() -> None:
    (found,) = ask_all(SERVICE | {"request_rate_per_s": 2.0, "disaggregated": True, "gpus": 2} | drafted())
    assert not isinstance(found, Answer)
    assert any("disaggregated" in problem.message for problem in found.problems)


@pytest.mark.process
def test_the_program_answers_lines_with_drafts(tmp_path: Path) -> None:
    line = {**SERVICE, "request_rate_per_s": 3.0}
    lines = [{"id": n, **line, **({"companions": [DRAFT | {"acceptance": 0.5 + n / 10}]} if n % 2 else {})} for n in range(4)]
    homes = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE")}
    done = subprocess.run(
        [sys.executable, "-m", "planner", "estimate", "-"],
        input="".join(json.dumps(one) + "\n" for one in lines), cwd=tmp_path, env={**os.environ, **homes, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    answers = [json.loads(answer) for answer in done.stdout.splitlines()]
    times = [answer["tpot_s"]["p95"]["value"] for answer in answers]
    assert [answer["id"] for answer in answers] == [0, 1, 2, 3]
    assert times[0] == times[2]
    assert times[3] < times[1] < times[0]


def test_latency_grows_with_the_rate_until_it_cannot_keep_up() -> None:
    rates = np.array([1.0, 4.0, 10.0, 20.0, 400.0])
    found = simulated(repeated(table_of(), 5), 400.0, replace(load_of(5, inputs=500), rate_per_s=rates))
    p95s: Floats = found.request_s.p95[:4]
    assert (np.diff(p95s) > 0).all()
    assert found.saturated.tolist() == [False] * 4 + [True]
