"""Where the time goes: operators add up to what the row says, class by class, whatever the workload."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from engine_sample import chip, evaluated, plan, session, workload
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_sample import PRESETS, TASKS, asked

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import Operator, TimeDetail
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.explain.details import detail_of
from planner.engine.explain.operator_times import _parts, number
from planner.engine.performance.operators.attention import attended_tokens
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES, Pass
from planner.engine.performance.operators.matrix_products import flop_per_token, pass_products
from planner.units import duration_text
from planner.workload.tasks import Workload


def detail(of: Workload, row: PlanRow) -> TimeDetail:
    found = session().time_detail(of, row, basis="spec")
    assert found is not None
    return found


def by_kind(operators: list[Operator]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one in operators:
        found[one.kind] += one.seconds
    return found


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(preset=st.sampled_from(PRESETS), task=st.sampled_from(sorted(TASKS)), place=st.floats(0, 1, exclude_max=True))
def test_operators_add_up_to_the_row_class_by_class(preset: str, task: str, place: float) -> None:
    of, found = asked(preset, task)
    rows = [row for row in found.rows if row.answer.seconds_by_class]
    row = rows[int(place * len(rows))]
    told = detail(of, row)
    assert by_kind(told.operators) == pytest.approx(row.answer.seconds_by_class, rel=1e-9)
    assert told.total_s == pytest.approx(sum(row.answer.seconds_by_class.values()), rel=1e-9)
    assert all(one.seconds > 0 and one.name for one in told.operators)
    phases = told.phases()
    assert sum(phase.seconds for phase in phases) == pytest.approx(told.total_s)
    assert all(0 < phase.bound_share <= 1 + 1e-12 for phase in phases)
    assert len({(one.phase, one.name) for one in told.operators}) == len(told.operators)


GPU = "H100 SXM5 80GB"
LAYOUTS = {"one": {}, "ranks": {"tp": 4.0, "gpus": 4.0}, "stages": {"pp": 4.0, "gpus": 4.0}, "experts": {"ep": 4.0, "gpus": 4.0}}
MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "gemma-3-27b")


def of_one(layout: str = "one", **fields: Any) -> Evaluated:
    return evaluated(chip(GPU), LAYOUTS[layout], **fields)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", ["train", "generate"])
def test_parts_are_the_pass_before_anything_is_shared_out(model: str, layout: str, task: str) -> None:
    """Nothing is scaled to fit: each class of a pass is the sum of its own operators."""
    lengths = {"sequence": 2048} if task == "train" else {"input_tokens": 700, "output_tokens": 50}
    e = of_one(layout, model=model, task=task, **lengths)
    passes: list[Pass] = [e.step.mean] if e.step else [phase.one for phase in e.serve.phases.values()] if e.serve else []
    assert passes
    for one in passes:
        weights: dict[str, float] = defaultdict(float)
        for part in _parts(e.table, e.candidates.jobs[0], one):
            weights[part.kind] += part.weight
        for name in DEVICE_CLASSES:
            factor = number(e.table.engine.device_factor) if name not in {"communication", "latency"} else 1.0
            assert weights[name] * factor == pytest.approx(number(getattr(one, name)), rel=1e-9), name


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b"])
def test_products_do_the_flops_that_are_timed(model: str) -> None:
    """FLOPs of the list ÷ rate = the FLOP side of the formulas, where nothing else is in the way."""
    e = of_one(model=model, task="prefill", input_tokens=8192, batch=1)
    a = e.candidates.jobs[0].architecture
    told = detail_of(e)
    listed = sum(one.flop for one in told.operators)
    assert listed == sum(one.flop for one in pass_products(a, 8192, 4096, head_rows=1))
    assert told.flop == listed
    matrix = sum(one.flop for one in told.operators if one.kind == "matmul")
    assert matrix == pytest.approx(2 * 8192 * (a.active_matrix - a.token_matrix))


@pytest.mark.parametrize("model", [*MODELS, "gpt2", "gemma-2-9b"])
def test_model_flops_are_those_of_the_list(model: str) -> None:
    """Three forward passes of the products, attention's causal half; a generated token's with all it attends to."""
    trained, asked_for = (
        of_one(model=model, task="train", sequence=1024),
        of_one(model=model, task="generate", input_tokens=600, output_tokens=200),
    )
    a = trained.candidates.jobs[0].architecture
    assert trained.step is not None
    assert asked_for.serve is not None
    for e, per_token, context in (
        (trained, number(trained.step.model_flop / trained.step.tokens) / 3, 512.0),
        (asked_for, number(asked_for.serve.flop_per_token), 700.0),
    ):
        attended = number(attended_tokens(e.table, np.array([context])))
        assert attended <= context
        assert per_token == pytest.approx(flop_per_token(a, context), rel=1e-12)


def operators(**fields: Any) -> dict[tuple[str, str], Operator]:
    return {(one.phase, one.name): one for one in detail_of(of_one(**fields)).operators}


TRAINED: dict[str, Any] = {"model": "llama-3.2-1b", "task": "train", "sequence": 1024, "micro_batch": 2}


def test_phases_of_a_training_step() -> None:
    plain, full, lora = (
        operators(**TRAINED),
        detail_of(of_one(**TRAINED)),
        operators(**TRAINED | {"task": "finetune", "lora": {"rank": 8}}),
    )
    assert [phase.name for phase in full.phases()] == ["forward", "backward", "update"]
    forward, backward = plain["forward", "MLP up"], plain["backward", "MLP up"]
    assert backward.flop == 2 * forward.flop
    assert lora["backward", "MLP up"].flop == lora["forward", "MLP up"].flop
    assert plain["backward", "attention scores"].flop == 2.5 * plain["forward", "attention scores"].flop
    assert forward.flop == 2 * 2048 * 2048 * 8192 * 16
    assert (forward.m, forward.n, forward.k, forward.count) == (2048, 8192, 2048, 16)
    assert forward.bound == "compute"
    assert plain["update", "states, gradients and weights"].bound == "bandwidth"


def test_recomputed_products_are_a_phase_without_the_head() -> None:
    e = evaluated(chip(GPU), {"checkpointing": 2.0}, **TRAINED)
    told = {(one.phase, one.name): one for one in detail_of(e).operators}
    assert told["recompute", "MLP up"].flop == told["forward", "MLP up"].flop
    assert ("recompute", "output head") not in told
    assert ("forward", "output head") in told


def test_decoding_waits_for_memory_and_prompts_for_arithmetic() -> None:
    told = detail_of(of_one(model="llama-3.1-8b", task="generate", batch=4, input_tokens=4000, output_tokens=200))
    bounds = {phase.name: phase.bound for phase in told.phases()}
    assert bounds == {"prefill": "compute", "decode": "bandwidth"}
    by_name = {(one.phase, one.name): one for one in told.operators}
    up = by_name["decode", "MLP up"]
    assert (up.m, up.count) == (4, 32 * 199)
    assert up.intensity is not None
    assert up.intensity == pytest.approx(4, rel=0.02), "two FLOP a weight of two bytes, and four rows"
    assert up.intensity < told.ridge
    scores = by_name["decode", "attention scores"]
    assert scores.intensity == pytest.approx(4), "four queries to a key of two bytes an element, two FLOP each"
    prompt = by_name["prefill", "MLP up"].intensity
    assert prompt is not None
    assert prompt > told.ridge
    assert 200 < told.peak_ridge < 400


def test_ranks_share_flops_and_talk() -> None:
    one, four = ({(x.phase, x.name): x for x in detail_of(of_one(layout, **TRAINED)).operators} for layout in ("one", "ranks"))
    assert four["forward", "MLP up"].flop == one["forward", "MLP up"].flop / 4
    assert four["forward", "MLP up"].n == 8192 / 4
    assert four["forward", "MLP down"].k == 8192 / 4
    talk = four["forward", "all-reduce of activations"]
    assert (talk.bound, talk.count) == ("link", 2 * 16)
    assert talk.bytes == pytest.approx(2 * 16 * 2 * 3 / 4 * 2048 * 2048 * 2)
    assert ("forward", "all-reduce of activations") not in one


def test_a_row_that_is_not_supported_has_no_time() -> None:
    of = workload("llama-3.1-8b-lora", dtype="bf16", gpus_considered=["T4"])
    (row,) = (row for row in session().plan(of, basis="spec").rows if not row.here)
    assert session().time_detail(of, row, basis="spec") is None


def test_roofs_are_those_of_the_gpu() -> None:
    of = workload("llama-3.1-8b-full-finetune", gpus_considered=["A100 80GB SXM"])
    told = detail(of, plan("llama-3.1-8b-full-finetune", gpus_considered=["A100 80GB SXM"]).rows[0])
    assert told.peak_flop_per_s == 312e12
    assert told.peak_ridge == pytest.approx(312e12 / 2.039e12)
    assert told.flop_per_s < told.peak_flop_per_s
    assert told.bytes_per_s < told.peak_bytes_per_s


def test_the_time_of_a_service_says_how_many_requests_share_it() -> None:
    of = workload("llama-3.1-70b-chat-service", gpus_considered=["B200 SXM"])
    row = next(row for row in session().plan(of, basis="spec").rows if row.rank)
    told = detail(of, row)
    assert row.answer.layout is not None
    assert row.answer.request_s is not None
    count, mean = row.answer.layout.batch, row.answer.request_s.mean.value
    assert count is not None
    assert count > 1
    assert (told.work, told.at_once) == (f"one request among {count} on its replica", count)
    assert f"FLOPs and bytes of decode are of all {count} together" in told.note
    assert f"The mean request takes {duration_text(mean)}" in told.note
    decoding = next(one for one in told.operators if (one.phase, one.name) == ("decode", "MLP up"))
    assert decoding.m == count


def test_the_time_of_a_step_or_of_a_fixed_batch_needs_no_note() -> None:
    for preset in ("llama-3.1-8b-lora", "llama-3.2-3b-offline"):
        of, found = asked(preset, "as it ships")
        if of.task != "serve":
            told = detail(of, found.rows[0])
            assert (told.note, told.at_once, "at once" in told.work) == ("", 1, False)
