"""When nothing fits: what would change that, in order of what it costs, judged by the engine that said no."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import msgspec
import pytest
from engine_sample import session, solutions, workload

from planner.engine.answers.plan import Lever, Plan
from planner.engine.levers.changes import changes_of, combined
from planner.present.choice.levers import cost_text
from planner.workload.tasks import Workload

CASES: dict[str, dict[str, Any]] = {
    "70B full fine-tune on one A100": {
        "model": "llama-3.1-70b", "task": "finetune", "recipe": "mixed", "optimizer": "adamw", "sequence": 2048,
        "gpus_considered": ["A100 80GB SXM"], "max_gpus": 1,
    },
    "8B training in bf16 on 24 GB": {
        "model": "llama-3.1-8b", "task": "finetune", "recipe": "bf16", "optimizer": "adamw", "sequence": 1024, "micro_batch": 1,
        "gpus_considered": ["RTX 4090"], "max_gpus": 1,
    },
    "70B served by one L40S": {
        "model": "llama-3.1-70b", "task": "serve", "input_tokens": 1000, "output_tokens": 300, "concurrency": 8,
        "gpus_considered": ["L40S"], "max_gpus": 1,
    },
    "weights in 16 bit on four L4": {
        "model": "mixtral-8x7b", "task": "serve", "input_tokens": 2000, "output_tokens": 300, "concurrency": 16,
        "gpus_considered": ["L4"], "max_gpus": 4,
    },
    "32k tokens of context on 24 GB": {
        "model": "llama-3.1-8b", "task": "serve", "input_tokens": 32000, "output_tokens": 512, "concurrency": 4,
        "gpus_considered": ["RTX 4090"], "max_gpus": 1,
    },
    "everything kept for backward": {
        "model": "llama-3.1-8b", "task": "finetune", "recipe": "bf16", "lora": {"rank": 16}, "sequence": 4096, "micro_batch": 4,
        "checkpointing": "none", "loss": "full", "gpus_considered": ["RTX 4090"], "max_gpus": 1,
    },
    "plain data parallelism": {
        "model": "qwen3-0.6b", "task": "train", "recipe": "mixed", "sharding": "none", "sequence": 512, "micro_batch": 1,
        "checkpointing": "none", "gpus_considered": ["RTX 3080 10GB"], "max_gpus": 8, "fabric": "ethernet",
    },
}  # fmt: skip


@cache
def asked(case: str) -> Workload:
    return session().workload(CASES[case], case)


@cache
def found_within(case: str) -> tuple[Plan, float]:
    """A plan with its levers, and the processor seconds it took."""
    began = time.process_time()
    return session().plan(asked(case), basis="spec"), time.process_time() - began


def found(case: str) -> Plan:
    return found_within(case)[0]


def promised(case: str) -> list[Lever]:
    return [lever for lever in found(case).levers if lever.gpu]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_levers_keep_their_word(case: str) -> None:
    assert not solutions(found(case))
    assert promised(case)
    for lever in promised(case):
        changed = session().workload(msgspec.to_builtins(asked(case)) | msgspec.to_builtins(lever.change), case)
        rows = [row for row in session().plan(changed, basis="spec", levers=False).rows if row.rank and row.answer.layout]
        kept = {row.verdict for row in rows if (row.gpu, row.answer.layout and row.answer.layout.gpus) == (lever.gpu, lever.gpus)}
        assert kept, lever.text
        assert ("may fit" in lever.text) <= ("may-not-fit" in kept)


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_levers_that_are_not_enough_say_so_and_are_not(case: str) -> None:
    for lever in found(case).levers:
        if lever.gpu is None:
            changed = session().workload(msgspec.to_builtins(asked(case)) | msgspec.to_builtins(lever.change), case)
            assert not solutions(session().plan(changed, basis="spec", levers=False))
            assert "not enough" in lever.text or "misses" in lever.text
            assert lever.saves_bytes


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_solutions_come_first_and_what_only_costs_time_before_another_job(case: str) -> None:
    levers = found(case).levers
    assert [lever.gpu is None for lever in levers] == sorted(lever.gpu is None for lever in levers)
    dear = ["time", "precision", "margin", "hardware", "job"]
    gentle = [dear.index(lever.costs) for lever in promised(case) if lever.costs and (lever.slowdown or 0.0) < 0.05]
    assert gentle == sorted(gentle)
    rest = [(lever.costs == "job", -(lever.saves_bytes or 0.0)) for lever in levers if lever.gpu is None]
    assert rest == sorted(rest)


@pytest.mark.sweep
def test_half_the_load_is_other_work_and_says_what_it_was() -> None:
    """The smaller load stood second, as if it were as good as another format."""
    asked = CASES["70B served by one L40S"] | {"targets": {"p95_request_s": 9}, "gpus_considered": ["L40S", "L4"]}
    levers = session().plan(session().workload(asked, "test"), basis="spec").levers
    fewer = [place for place, lever in enumerate(levers) if "concurrency" in lever.change]
    assert fewer
    for place in fewer:
        assert "at once instead of 8" in levers[place].text
        assert "another job" in cost_text(levers[place])
        assert all(after.costs == "job" or not after.gpu for after in levers[place:])


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_every_lever_says_what_it_saves_and_costs(case: str) -> None:
    for lever in found(case).levers:
        assert lever.slowdown is not None
        assert cost_text(lever)
        if lever.costs != "hardware":
            assert lever.saves_bytes is not None
            assert lever.saves_bytes > 0


def lever_with(case: str, **change: Any) -> Lever:
    return next(lever for lever in found(case).levers if lever.change == change)


def test_recomputing_costs_time_about_a_third_of_a_step() -> None:
    lever = lever_with("everything kept for backward", checkpointing="full")
    assert lever.costs == "time"
    assert lever.slowdown is not None
    assert 0.1 < lever.slowdown < 0.6
    assert "slower" in cost_text(lever)


def test_the_saving_of_a_lever_is_that_of_the_same_layout() -> None:
    """Recomputed by giving both candidates in full."""
    case = "plain data parallelism"
    lever = next(lever for lever in promised(case) if "sharding" in lever.change)
    from engine_sample import memory

    given = {
        "model": "qwen3-0.6b", "task": "train", "recipe": "mixed", "sequence": 512, "micro_batch": 1, "gpu": "RTX 3080 10GB",
        "gpus": lever.gpus, "dp": lever.gpus, "checkpointing": "none", "dtype": "bf16",
    }  # fmt: skip
    plain, sharded = (memory(**given, sharding=stage).total.value for stage in ("none", lever.change["sharding"]))
    assert lever.saves_bytes == pytest.approx(plain - sharded)


def test_weights_that_change_the_dtype_of_products_are_held_against_those_before() -> None:
    """Products of FP8 weights are in FP8: what they save and how much faster they are is against 16 bit, as both plans have it."""
    case = "weights in 16 bit on four L4"
    lever, before = lever_with(case, weight_dtype="fp8"), found(case).rows[0].answer
    after = session().plan(session().workload({**CASES[case], "weight_dtype": "fp8"}), basis="spec").rows[0].answer
    assert before.layout is not None
    assert after.layout is not None
    assert (before.layout.tp, before.layout.gpus) == (after.layout.tp, after.layout.gpus), (
        "the same layout, or times differ by it too"
    )
    assert before.tokens_per_s is not None
    assert after.tokens_per_s is not None
    assert lever.slowdown == pytest.approx(before.tokens_per_s.value / after.tokens_per_s.value - 1, abs=0.01)
    assert before.memory_bytes is not None
    assert after.memory_bytes is not None
    assert lever.saves_bytes == pytest.approx(before.memory_bytes.total.value - after.memory_bytes.total.value, rel=0.1)
    assert cost_text(lever).startswith("saves 10")


def test_the_mildest_stage_that_is_enough_is_named() -> None:
    stages = [lever.change["sharding"] for lever in promised("plain data parallelism") if "sharding" in lever.change]
    assert len(stages) == 1
    milder = {"zero1": (), "zero2": ("zero1",), "zero3": ("zero1", "zero2")}[stages[0]]
    for stage in milder:
        changed = session().workload(CASES["plain data parallelism"] | {"sharding": stage}, "test")
        assert not solutions(session().plan(changed, basis="spec", levers=False))


def test_two_changes_are_combined_where_one_is_not_enough() -> None:
    case = "32k tokens of context on 24 GB"
    pairs = [lever for lever in promised(case) if len(lever.change) == 2 and "engine" not in lever.change]
    assert pairs
    for lever in pairs:
        assert lever.text.count(" + ") == len(lever.change) - 1
        for left_out in lever.change:
            fewer = {key: value for key, value in lever.change.items() if key != left_out}
            changed = session().workload(CASES[case] | msgspec.to_builtins(fewer), "test")
            assert not solutions(session().plan(changed, basis="spec", levers=False)), "the pair holds a change it does not need"


def test_more_gpus_are_as_few_as_do() -> None:
    case = "70B full fine-tune on one A100"
    lever = next(lever for lever in promised(case) if lever.change.keys() == {"max_gpus"})
    most = lever.change["max_gpus"]
    assert lever.gpus == most
    changed = session().workload(CASES[case] | {"max_gpus": most // 2}, "test")
    assert not solutions(session().plan(changed, basis="spec", levers=False))


@pytest.mark.sweep
def test_what_misses_a_target_is_not_told_to_save_memory() -> None:
    slow = session().workload({"model": "gpt2", "task": "train", "train_tokens": 1e9, "targets": {"deadline_h": 1e-4}}, "test")
    plan = session().plan(slow, basis="spec")
    assert not solutions(plan)
    assert all(lever.gpu for lever in plan.levers)


def limited(tpot_s: float) -> Plan:
    fields = CASES["70B served by one L40S"] | {"model": "llama-3.1-8b", "targets": {"p95_tpot_s": tpot_s}}
    return session().plan(session().workload(fields, "test"), basis="spec")


@pytest.mark.sweep
def test_a_target_missed_by_little_may_be_looser() -> None:
    met = limited(1.0).rows[0].answer.tpot_s
    assert met is not None
    assert met.p95 is not None
    reached = met.p95.value
    (looser,) = [lever for lever in limited(reached / 1.1).levers if lever.costs == "target"]
    assert looser.text.startswith("p95 TPOT of ")
    wanted = looser.change["targets"].p95_tpot_s
    assert reached <= wanted < 1.1 * reached
    assert solutions(limited(wanted))
    assert not [lever for lever in limited(reached / 1.3).levers if lever.costs == "target"], "not by little"


def test_changes_combined_cost_the_dearest_of_them() -> None:
    changes = {next(iter(change.keys)): change for change in changes_of(asked("plain data parallelism"))}
    both = combined([changes["optimizer"], changes["max_gpus"]])
    assert (both.costs, both.keys) == ("hardware", changes["optimizer"].keys | changes["max_gpus"].keys)


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_levers_come_within_a_second(case: str) -> None:
    """Half of one on an idle machine; the limit allows for a slow processor that others use too, and for a first plan that loads modules."""
    assert found_within(case)[1] < 2.5


@pytest.mark.parametrize(
    ("slowdown", "words"),
    [
        (0.31, "31 % slower"),
        (1.5, "2.5 times as slow"),
        (-0.2, "25 % faster"),
        (-0.75, "4.0 times as fast"),
        (0.001, "as fast"),
        (None, ""),
    ],
)
def test_how_a_slowdown_reads(slowdown: float | None, words: str) -> None:
    assert cost_text(Lever(change={}, text="", slowdown=slowdown)) == words


@pytest.mark.sweep
def test_a_model_too_large_for_its_card_may_keep_weights_on_the_host() -> None:
    keys = {"task": "generate", "model": "llama-3.1-70b", "weight_dtype": "q4_k_m", "dtype": "fp16", "engine": "llama.cpp"}
    of = workload("llama-3.2-3b-offline", **keys, gpus_considered=["RTX 4090"], batch=1, max_gpus=1)
    change = next(one for one in changes_of(of) if one.keys == {"offload": "parameters"})
    assert not session().plan(of, basis="spec").rows[0].answer.fits
    assert session().plan(msgspec.structs.replace(of, **change.keys), basis="spec").rows[0].answer.fits
    assert all("offload" not in one.keys for one in changes_of(workload("llama-3.1-70b-chat-service")))


@pytest.mark.parametrize(
    ("model", "narrower"), [("llama-3.1-8b", ["fp8", "int4"]), ("deepseek-v3", ["int4"]), ("gpt-oss-120b", [])]
)
def test_weights_are_made_narrower_than_they_are_published(model: str, narrower: list[str]) -> None:
    asked = session().workload({"model": model, "task": "serve", "request_rate_per_s": 1.0})
    stored_as = session().architecture(model).stored_as
    assert [one.keys["weight_dtype"] for one in changes_of(asked, stored_as) if "weight_dtype" in one.keys] == narrower


def test_the_owner_of_one_gpu_is_offered_llama_cpp_and_a_server_of_many_is_not() -> None:
    """A second GPU came first for a model that people run on one."""
    coder = {"model": "qwen2.5-coder-32b", "task": "serve", "concurrency": 1, "gpus_considered": ["RTX 4090"]}
    plan = session().plan(session().workload(coder | {"max_gpus": 1}, "test"), basis="spec", hints=True)
    first = plan.levers[0]
    assert first.change == {"weight_dtype": "q4_k_m", "engine": "llama.cpp"}
    assert (first.gpu, first.gpus) == ("RTX 4090", 1)
    assert "llama.cpp would do, on 1 GPU" in plan.rows[0].why
    for most, offered in ((2, True), (8, False)):
        changes = changes_of(session().workload(coder | {"max_gpus": most}, "test"))
        assert any("engine" in change.keys for change in changes) == offered
