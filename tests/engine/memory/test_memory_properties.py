"""Memory: what has to hold whatever the workload."""

from __future__ import annotations

import math
from typing import Any

import pytest
from engine_sample import COMPONENTS, ask, memory, parts
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.workload.optimizers import OPTIMIZERS
from planner.workload.weights import FORMATS

H100 = {"gpu": "H100-SXM-80GB"}
exact = pytest.approx
quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)
SIZES = st.integers(1, 16)
TOKENS = st.integers(16, 8192)
SMALL = st.sampled_from(["gpt2", "llama-3.2-1b", "qwen3-0.6b", "gemma-2-2b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3"])


@pytest.mark.sweep
@quickly
@given(SMALL, SIZES, TOKENS, st.sampled_from(["none", "full"]), st.sampled_from(["mixed", "amp", "bf16", "fp32"]))
def test_more_training_tokens_never_take_less(model: str, micro: int, sequence: int, checkpointing: str, recipe: str) -> None:
    def total(micro_batch: int, tokens: int) -> float:
        fields = {"micro_batch": micro_batch, "sequence": tokens, "checkpointing": checkpointing, "recipe": recipe}
        return memory(**H100, model=model, task="train", **fields).total.value

    one = total(micro, sequence)
    assert total(micro + 1, sequence) >= one
    assert total(micro, sequence + 64) >= one


@pytest.mark.sweep
@quickly
@given(SMALL, SIZES, TOKENS, TOKENS, st.sampled_from(["vllm", "torch", "llama.cpp"]))
def test_more_sequences_and_tokens_never_take_less(model: str, batch: int, tokens: int, answer: int, engine: str) -> None:
    def total(task: str, sequences: int, input_tokens: int, output_tokens: int) -> float:
        given_as = "concurrency" if task == "serve" else "batch"
        fields = {given_as: sequences, "input_tokens": input_tokens, "output_tokens": output_tokens, "engine": engine}
        return memory(**H100, model=model, task=task, **fields).total.value

    for task in ("generate", "serve"):
        one = total(task, batch, tokens, answer)
        assert total(task, batch + 1, tokens, answer) >= one
        assert total(task, batch, tokens + 32, answer) >= one
        assert total(task, batch, tokens, answer + 32) >= one


@pytest.mark.sweep
@quickly
@given(SMALL, SIZES, TOKENS, st.sampled_from(["mixed", "amp", "bf16"]))
def test_recomputing_never_holds_more(model: str, micro: int, sequence: int, recipe: str) -> None:
    """Overhead left out: recomputation makes the allocator waste more of what it reserves.

    The moment of the peak counts that waste, so that what is held then may be a little below the most that is ever held.
    """

    def held(checkpointing: str) -> float:
        fields = {"micro_batch": micro, "sequence": sequence, "recipe": recipe, "checkpointing": checkpointing}
        found = memory(**H100, model=model, task="train", **fields)
        return found.total.value - found.overhead

    assert held("full") <= held("selective") * 1.02
    assert held("selective") <= held("none") * (1 + 1e-12)


LAYOUTS = st.fixed_dictionaries(
    {
        "tp": st.sampled_from([1, 2, 4]),
        "pp": st.sampled_from([1, 2, 4]),
        "dp": st.sampled_from([1, 2, 8]),
        "cp": st.sampled_from([1, 2]),
    }
)
TRAINING = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["train", "finetune"]),
        "recipe": st.sampled_from(["fp32", "amp", "mixed", "bf16"]),
        "optimizer": st.sampled_from(list(OPTIMIZERS)),
        "sharding": st.sampled_from(["none", "zero1", "zero2", "zero3", "hsdp"]),
        "offload": st.sampled_from(["none", "optimizer", "parameters", "activations"]),
        "checkpointing": st.sampled_from(["none", "selective", "full"]),
        "loss": st.sampled_from(["full", "chunked", "fused"]),
        "optimizer_in_backward": st.booleans(),
        "micro_batch": SIZES,
        "sequence": TOKENS,
    }
)
INFERENCE = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["generate", "prefill"]),
        "weight_dtype": st.sampled_from(sorted(FORMATS)),
        "kv_dtype": st.sampled_from(["bf16", "fp8", "int4"]),
        "batch": SIZES,
        "input_tokens": TOKENS,
        "output_tokens": TOKENS,
    }
)


@pytest.mark.sweep
@settings(quickly, max_examples=150)
@given(SMALL, LAYOUTS, st.one_of(TRAINING, INFERENCE))
def test_parts_add_up_and_none_is_negative(model: str, layout: dict[str, int], workload: dict[str, Any]) -> None:
    answer = ask(gpu="B200 SXM", model=model, **layout, **workload)
    if answer.memory_bytes is None:
        assert answer.reason
        return
    found, total = parts(answer.memory_bytes), answer.memory_bytes.total
    assert set(found) == set(COMPONENTS)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert sum(found.values()) == exact(total.value, rel=1e-12)
    assert 0 < total.low < total.value < total.high < math.inf
    assert found["weights"] > 0
    assert found["overhead"] > 0
