"""Plans follow what is asked: objectives, targets, offers, the search's bounds, levers, and what was measured here."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from engine_sample import NOWHERE, gpus_of, plan, session, shipped, solutions, workload

from planner.engine.answers.figure import Basis
from planner.engine.answers.plan import PlanRow
from planner.engine.search import memory_screen
from planner.errors import UserError
from planner.hardware.measurements.measurement import Measurement
from planner.paths import DEFAULT_PRESET
from planner.session import Session
from planner.workload.hardware.owned import Own

pytestmark = pytest.mark.sweep

# --- objectives ---------------------------------------------------------------------------------------------------------


def ascending(values: list[float]) -> bool:
    return all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))


def to_be_had(rows: list[PlanRow]) -> list[PlanRow]:
    """The rows that are rented out, owned or here, which come before those of parts that nobody rents out."""
    had = [row for row in rows if row.usd_per_h is not None or row.here or row.owned is not None]
    assert rows[: len(had)] == had
    return had


@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "qwen3-30b-a3b-service"])
def test_the_cheapest_service_costs_least_an_hour(preset: str) -> None:
    rows = solutions(shipped(preset))
    assert ascending([row.usd_per_h.value for row in rows if row.usd_per_h])


@pytest.mark.parametrize(
    "preset", ["llama-3.1-8b-lora", "llama-3.1-8b-pretrain", "qwen3-8b-single-user-chat", "qwen3-32b-batch-job"]
)
def test_the_cheapest_job_costs_least_a_token(preset: str) -> None:
    rows = solutions(shipped(preset))
    assert ascending([row.answer.usd_per_million_tokens.value for row in rows if row.answer.usd_per_million_tokens])


@pytest.mark.parametrize("preset", ["llama-3.1-8b-lora", "llama-3.1-8b-pretrain", "qwen3-8b-single-user-chat"])
def test_the_fastest_comes_first(preset: str) -> None:
    rows = to_be_had(solutions(plan(preset, objective="fastest")))
    rates = [row.answer.tokens_per_s.value for row in rows if row.answer.tokens_per_s]
    assert len(rates) == len(rows)
    assert ascending(rates[::-1])
    assert rates[0] >= max(
        row.answer.tokens_per_s.value for row in solutions(shipped(preset)) if row.usd_per_h and row.answer.tokens_per_s
    )
    assert rows[0].why.startswith("fastest")


def test_the_fastest_service_answers_soonest() -> None:
    rows = to_be_had(solutions(plan(DEFAULT_PRESET, objective="fastest")))
    waits = [row.answer.request_s.p95.value for row in rows if row.answer.request_s and row.answer.request_s.p95]
    assert len(waits) == len(rows)
    assert ascending(waits)


def test_most_flop_per_dollar_comes_first() -> None:
    rows = solutions(shipped("qwen3-study-1024-tokens"))
    returns = [row.answer.flop_per_usd.value for row in rows if row.answer.flop_per_usd]
    assert len(returns) > 20
    assert ascending(returns[::-1])


def test_the_fewest_gpus_come_first() -> None:
    rows = to_be_had(solutions(plan("llama-3.1-8b-pretrain", objective="fewest-gpus")))
    assert ascending([float(gpus_of(row)) for row in rows])
    assert gpus_of(rows[0]) < gpus_of(solutions(plan("llama-3.1-8b-pretrain", objective="fastest"))[0])


# --- targets ------------------------------------------------------------------------------------------------------------


def test_a_deadline_nothing_meets_is_missed_by_all() -> None:
    found = plan("llama-3.1-8b-lora", targets={"deadline_h": 0.001})
    assert not solutions(found)
    assert found.rows[0].verdict == "misses-target"
    assert "deadline" in found.rows[0].why


def test_a_looser_deadline_never_loses_a_solution() -> None:
    found = [plan("llama-3.1-8b-lora", targets={"deadline_h": hours}) for hours in (1, 12, 100)]
    gpus = [{row.gpu for row in solutions(one)} for one in found]
    assert gpus[0] <= gpus[1] <= gpus[2]
    assert gpus[0] < gpus[2]
    prices = [min(row.job_usd.value for row in solutions(one) if row.job_usd) for one in found]
    assert prices[0] >= prices[1] >= prices[2]


def test_a_budget_turns_solutions_into_misses() -> None:
    free = plan("llama-3.1-8b-lora")
    costs = sorted(row.job_usd.value for row in solutions(free) if row.job_usd)
    limit = costs[len(costs) // 4]
    tight = plan("llama-3.1-8b-lora", targets={"deadline_h": 12, "budget_usd": limit})
    paid = [row.job_usd.value for row in solutions(tight) if row.job_usd]
    assert paid
    assert max(paid) <= limit
    over = [row for row in tight.rows if row.verdict == "misses-target" and "budget" in row.why]
    assert over
    assert all(row.job_usd is None or row.job_usd.value > limit for row in over)


def test_a_budget_of_a_service_is_of_a_month() -> None:
    cheapest = solutions(shipped(DEFAULT_PRESET))[0]
    assert cheapest.usd_per_month is not None
    month = cheapest.usd_per_month.value
    targets = {"p95_request_s": 5, "burst": 0.2}
    enough, less = (plan(DEFAULT_PRESET, targets=targets | {"budget_usd": month * share}) for share in (1.001, 0.999))
    assert solutions(enough)[0].gpu == cheapest.gpu
    assert not [row for row in solutions(less) if row.usd_per_h is not None]


def test_latency_targets_flip_verdicts() -> None:
    strict = plan(DEFAULT_PRESET, targets={"p95_request_s": 0.05})
    assert not solutions(strict)
    assert "misses: p95 " in strict.rows[0].why


def test_headroom_left_free_costs_candidates() -> None:
    some, much = (plan("llama-3.1-8b-lora", targets={"headroom": share}) for share in (0.02, 0.5))
    assert much.counts.fit < some.counts.fit
    assert all(
        row.answer.memory_bytes.total.value <= 0.5 * row.answer.memory_bytes.capacity
        for row in solutions(much)
        if row.answer.memory_bytes
    )


# --- offers -------------------------------------------------------------------------------------------------------------


def test_only_the_asked_providers_are_offered() -> None:
    found = plan(DEFAULT_PRESET, providers=["aws", "lambda"])
    offered = {row.offer.provider for row in found.rows if row.offer}
    assert offered
    assert offered <= {"aws", "lambda"}
    everyone = {row.offer.provider for row in shipped(DEFAULT_PRESET).rows if row.offer}
    assert len(everyone) > 2


def test_a_market_without_a_price_is_no_offer() -> None:
    """A provider that has no spot prices offers nothing on spot."""
    no_spot = {offer.provider for offer in session().offers} - {
        offer.provider for offer in session().offers if offer.spot_usd_per_h
    }
    provider = min(no_spot)
    assert any(row.offer for row in plan(DEFAULT_PRESET, providers=[provider]).rows)
    spot = plan(DEFAULT_PRESET, providers=[provider], market="spot")
    assert not any(row.offer or row.usd_per_h for row in spot.rows)
    assert spot.prices_as_of is None


def test_spot_prices_are_those_of_the_offers() -> None:
    known = {(offer.provider, offer.instance, offer.gpu) for offer in session().offers if offer.spot_usd_per_h}
    rows = [row for row in plan(DEFAULT_PRESET, market="spot").rows if row.offer]
    assert rows
    for row in rows:
        assert row.offer is not None
        assert row.offer.market == "spot"
        assert (row.offer.provider, row.offer.instance, row.gpu) in known


def test_a_price_given_is_that_of_the_gpus_named() -> None:
    """2.50 $ for an RTX 3090 says nothing of a B200; where no GPU is named it is this machine's."""
    named = plan("qwen3-8b-single-user-chat", price_usd_per_gpu_h=2.5, gpus_considered=["RTX 3090", "L40S"])
    assert solutions(named)
    for row in solutions(named):
        assert row.offer is None
        assert row.usd_per_h is not None
        assert row.usd_per_h.value == pytest.approx(2.5 * gpus_of(row))
    unnamed = plan("qwen3-8b-single-user-chat", price_usd_per_gpu_h=2.5, dtype="fp32")  # a rate of every processor is known
    assert any(row.here for row in unnamed.rows)
    assert all(row.offer for row in solutions(unnamed) if row.usd_per_h and not row.here)
    assert all(row.usd_per_h is not None and row.usd_per_h.value == 2.5 * gpus_of(row) for row in unnamed.rows if row.here)
    assert any("price_usd_per_gpu_h" in note for note in unnamed.notes)
    assert not named.notes


def test_a_table_of_prices_is_one_for_each_gpu() -> None:
    """Others keep their offers; names may be aliases, and one nobody knows is named with its key."""
    prices = {"rtx 3090": 2.5, "L40S": 0.1}
    found = plan("qwen3-8b-single-user-chat", price_usd_per_gpu_h=prices, gpus_considered=["RTX 3090", "L40S", "RTX 4090"])
    each = {"RTX 3090": 2.5, "L40S": 0.1}
    assert {row.gpu for row in solutions(found)} == {*each, "RTX 4090"}
    for row in solutions(found):
        assert (row.offer is None) == (row.gpu in each)
        if row.gpu in each:
            assert row.usd_per_h is not None
            assert row.usd_per_h.value == pytest.approx(each[row.gpu] * gpus_of(row))
    assert found.rows[0].gpu == "L40S"
    assert not found.notes
    with pytest.raises(UserError, match=r"price_usd_per_gpu_h\.L4O"):
        plan("qwen3-8b-single-user-chat", price_usd_per_gpu_h={"L4O": 1.0})


def test_prices_are_as_old_as_the_oldest_offer() -> None:
    found = shipped(DEFAULT_PRESET)
    assert found.prices_as_of == min(row.offer.as_of for row in found.rows if row.offer and row.offer.as_of.count("-") == 2)


def test_the_same_gpu_elsewhere_is_dearer() -> None:
    found = shipped(DEFAULT_PRESET)
    first = found.rows[0]
    others = [
        row
        for row in found.rows
        if row.gpu == first.gpu and row.answer.layout == first.answer.layout and row.offer and row is not first
    ]
    assert first.offer is not None
    assert others
    for row in others:
        assert row.offer is not None
        assert row.offer.provider != first.offer.provider
        assert row.offer.usd_per_h >= first.offer.usd_per_h


# --- the search ---------------------------------------------------------------------------------------------------------


def test_only_the_asked_gpus_are_considered() -> None:
    found = plan(DEFAULT_PRESET, gpus_considered=["h100", "L40S"])
    assert {row.gpu for row in found.rows} == {session().gpus.find("h100").name, session().gpus.find("l40s").name}
    with pytest.raises(UserError, match="'H1000'"):
        plan(DEFAULT_PRESET, gpus_considered=["H1000"])


def test_more_gpus_never_lose_a_solution() -> None:
    few, many = (plan("llama-3.1-8b-pretrain", max_gpus=most) for most in (256, 1024))
    assert {row.gpu for row in solutions(few)} <= {row.gpu for row in solutions(many)}
    assert all(gpus_of(row) <= 256 for row in solutions(few))


def test_pretraining_405b_on_one_t4_has_no_solution_but_levers() -> None:
    asked = workload("llama-3.1-405b-pretrain", gpus_considered=["T4"], max_gpus=1, dtype=None)
    found = session().plan(asked, basis="spec")
    assert not solutions(found)
    (row,) = (row for row in found.rows if not row.here)
    assert row.verdict == "does-not-fit"
    assert "short" in row.why
    assert row.answer.memory_bytes is not None
    assert row.answer.memory_bytes.weights == pytest.approx(2 * 405_853_388_800)
    assert len(found.levers) >= 2
    assert all(lever.change and lever.text for lever in found.levers)
    assert any(lever.saves_bytes for lever in found.levers)


def test_a_lever_keeps_its_word() -> None:
    """Changed as a lever says, the workload has the solution it promises."""
    asked = workload("llama-3.1-70b-chat-service", gpus_considered=["L4"], max_gpus=2, targets={"p95_request_s": 60})
    found = session().plan(asked, basis="spec")
    promised = [lever for lever in found.levers if lever.gpu]
    assert not solutions(found)
    assert promised
    for lever in promised:
        changed = session().workload(msgspec.to_builtins(asked) | lever.change, "test")
        assert lever.gpu in {row.gpu for row in solutions(session().plan(changed, basis="spec"))}


def test_a_part_without_the_dtype_is_not_supported_and_says_what_it_has() -> None:
    found = plan("llama-3.1-8b-lora", dtype="bf16", gpus_considered=["T4"])
    (row,) = (row for row in found.rows if not row.here)
    assert row.verdict == "not-supported"
    assert "fp16" in row.why


# --- measurements -------------------------------------------------------------------------------------------------------


def test_the_basis_is_ordered_from_weakest_to_strongest() -> None:
    assert get_args(Basis) == ("spec", "public", "transferred", "measured")


def test_without_measurements_both_bases_agree() -> None:
    asked = workload("qwen3-study-small")
    assert session().plan(asked) == session().plan(asked, basis="spec")
    assert {row.basis for row in shipped("qwen3-study-small").rows} == {"spec", "public"}


def measured(opened: Session, kind: str, point: str, **given: Any) -> Measurement:
    return Measurement(
        point=point,
        kind=kind,  # type: ignore[arg-type]  # one of two literals below
        device=opened.machine.cpu.name,
        fingerprint="machine-software",
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
        suite="quick",
        run="r1",
        low=given["value"] * 0.99,
        high=given["value"] * 1.01,
        samples=20,
        **given,
    )


def test_a_measurement_of_this_machine_replaces_the_data_sheet(tmp_path: Path) -> None:
    opened = Session.open(state=tmp_path, config=tmp_path)
    shape = {"m": 2048, "n": 2048, "k": 2048, "cache": "cold"}
    cpu = opened.machine.cpu
    dtype = "bf16" if "bf16" in cpu.compute_flop_per_s else "fp32"
    asked = opened.workload(msgspec.to_builtins(opened.presets.load("qwen3-study-small").workload) | {"dtype": dtype}, "test")

    def here() -> PlanRow:
        return next(row for row in opened.plan(asked).rows if row.gpu == cpu.name)

    before = here()
    slow = cpu.compute_flop_per_s[dtype] / 50
    opened.store.add(
        measured(opened, "gemm", f"gemm/{dtype}/2048x2048x2048", dtype=dtype, parameters=shape, value=slow, flop=2.0 * 2048**3)
    )
    opened.store.add(
        measured(opened, "copy", "copy/1GiB", parameters={"bytes": 2**30, "cache": "cold"}, value=2e9, bytes=2.0 * 2**30)
    )
    opened.refresh()
    after = here()
    assert before.basis == "spec"
    assert before.spec_answer is None
    assert after.basis == "measured"
    assert after.spec_answer is not None
    assert after.answer.tokens_per_s is not None
    assert before.answer.tokens_per_s is not None
    assert after.answer.tokens_per_s.value < before.answer.tokens_per_s.value
    assert after.spec_answer.tokens_per_s is not None
    assert after.spec_answer.tokens_per_s.value == pytest.approx(before.answer.tokens_per_s.value)
    plain = next(row for row in opened.plan(asked, basis="spec").rows if row.gpu == cpu.name)
    assert plain.answer == before.answer


@pytest.mark.parametrize("preset", ["llama-3.1-8b-pretrain", "llama-3.1-8b-lora"])
def test_no_more_is_recomputed_than_memory_asks_for(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes more again than a candidate that surely fits is left out before it is timed; rows are the same with it."""
    of = workload(preset, max_gpus=16)
    found = session().plan(of, basis="spec")
    monkeypatch.setattr(memory_screen, "_needlessly_recomputed", lambda _, surely: np.zeros_like(surely))
    whole = Session.open(state=NOWHERE, config=NOWHERE).plan(of, basis="spec")
    assert found.counts == whole.counts
    assert [(row.gpu, row.answer.layout, row.verdict) for row in found.rows] == [
        (row.gpu, row.answer.layout, row.verdict) for row in whole.rows
    ]


# --- a GPU beside others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", ["H100 SXM5 80GB", "A100 80GB SXM", "RTX PRO 6000 Blackwell Server"])
def test_a_gpu_costs_a_replica_more_at_most_than_asked_for_alone(gpu: str) -> None:
    """Only the first places are simulated: the others are sized by Little's law, which may differ by a replica."""

    def first(rows: list[PlanRow]) -> PlanRow:
        return next(row for row in rows if row.gpu == gpu)

    beside, alone = first(solutions(shipped(DEFAULT_PRESET))), first(solutions(plan(DEFAULT_PRESET, gpus_considered=[gpu])))
    assert beside.answer.request_s is not None
    assert beside.answer.request_s.p95 is not None
    assert alone.answer.request_s is not None
    assert alone.answer.request_s.p95 is not None
    assert beside.usd_per_h is not None
    assert alone.usd_per_h is not None
    assert beside.usd_per_h.value == pytest.approx(alone.usd_per_h.value, rel=0.15)
    assert beside.answer.request_s.p95.value == pytest.approx(alone.answer.request_s.p95.value, rel=0.15)


@pytest.mark.parametrize(
    ("load", "targets"),
    [({"concurrency": 20}, {}), ({"concurrency": 20}, {"p95_request_s": 3}), ({"request_rate_per_s": 2.0}, {"p95_request_s": 3})],
)
def test_without_a_price_the_fewest_gpus_that_serve_the_load_come_first(load: dict[str, Any], targets: dict[str, float]) -> None:
    asked = {"concurrency": None, "request_rate_per_s": None, **load, "targets": targets, "gpus_considered": ["A800 80GB SXM"]}
    found = plan("llama-3.1-70b-chat-service", model="qwen3-14b", weight_dtype="bf16", kv_dtype="bf16", **asked)
    rows = solutions(found)
    assert "by number of GPUs" in rows[0].why
    assert gpus_of(rows[0]) == min(map(gpus_of, rows)) <= 4


def test_a_part_that_nobody_rents_out_is_ranked_where_it_is_named_or_owned() -> None:
    """The catalogue has parts of people's desks, which would fill every ranking with rows without a price."""
    named = plan("qwen3-30b-a3b-service", gpus_considered=["GeForce RTX 3060"])
    assert {row.gpu for row in named.rows} == {"RTX 3060 12GB"}
    assert "GeForce RTX 3060 is read as RTX 3060 12GB, the most common GPU of that name." in named.notes
    owned = plan("qwen3-30b-a3b-service", own=[Own(gpu="M2 Ultra", count=1)])
    only_named = {gpu.name for gpu in session().gpus.all if gpu.only_named}
    assert {row.gpu for row in owned.rows} & only_named == {"Apple M2 Ultra 192GB"}
    assert not {row.gpu for row in plan("qwen3-30b-a3b-service").rows} & only_named
