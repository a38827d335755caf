"""Memory: what has to hold whatever the workload."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_sample import COMPONENTS, ask_together, candidate, chip, memories, parts
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.answers.memory import MemoryBytes
from planner.engine.memory import terms_of
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
    fields = {**H100, "model": model, "task": "train", "checkpointing": checkpointing, "recipe": recipe}
    sizes = ((micro, sequence), (micro + 1, sequence), (micro, sequence + 64))
    one, *more = memories(*(fields | {"micro_batch": batch, "sequence": tokens} for batch, tokens in sizes))
    assert all(other.total.value >= one.total.value for other in more)


@pytest.mark.sweep
@quickly
@given(SMALL, SIZES, TOKENS, TOKENS, st.sampled_from(["vllm", "torch", "llama.cpp"]))
def test_more_sequences_and_tokens_never_take_less(model: str, batch: int, tokens: int, answer: int, engine: str) -> None:
    sizes = ((batch, tokens, answer), (batch + 1, tokens, answer), (batch, tokens + 32, answer), (batch, tokens, answer + 32))
    for task, given_as in (("generate", "batch"), ("serve", "concurrency")):
        fields = {**H100, "model": model, "task": task, "engine": engine}
        one, *more = memories(
            *(fields | dict(zip((given_as, "input_tokens", "output_tokens"), size, strict=True)) for size in sizes)
        )
        assert all(other.total.value >= one.total.value for other in more)


@pytest.mark.sweep
@quickly
@given(SMALL, SIZES, TOKENS, st.sampled_from(["mixed", "amp", "bf16"]))
def test_recomputing_never_holds_more(model: str, micro: int, sequence: int, recipe: str) -> None:
    """Overhead left out: recomputation makes the allocator waste more of what it reserves.

    The moment of the peak counts that waste, so that what is held then may be a little below the most that is ever held.
    """

    fields = {**H100, "model": model, "task": "train", "micro_batch": micro, "sequence": sequence, "recipe": recipe}
    found = memories(*(fields | {"checkpointing": way} for way in ("full", "selective", "none")))
    full, selective, none = (one.total.value - one.overhead for one in found)
    assert full <= selective * 1.02
    assert selective <= none * (1 + 1e-12)


def test_only_layers_with_attention_store_scores() -> None:
    """Qwen3.5-9B has attention of 16 heads in 8 of its 32 layers; a score takes 4 bytes after its softmax, and 2 for a 16-bit copy."""
    fields: dict[str, Any] = {"model": "qwen3.5-9b", "task": "train", "attention": "eager", "recipe": "bf16", "engine": "torch"}
    table = candidate(chip("H100-SXM-80GB"), **fields, checkpointing="none", micro_batch=1, sequence=4096).table()
    (scores,) = (term.bytes for term in terms_of(table) if term.name == "attention scores")
    assert float(np.ravel(scores)[0]) == 8 * 4096 * 16 * 4096 * (4 + 2)


@pytest.mark.parametrize("task", ["train", "prefill"])
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_recurrences_have_no_kernel_of_attention_to_choose(task: str, checkpointing: str) -> None:
    fields = {**H100, "model": "mamba2-780m", "task": task, "input_tokens": 4096}
    fields |= {"checkpointing": checkpointing, "sequence": 4096} if task == "train" else {}
    fused, eager = ask_together(*({**fields, "attention": way} for way in ("flash", "eager")))
    assert fused.memory_bytes == eager.memory_bytes
    assert fused.seconds_by_class == eager.seconds_by_class


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
@settings(quickly, max_examples=10)
@given(st.lists(st.tuples(SMALL, LAYOUTS, st.one_of(TRAINING, INFERENCE)), min_size=15, max_size=15))
def test_parts_add_up_and_none_is_negative(asked: list[tuple[str, dict[str, int], dict[str, Any]]]) -> None:
    for answer in ask_together(*({"gpu": "B200 SXM", "model": model} | layout | workload for model, layout, workload in asked)):
        if answer.memory_bytes is None:
            assert answer.reason
        else:
            add_up(answer.memory_bytes)


def add_up(memory: MemoryBytes) -> None:
    found, total = parts(memory), memory.total
    assert set(found) == set(COMPONENTS)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert sum(found.values()) == exact(total.value, rel=1e-12)
    assert 0 < total.low < total.value < total.high < math.inf
    assert found["weights"] > 0
    assert found["overhead"] > 0
