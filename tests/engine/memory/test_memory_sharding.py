"""What has to hold however a training job is spread: sharding divides and never loses bytes; terms add up to the total."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_sample import ask, candidate, chip
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.memory import MemoryColumns, memory_of, terms_of

quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)
MODELS = st.sampled_from(["gpt2", "llama-3.2-1b", "qwen3-0.6b", "mixtral-8x7b", "deepseek-v3"])
RANKS = st.sampled_from([2, 4, 8, 64])
RECIPES = st.sampled_from(["fp32", "amp", "mixed", "bf16"])
exact = pytest.approx


def held(layout: dict[str, float] | None = None, **workload: Any) -> MemoryColumns:
    asked: dict[str, Any] = {"task": "train", "micro_batch": 1, "sequence": 512, "engine": "torch"} | workload
    return memory_of(candidate(chip("H100-SXM-80GB"), layout, **asked).table())


def spread(stage: int, ranks: int) -> dict[str, float]:
    return {"gpus": float(ranks), "dp": float(ranks), "shard": float(ranks), "zero": float(stage)}


def one(column: Any) -> float:
    return float(np.ravel(column)[0])


@pytest.mark.sweep
@quickly
@given(MODELS, RANKS, RECIPES)
def test_what_is_sharded_adds_up_to_what_was_there(model: str, ranks: int, recipe: str) -> None:
    fields: dict[str, Any] = {"model": model, "recipe": recipe, "sequence": 16}
    whole = held(**fields)
    for stage, parts in ((1, ["optimizer"]), (3, ["optimizer", "weights"])):
        shard = held(spread(stage, ranks), **fields)
        for part in parts:
            assert ranks * one(getattr(shard, part)) == exact(one(getattr(whole, part)), rel=1e-9)


def test_adapters_of_an_expert_are_where_the_expert_is() -> None:
    """Qwen3-30B-A3B, rank 8, 10 bytes a parameter (16-bit weights, two FP32 states); experts over 16 GPUs, the others on each of them."""
    experts, others = 48 * 128 * 8 * 3 * (2048 + 768), 48 * 8 * (2 * (2048 + 4096) + 2 * (2048 + 512))
    fields = {
        "model": "qwen3-30b-a3b",
        "gpu": "H100-SXM-80GB",
        "task": "finetune",
        "lora": {"rank": 8},
        "dtype": "bf16",
        "gpus": 16,
        "dp": 16,
    }
    spread_out, shared = ask(**fields, ep=16, sharding="none"), ask(**fields, ep=16, sharding="zero1")
    assert spread_out.memory_bytes
    assert shared.memory_bytes
    assert spread_out.memory_bytes.optimizer == exact(10 * (others + experts / 16))
    assert shared.memory_bytes.optimizer == exact(10 * (others + experts) / 16)


@pytest.mark.parametrize(("pp", "layers"), [(1, 2), (2, 16)])
def test_experts_that_one_rank_alone_has_are_not_gathered(pp: int, layers: int) -> None:
    """Mixtral in 16 bit over 2 ranks that have 4 experts of 8 each: two layers are gathered, all of a pipeline's stage, without experts.

    A layer has 2·4096² + 2·4096·1024 parameters in attention, 8 · 4096 in its router and two norms; embedding and head are gathered, too.
    """
    layer, ends = 2 * 4096**2 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 4096, 32_000 * 4096
    layout = spread(3, 2) | {"gpus": 2.0 * pp, "pp": float(pp), "ep": 2.0}
    fields = {"task": "train", "model": "mixtral-8x7b", "recipe": "bf16", "optimizer": "sgd", "engine": "torch"}
    table = candidate(chip("H100-SXM-80GB"), layout, **fields, micro_batch=8, sequence=4096, checkpointing="full").table()
    (gathered,) = (term.bytes for term in terms_of(table) if term.name == "gathered weights")
    others = 2 * ends + 4096 if pp == 1 else ends + 4096
    assert one(gathered) == exact(2 * (layers * layer + others))


@pytest.mark.sweep
@quickly
@given(MODELS, RANKS, RECIPES)
def test_each_stage_shards_more_and_leaves_the_rest(model: str, ranks: int, recipe: str) -> None:
    stages = [held(spread(stage, ranks), model=model, recipe=recipe) for stage in (0, 1, 2, 3)]
    for part, first in (("optimizer", 1), ("weights", 3)):
        sizes = [one(getattr(found, part)) for found in stages]
        assert sizes[first] < sizes[0]
        assert sizes[:first] == exact([sizes[0]] * first)
        assert sizes[first:] == exact([sizes[first]] * len(sizes[first:]))


@pytest.mark.sweep
@quickly
@given(MODELS, RECIPES, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_terms_add_up_to_the_total(model: str, recipe: str, tp: int, pp: int) -> None:
    layout: dict[str, Any] = {"gpus": float(tp * pp), "tp": float(tp), "pp": float(pp)}
    asked: dict[str, Any] = {
        "task": "train",
        "micro_batch": 2,
        "sequence": 512,
        "engine": "torch",
        "recipe": recipe,
        "model": model,
    }
    table = candidate(chip("H100-SXM-80GB"), layout, **asked).table()
    assert sum(one(term.bytes) for term in terms_of(table)) == exact(one(memory_of(table).total), rel=1e-9)
    assert all(one(term.bytes) >= 0 for term in terms_of(table))


@pytest.mark.sweep
@quickly
@given(MODELS, RECIPES, st.integers(1, 8), st.sampled_from([128, 512, 2048]), st.sampled_from(["none", "full"]))
def test_more_tokens_never_take_less(model: str, recipe: str, micro: int, sequence: int, checkpointing: str) -> None:
    layout: dict[str, Any] = {"checkpointing": 2.0 if checkpointing == "full" else 0.0}

    def total(micro_batch: int, tokens: int) -> float:
        asked: dict[str, Any] = {
            "model": model,
            "recipe": recipe,
            "micro_batch": micro_batch,
            "sequence": tokens,
            "checkpointing": checkpointing,
        }
        return one(held(layout | {"micro_batch": float(micro_batch)}, **asked).total)

    assert total(micro, sequence) <= total(micro + 1, sequence)
    assert total(micro, sequence) <= total(micro, sequence + 64)


def test_tensor_parallel_ranks_share_everything_but_what_they_gather() -> None:
    """Llama 3.1 8B over 8 ranks: a whole input is 4,096 tokens · 4,096 · 2 B, 7/8 of which are other ranks'.

    Megatron gathers again, so that only the head holds one; DTensor keeps those of attention and MLP in 32 layers beside it.
    """
    fields: dict[str, Any] = {"model": "llama-3.1-8b", "recipe": "mixed", "sequence": 4096, "optimizer": "adamw-fused"}
    gathered = 4096 * 4096 * 2 * 7 / 8
    for engine, kept in (("megatron", 1), ("torch", 1 + 2 * 32)):
        whole, split = (held(layout, **fields, engine=engine) for layout in (None, {"gpus": 8.0, "tp": 8.0}))
        for part in ("weights", "gradients", "optimizer", "logits"):
            assert 8 * one(getattr(split, part)) == exact(one(getattr(whole, part)), rel=1e-3), part
        assert one(split.activations) == exact(one(whole.activations) / 8 + kept * gathered, rel=1e-3), engine


def test_gradients_of_a_layer_are_gathered_beside_its_input() -> None:
    """With full checkpointing the last layer's backward holds both; the logits of a small vocabulary are no peak."""
    small = {
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 65536,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
    }
    fields: dict[str, Any] = {"model": small | {"vocab_size": 256}, "recipe": "mixed", "sequence": 8192, "checkpointing": "full"}
    layout = {"checkpointing": 2.0}
    whole, split = (held(layout | more, **fields, engine="megatron") for more in ({}, {"gpus": 8.0, "tp": 8.0}))
    gathered = 8192 * 1024 * 2 * 7 / 8
    assert one(split.activations) == exact(one(whole.activations) / 8 + 2 * gathered, rel=1e-3)


@pytest.mark.parametrize("model", ["bert-base", "gpt2"])
def test_the_stages_of_a_pipeline_hold_no_less_than_the_model(model: str) -> None:
    """The last stage has a copy of a tied embedding for its head, whether or not a product stands before it: 4 stages, 8 ranks with a shard each."""
    asked = {"model": model, "gpu": "H100 SXM5 80GB", "task": "train", "recipe": "mixed", "sharding": "zero3", "sequence": 512}
    found = ask(**asked, pp=4, dp=8, gpus=32, micro_batch=9)  # logits make the last stage the fullest
    assert found.memory_bytes is not None
    assert found.parameters is not None
    assert 32 * found.memory_bytes.weights >= 2 * found.parameters.total
