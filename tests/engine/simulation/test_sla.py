"""Services with targets: percentiles in order, replicas that follow the load, targets that are just met and just missed, and the presets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from engine_sample import NOWHERE, ask, plan, shipped, solutions, workload

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Percentiles
from planner.engine.answers.plan import SURE, Plan, PlanRow
from planner.engine.evaluate import request_rate
from planner.errors import UserError
from planner.paths import DEFAULT_PRESET
from planner.session import Session
from planner.workload.tasks import LATENCY_TARGETS, Lengths, Targets

pytestmark = pytest.mark.sweep

SERVICES = (DEFAULT_PRESET, "qwen3-30b-a3b-service", "llama-3.2-3b-real-time", "llama-3.2-3b-gathered")
ON_H100: dict[str, Any] = {"gpus_considered": ["H100 SXM5 80GB"], "providers": ["vast-ai"], "max_nodes": 512}


def simulated(found: Plan) -> list[PlanRow]:
    """Rows whose percentiles are of simulated requests."""
    return [row for row in found.rows if str(row.answer.assumed.get("percentiles", "")).startswith("simulated")]


def first(found: Plan) -> PlanRow:
    row = found.rows[0]
    assert row.rank == 1
    assert row in simulated(found)
    return row


def replicas(row: PlanRow) -> int:
    assert row.answer.layout is not None
    return row.answer.layout.dp


def p95(latency: Percentiles | None) -> float:
    assert latency is not None
    assert latency.p95 is not None
    return latency.p95.value


def gpus_needed(**changes: Any) -> int:
    """GPUs of the cheapest solution on H100s at one price."""
    layout = first(plan(DEFAULT_PRESET, **ON_H100 | {"max_gpus": 512} | changes)).answer.layout
    assert layout is not None
    return layout.gpus


def service(**given: Any) -> Answer:
    """Llama 3.1 8B on one H100 at 600 tokens in and 200 out."""
    plain = {"model": "llama-3.1-8b", "task": "serve", "gpu": "H100 SXM5 80GB", "input_tokens": 600, "output_tokens": 200}
    return ask(**plain | given)


@pytest.mark.parametrize("preset", SERVICES)
def test_percentiles_stand_in_order(preset: str) -> None:
    rows = simulated(shipped(preset))
    assert len(rows) >= 3
    for row in rows:
        for latency in (row.answer.ttft_s, row.answer.tpot_s, row.answer.request_s, row.answer.wait_s):
            if latency is None:  # no time between tokens where there is one
                assert workload(preset).output_tokens == 1
                continue
            assert latency.p50 is not None
            assert latency.p99 is not None
            assert 0 <= latency.p50.value <= p95(latency) <= latency.p99.value
            assert latency.mean.value <= latency.p99.value
        assert row.answer.wait_s is not None
        assert row.answer.ttft_s is not None
        assert p95(row.answer.wait_s) <= p95(row.answer.ttft_s) <= p95(row.answer.request_s)
        assert row.answer.utilisation is not None
        assert 0 < row.answer.utilisation.value <= 1


@pytest.mark.parametrize("preset", SERVICES)
def test_the_first_places_are_simulated_and_hold_every_target(preset: str) -> None:
    found, targets = shipped(preset), workload(preset).targets
    assert all(row in simulated(found) for row in solutions(found)[:3])
    for row in solutions(found):
        for name in LATENCY_TARGETS:
            limit, (share, latency, _) = getattr(targets, name), name.split("_")
            if limit is not None:
                assert getattr(getattr(row.answer, f"{latency}_s"), share).value <= limit


def test_what_is_asked_is_what_is_answered() -> None:
    asked = workload(DEFAULT_PRESET)
    for row in simulated(shipped(DEFAULT_PRESET)):
        assert row.answer.requests_per_s is not None
        assert row.answer.requests_per_s.value == pytest.approx(asked.request_rate_per_s), "the traffic, not the room for bursts"
    for rate in (2.0, 11.0):
        found = service(request_rate_per_s=rate)
        assert found.requests_per_s is not None
        assert found.output_tokens_per_s is not None
        assert found.requests_per_s.value == pytest.approx(rate, rel=1e-3)
        assert found.output_tokens_per_s.value == pytest.approx(200 * rate, rel=1e-3)


def test_more_requests_and_higher_bursts_need_no_fewer_gpus() -> None:
    by_rate = [gpus_needed(request_rate_per_s=rate) for rate in (2.0, 8.0, 16.667, 40.0, 100.0)]
    assert by_rate == sorted(by_rate)
    assert by_rate[-1] > 3 * by_rate[1]
    by_burst = [gpus_needed(targets=Targets(p95_request_s=5, burst=burst)) for burst in (0.0, 0.2, 0.5, 1.0, 3.0)]
    assert by_burst == sorted(by_burst)
    assert by_burst[-1] > by_burst[0]


def test_tighter_targets_and_rarer_requests_need_no_fewer_gpus() -> None:
    by_limit = [gpus_needed(targets=Targets(p95_request_s=limit)) for limit in (20.0, 8.0, 5.0, 3.5)]
    assert by_limit == sorted(by_limit)
    assert by_limit[-1] > by_limit[0]
    by_share = [gpus_needed(targets=Targets(**{f"{share}_request_s": 4.5})) for share in ("p50", "p95", "p99")]
    assert by_share == sorted(by_share)


@pytest.mark.parametrize("limit_s", [6.0, 4.0])
def test_one_replica_less_misses_a_target_that_is_just_met(limit_s: float) -> None:
    """The limit is put a hair above and a hair below what the fewest replicas reach; `estimate` agrees, with other requests."""
    rate = 60.0
    asked: dict[str, Any] = {"request_rate_per_s": rate, "gpus_considered": ["H200 SXM"], "max_gpus": 512}

    def simulated_at(limit_s: float) -> list[PlanRow]:
        return simulated(plan(DEFAULT_PRESET, **asked | {"targets": Targets(p95_request_s=limit_s)}))

    begun = simulated_at(limit_s)[0]
    assert begun.answer.layout is not None
    tp = begun.answer.layout.tp

    def at(limit_s: float) -> PlanRow:
        return next(row for row in simulated_at(limit_s) if row.answer.layout and row.answer.layout.tp == tp)

    reached = p95(begun.answer.request_s)
    assert replicas(begun) > 2
    assert reached <= limit_s
    met, missed = at(reached * (1 + 1e-9)), at(reached * (1 - 1e-6))
    assert replicas(met) == replicas(begun)
    assert replicas(begun) < replicas(missed) <= replicas(begun) + 2
    assert p95(missed.answer.request_s) < reached
    given = msgspec.to_builtins(workload(DEFAULT_PRESET))
    shape = {key: given[key] for key in ("model", "task", "engine", "weight_dtype", "kv_dtype", "input_tokens", "output_tokens")}
    fewer = ask(**shape, gpu="H200 SXM", request_rate_per_s=rate, tp=tp, dp=replicas(met) - 1, gpus=tp * (replicas(met) - 1))
    assert p95(fewer.request_s) > reached


@pytest.mark.parametrize("targets", [Targets(p95_request_s=8.0), Targets(p95_ttft_s=0.09), Targets(p95_tpot_s=0.05, burst=0.3)])
def test_more_replicas_than_screened_are_found_where_they_are_needed(targets: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Little's law meets the limits easily, as it knows no limit of first tokens: the rows are those with all numbers simulated."""

    def rows() -> dict[str, tuple[int, Percentiles | None]]:
        """GPU -> the fewest replicas that meet the targets, and their times."""
        found = Session.open(state=NOWHERE, config=NOWHERE).plan(
            workload(DEFAULT_PRESET, targets=targets), basis="spec", levers=False
        )
        by_replicas = sorted(simulated(found), key=replicas, reverse=True)
        return {row.gpu: (replicas(row), row.answer.request_s) for row in by_replicas}

    some = rows()
    monkeypatch.setattr(request_rate, "EASILY", 0.0)
    assert rows() == some


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (
        Session.open(state=NOWHERE, config=NOWHERE).plan(workload("llama-3.2-3b-gathered"), basis="spec") for _ in range(2)
    )
    assert msgspec.json.encode(one) == msgspec.json.encode(other)


def test_replicas_that_do_not_keep_up_say_so() -> None:
    found = service(request_rate_per_s=400.0)
    assert found.fits
    assert str(found.assumed["percentiles"]).startswith("none: 400 requests a second are needed, about ")
    assert (found.ttft_s, found.request_s, found.wait_s, found.utilisation) == (None, None, None, None)
    assert found.requests_per_s is not None
    assert found.requests_per_s.value < 400
    assert service(request_rate_per_s=400.0, gpus=16, tp=1, dp=16).request_s is not None


def test_latencies_and_use_grow_with_the_rate() -> None:
    answers = [service(request_rate_per_s=rate) for rate in (0.2, 1.0, 4.0, 12.0, 20.0)]
    waits = [p95(answer.request_s) for answer in answers]
    assert waits == sorted(waits)
    use = [answer.utilisation.value for answer in answers if answer.utilisation]
    assert use == sorted(use)
    assert use[0] < 0.4
    assert use[-1] > 0.95


def test_bursts_and_varied_lengths_cost_latency() -> None:
    plain = service(request_rate_per_s=15.0)
    bursty = service(request_rate_per_s=15.0, arrival_variation=4.0)
    varied = service(request_rate_per_s=15.0, output_tokens=Lengths(mean=200, p50=150, p95=550))
    even = service(request_rate_per_s=15.0, arrival_variation=0.0)
    assert p95(even.ttft_s) < p95(plain.ttft_s) < p95(bursty.ttft_s)
    assert p95(varied.request_s) > 1.8 * p95(plain.request_s)


def test_one_token_has_no_time_between_tokens() -> None:
    found = service(request_rate_per_s=5.0, output_tokens=1)
    assert found.tpot_s is None
    assert found.decode_tokens_per_s is None
    assert p95(found.ttft_s) == p95(found.request_s)


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ({"targets": Targets(p99_ttft_s=0)}, "targets.p99_ttft_s", "from 0.000001"),
        ({"targets": Targets(p50_request_s=-1)}, "targets.p50_request_s", "from 0.000001"),
        ({"arrival_variation": -0.1}, "arrival_variation", "from 0 to 10"),
        ({"batch_window_s": 0.03, "request_rate_per_s": None, "concurrency": 4}, "request_rate_per_s", "missing"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        service(**{"request_rate_per_s": 5.0} | fields)
    (problem,) = refused.value.problems
    assert problem.key == key
    assert words in problem.message


def test_a_thousand_requests_a_minute_have_a_price() -> None:
    """The mission's question: 1000 a minute, 200 tokens out, 95 of 100 within 5 s, bursts of a fifth."""
    best = first(shipped(DEFAULT_PRESET))
    assert best.gpu in {"H100 SXM5 80GB", "B200 SXM", "H200 SXM"}
    assert 1 <= replicas(best) <= 8
    assert p95(best.answer.request_s) <= 5
    assert best.usd_per_month is not None
    assert 6_000 < best.usd_per_month.value < 20_000
    assert best.answer.assumed["percentiles"] == "simulated, 240 requests at 20.0 a second, seed 0"


@pytest.mark.parametrize(("gpu", "rate"), [("B200 SXM", 1000 / 60), ("B200 SXM", 30.0), ("H100 SXM5 80GB", 60.0)])
def test_a_first_row_that_is_not_sure_has_a_surer_number_of_replicas_beside_it(gpu: str, rate: float) -> None:
    """The surer row has the layout of the first with more replicas."""
    asked = {"request_rate_per_s": rate, "gpus_considered": [gpu], "targets": Targets(p95_request_s=5.0), "max_gpus": 128}
    best, *others = simulated(plan(DEFAULT_PRESET, **asked))
    assert best.rank == 1
    assert (best.probability_meets or 0.0) < 0.895
    surer = next(row for row in others if round(row.probability_meets or 0.0, 2) >= SURE)
    assert best.answer.layout is not None
    assert surer.answer.layout is not None
    assert (surer.answer.layout.tp, surer.answer.layout.pp) == (best.answer.layout.tp, best.answer.layout.pp)
    assert replicas(surer) > replicas(best)
    assert p95(surer.answer.request_s) < p95(best.answer.request_s)


def test_at_one_price_the_surer_layout_comes_first() -> None:
    """Four H100 rented for 5 requests a second: two replicas on two GPUs each meet the limit, one on four does so surely."""
    asked = {"request_rate_per_s": 5.0, "gpus_considered": ["H100 SXM5 80GB"], "targets": Targets(p95_request_s=5.0)}
    best = simulated(plan(DEFAULT_PRESET, **asked))[0]
    assert best.answer.layout is not None
    assert (best.answer.layout.tp, best.answer.layout.dp) == (4, 1)
    assert (best.probability_meets or 0.0) > 0.95


def test_gathering_frees_the_gpu_and_costs_the_window() -> None:
    """Dynamic batching: the same 20 requests a second gathered for longer and longer, on one L4."""
    asked: dict[str, Any] = {
        "gpu": "L4",
        "model": "llama-3.2-3b",
        "input_tokens": 100,
        "output_tokens": 1,
        "request_rate_per_s": 20.0,
    }
    answers = [service(**asked | {"batch_window_s": window}) for window in (0.0, 0.01, 0.03, 0.05)]
    use = [answer.utilisation.value for answer in answers if answer.utilisation]
    assert use == sorted(use, reverse=True)
    assert use[-1] < 0.8 * use[0]
    waits = [answer.request_s.p50.value for answer in answers if answer.request_s and answer.request_s.p50]
    assert waits == sorted(waits)
    assert 0.02 < waits[-1] - waits[0] < 0.06


def test_waiting_for_a_window_is_cheaper_than_answering_at_once() -> None:
    """The same 5.3 million requests a month, as they come and in one window."""
    at_once, in_a_window = first(shipped("llama-3.2-3b-real-time")), shipped("llama-3.2-3b-offline").rows[0]
    assert at_once.usd_per_month is not None
    assert in_a_window.job_usd is not None
    assert in_a_window.job_usd.value < at_once.usd_per_month.value / 3
