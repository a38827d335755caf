"""What holds of any request, whatever its model, GPU and layout: pairs of candidates of which one cannot need less, or be faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from engine_sample import ask_all
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.answers.answer import Answer

pytestmark = pytest.mark.sweep

DENSE = ["llama-3.1-8b", "bloom-560m", "gpt2-medium", "gemma-3-1b", "qwen2.5-14b", "opt-1.3b"]
MIXTURES = ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b"]
GPUS = ["H100 SXM5 80GB", "A100 80GB SXM", "RTX 4090", "B200 SXM", "MI300X", "L4"]
ROUNDING = 1 + 1e-9
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)

training = st.fixed_dictionaries(
    {
        "model": st.sampled_from(DENSE + MIXTURES),
        "gpu": st.sampled_from(GPUS),
        "task": st.sampled_from(["train", "finetune"]),
        "recipe": st.sampled_from(["amp", "mixed", "bf16"]),
        "optimizer": st.sampled_from(["adamw", "adafactor", "sgd", "adamw-8bit"]),
        "sequence": st.integers(64, 1024),
        "micro_batch": st.integers(1, 16),
        "dp": st.sampled_from([1, 2, 8]),
        "sharding": st.sampled_from(["none", "zero1", "zero3"]),
        "checkpointing": st.sampled_from(["none", "selective-op", "full"]),
        "attention": st.sampled_from(["flash", "memory-efficient", "eager"]),
        "loss": st.sampled_from(["full", "chunked"]),
    }
)
LORA = {"rank": 8, "base": "bf16"}


def answered(*requests: Mapping[str, Any]) -> list[Answer]:
    """Answers of requests, none of which may be refused."""
    found = ask_all(*({**one, "gpus": one.get("dp", 1) * one.get("tp", 1) * one.get("pp", 1)} for one in requests))
    assert all(isinstance(one, Answer) for one in found), found
    return [one for one in found if isinstance(one, Answer)]


def total(answer: Answer) -> float:
    assert answer.memory_bytes is not None
    return answer.memory_bytes.total.value


def step_s(answer: Answer) -> float:
    assert answer.step_s is not None
    return answer.step_s.value


@quick
@given(training)
def test_less_is_kept_and_more_computed_the_more_is_recomputed(request: dict[str, Any]) -> None:
    none, some, full = answered(*({**request, "checkpointing": way} for way in ("none", "selective-op", "full")))
    assert total(full) <= total(none) * 1.02, "but for blocks that recomputing leaves behind"
    assert step_s(none) <= step_s(some) * ROUNDING
    assert step_s(some) <= step_s(full) * 1.001


@quick
@given(training, st.sampled_from([None, LORA]))
def test_stepping_inside_backward_needs_no_more(request: dict[str, Any], lora: dict[str, Any] | None) -> None:
    fields = {**request, "sharding": "none", "task": "finetune"} | ({"lora": lora} if lora else {})
    apart, inside = answered(fields, {**fields, "optimizer_in_backward": True})
    assert total(inside) <= total(apart) * 1.01


@quick
@given(training)
def test_adapters_hold_less_than_full_tuning_and_their_reason_is_told_where_they_are_slower(request: dict[str, Any]) -> None:
    full, adapters = answered(*({**request, "task": "finetune", "recipe": "bf16"} | change for change in ({}, {"lora": LORA})))
    assert full.assumed["engine"] == adapters.assumed["engine"]
    assert total(adapters) <= total(full) * 1.02
    of_full, of_adapters = full.seconds_by_class, adapters.seconds_by_class
    slower = {name: of_adapters.get(name, 0.0) - of_full.get(name, 0.0) for name in of_full | of_adapters}
    assert slower["matmul"] <= 0, "frozen weights get no gradients"
    own = sum(
        max(slower.get(name, 0.0), 0.0) for name in ("elementwise", "optimizer", "launch")
    )  # what they write, more tensors, more kernels
    assert step_s(adapters) - step_s(full) <= own * 1.01 + 1e-9


@quick
@given(training)
def test_offload_of_activations_takes_time_and_frees_memory(request: dict[str, Any]) -> None:
    here, away = answered(*({**request, "offload": offload} for offload in ("none", "activations")))
    assert total(away) <= total(here) * ROUNDING
    assert step_s(away) >= step_s(here)
    if away.host_memory_bytes:
        assert step_s(away) > step_s(here)


@quick
@given(training)
def test_no_step_is_faster_than_its_products(request: dict[str, Any]) -> None:
    for answer in answered(request, {**request, "task": "finetune", "lora": LORA}):
        assert answer.mfu is not None
        assert 0 < answer.mfu.value <= answer.mfu.high <= 1


@quick
@given(training, st.sampled_from(MIXTURES), st.sampled_from([2, 4, 8]))
def test_divided_experts_are_all_somewhere(request: dict[str, Any], model: str, ep: int) -> None:
    fields = {**request, "model": model, "dp": 8, "sharding": "none"}
    whole, divided = answered(fields, {**fields, "ep": ep})
    for name in ("weights", "optimizer"):
        one, part = (getattr(answer.memory_bytes, name) for answer in (whole, divided))
        assert one / ep <= part <= one
    assert divided.flop_per_token == whole.flop_per_token


@quick
@given(training, st.sampled_from(MIXTURES), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["zero1", "zero2", "zero3"]))
def test_adapters_of_divided_experts_are_somewhere_once(request: dict[str, Any], model: str, ep: int, sharding: str) -> None:
    fields = {**request, "model": model, "task": "finetune", "lora": LORA, "dp": 8}
    whole, divided = answered({**fields, "sharding": "none"}, {**fields, "sharding": sharding, "ep": ep})
    assert whole.memory_bytes
    assert divided.memory_bytes
    assert 8 * divided.memory_bytes.optimizer == pytest.approx(whole.memory_bytes.optimizer)


@quick
@given(training)
def test_fused_kernels_are_not_slower(request: dict[str, Any]) -> None:
    plain, fused = answered({**request, "compile": False}, {**request, "compile": True})
    assert step_s(fused) <= step_s(plain) * ROUNDING


@quick
@given(
    st.sampled_from(DENSE + MIXTURES),
    st.sampled_from(["awq", "nf4", "q4_k_m", "gptq-int4"]),
    st.integers(20, 400),
    st.sampled_from(GPUS),
)
def test_one_sequence_more_makes_no_cliff(model: str, stored: str, batch: int, gpu: str) -> None:
    fields = {"model": model, "gpu": gpu, "task": "generate", "weight_dtype": stored, "input_tokens": 64, "output_tokens": 32}
    few, more = answered({**fields, "batch": batch}, {**fields, "batch": batch + 1})
    assert few.tpot_s is not None
    assert more.tpot_s is not None
    assert more.tpot_s.mean.value == pytest.approx(few.tpot_s.mean.value, rel=0.12)


@quick
@given(st.sampled_from(DENSE), st.integers(1, 40), st.sampled_from([2, 4, 8]))
def test_all_wait_for_the_fullest_replica(model: str, batch: int, replicas: int) -> None:
    fields = {"model": model, "gpu": "H100 SXM5 80GB", "task": "generate", "dp": replicas, "input_tokens": 64, "output_tokens": 32}
    full = -(-batch // replicas) * replicas
    some, all_full = answered({**fields, "batch": batch}, {**fields, "batch": full})
    assert some.tpot_s == all_full.tpot_s
    assert total(some) == total(all_full)
    assert some.tokens_per_s is not None
    assert all_full.tokens_per_s is not None
    assert some.tokens_per_s.value == pytest.approx(all_full.tokens_per_s.value * batch / full)
