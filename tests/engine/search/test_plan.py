"""Plans of every shipped workload: solutions ranked whole, every row with its reason, every number a number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from engine_sample import each_preset, gpus_of, plan, session, shipped, solutions, workload

from planner.engine.answers.plan import SOLUTIONS, Plan, Verdict
from planner.paths import DEFAULT_PRESET

VERDICTS = get_args(Verdict)
JOBS = ("llama-3.1-8b-lora", "llama-3.1-8b-pretrain", "mixtral-8x7b-lora", "qwen3-32b-batch-job")


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(numbers, value.values()))
    elif isinstance(value, (list, tuple)):
        yield from itertools.chain.from_iterable(map(numbers, value))
    elif isinstance(value, float):
        yield value


@pytest.mark.parametrize("preset", each_preset())
def test_a_shipped_workload_has_solutions_ranked_without_gaps(preset: str) -> None:
    found = shipped(preset)
    ranks = [row.rank for row in found.rows if row.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    assert len(ranks) >= 3
    order = [VERDICTS.index(row.verdict) for row in found.rows]
    assert order == sorted(order)
    assert all((row.rank is not None) == (row.verdict in SOLUTIONS) for row in found.rows)


@pytest.mark.parametrize("preset", each_preset())
def test_every_row_says_why(preset: str) -> None:
    for row in shipped(preset).rows:
        assert row.why.strip()
        assert row.answer.fits == (row.verdict in {*SOLUTIONS, "misses-target"})
        assert (row.answer.reason is None) == row.answer.fits
        if row.verdict == "misses-target":
            assert row.why.startswith("misses: ")
        if row.rank:
            assert "limited by" in row.why


@pytest.mark.sweep
@pytest.mark.parametrize("preset", each_preset())
def test_every_number_is_one(preset: str) -> None:
    """Values are checked, as JSON would write null for what is not a number."""
    found = shipped(preset)
    assert all(math.isfinite(number) for number in numbers(msgspec.to_builtins(found)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found


@pytest.mark.parametrize("preset", each_preset())
def test_counts_are_of_what_was_looked_at(preset: str) -> None:
    found = shipped(preset)
    assert found.counts.shown == len(found.rows)
    assert found.counts.considered >= found.counts.fit >= len({(row.gpu, gpus_of(row)) for row in solutions(found)}) > 0
    gpus = {gpu.name for gpu in session().gpus.all if not gpu.only_named}
    assert {row.gpu for row in found.rows if not row.here} == gpus


@pytest.mark.parametrize("preset", each_preset())
def test_this_machine_is_among_the_rows(preset: str) -> None:
    here = [row for row in shipped(preset).rows if row.here]
    assert session().machine.cpu.name in {row.gpu for row in here}
    assert all(row.offer is None for row in here)


@pytest.mark.parametrize("preset", each_preset())
def test_a_solution_holds_together(preset: str) -> None:
    asked = workload(preset)
    for row in solutions(shipped(preset)):
        layout, memory = row.answer.layout, row.answer.memory_bytes
        assert layout is not None
        assert memory is not None
        assert layout.gpus == layout.tp * layout.pp * layout.dp * layout.cp
        assert layout.gpus <= (asked.max_gpus or math.inf)
        assert memory.total.value <= memory.capacity * 0.9
        if row.offer is not None:
            assert row.offer.instances * row.offer.gpus >= layout.gpus
            assert row.usd_per_h is not None
            assert row.usd_per_h.value == pytest.approx(row.offer.usd_per_h)
            assert row.usd_per_month is not None
            assert row.usd_per_month.value == pytest.approx(730 * row.usd_per_h.value)


@pytest.mark.parametrize("preset", each_preset())
def test_solutions_meet_the_targets(preset: str) -> None:
    targets = workload(preset).targets
    for row in solutions(shipped(preset)):
        answer = row.answer
        if targets.deadline_h is not None:
            assert row.job_h is not None
            assert row.job_h.value <= targets.deadline_h
        for limit, latency in (
            (targets.p95_request_s, answer.request_s),
            (targets.p95_ttft_s, answer.ttft_s),
            (targets.p95_tpot_s, answer.tpot_s),
        ):
            if limit is not None:
                assert latency is not None
                assert latency.p95 is not None
                assert latency.p95.value <= limit


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.2-3b-real-time", "qwen3-30b-a3b-service"])
def test_a_service_has_replicas_for_its_burst(preset: str) -> None:
    asked = workload(preset)
    calm = plan(preset, targets=msgspec.to_builtins(msgspec.structs.replace(asked.targets, burst=0.0)))
    fewest = [
        sum(min(gpus_of(row) for row in solutions(found) if row.gpu == gpu) for gpu in ("H200 SXM", "B200 SXM"))
        for found in (calm, shipped(preset))
    ]
    assert fewest[0] <= fewest[1]
    for row in solutions(shipped(preset)):
        assert row.answer.requests_per_s is not None
        assert row.answer.requests_per_s.value == pytest.approx(asked.request_rate_per_s), "what comes is answered, and no more"


@pytest.mark.parametrize("preset", JOBS)
def test_a_job_costs_its_hours(preset: str) -> None:
    asked = workload(preset)
    for row in solutions(shipped(preset)):
        rate = row.answer.tokens_per_s if asked.train_tokens else row.answer.requests_per_s
        amount = asked.train_tokens or asked.requests
        assert rate is not None
        assert amount is not None
        assert row.job_h is not None
        taken_away = row.offer is not None and row.offer.market == "spot"
        assert row.job_h.value == pytest.approx(amount / rate.value / 3600, rel=0.02 if taken_away else 1e-6)
        assert row.job_h.value >= amount / rate.value / 3600 * (1 if taken_away else 1 - 1e-9)
        if row.usd_per_h is not None:
            assert row.job_usd is not None
            assert row.job_usd.value == pytest.approx(row.job_h.value * row.usd_per_h.value)


def test_planning_twice_gives_one_plan() -> None:
    assert plan(DEFAULT_PRESET) == shipped(DEFAULT_PRESET)


def test_the_first_rows_and_this_machine() -> None:
    whole, cut = shipped(DEFAULT_PRESET), session().plan(workload(DEFAULT_PRESET), basis="spec", top=5)
    assert cut.rows[:5] == whole.rows[:5]
    assert [row.gpu for row in cut.rows[5:]] == [row.gpu for row in whole.rows[5:] if row.here]
    assert cut.counts.considered == whole.counts.considered
    gpus = session().plan(workload(DEFAULT_PRESET), basis="spec", top=5, each_gpu=True)
    best = {row.gpu: row.rank for row in reversed(whole.rows) if not row.here}
    assert [(row.gpu, row.rank) for row in gpus.rows if not row.here] == sorted(best.items(), key=lambda one: one[1] or 1e9)[:5]
    assert gpus.counts.shown == len(gpus.rows)


def test_defaults_that_were_filled_in_are_in_the_task() -> None:
    found = plan("llama-3.1-70b-chat-service").task
    assert found["dtype"] == "fp8"
    assert found["targets"] == {"p95_request_s": 5.0, "burst": 0.2, "headroom": 0.1}
    assert found["model"] == "llama-3.1-70b"


@pytest.mark.parametrize("preset", each_preset())
def test_unknown_prices_come_after_known_ones(preset: str) -> None:
    priced = [row.usd_per_h is not None for row in solutions(shipped(preset))]
    assert priced == sorted(priced, reverse=True)
    assert priced[0]
