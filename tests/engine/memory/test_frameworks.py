"""What programs that train hold beside the formulas of ZeRO: worked by hand and held against what they published."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import architecture, ask, memory

BLOOM: dict[str, Any] = {
    "model": {"model_type": "gpt2", "n_embd": 14336, "n_layer": 72, "n_head": 64, "n_positions": 2048, "vocab_size": 250000},
    "gpu": "A100 80GB SXM",
    "task": "train",
    "dtype": "fp16",
    "attention": "eager",
    "checkpointing": "full",
    "sequence": 2048,
    "global_batch": 2048,
    "gpus": 384,
    "tp": 8,
    "pp": 12,
    "dp": 4,
}
TUNED: dict[str, Any] = {
    "gpu": "A100 40GB SXM",
    "task": "finetune",
    "engine": "litgpt",
    "recipe": "bf16",
    "sequence": 1304,
    "micro_batch": 1,
    "global_batch": 128,
}


WHOLE_PRODUCT = 2 * (4096 + 4096)
"""Bytes a token and layer of Llama 2 7B: query and key as they leave the product that the value is a view of."""


def allocated(**fields: Any) -> float:
    found = memory(**fields)
    return found.total.value - found.overhead


def test_without_sequence_parallelism_every_rank_keeps_the_inputs_of_layers() -> None:
    """12 micro batches in flight on the first of 12 stages of 6 layers: inputs of 72 layers and 12 outputs of 2,048 · 14,336 · 2 B a sequence, 4.9 GB.

    Published: 29, 37, 49 and 69 GB with 1, 2, 4 and 8 sequences, 5 to 8 GB each, with what is computed again beside them.
    """
    inputs = (72 + 12) * 2048 * 14336 * 2
    held = {}
    for engine in ("megatron-deepspeed", "megatron"):
        four, eight = (memory(**BLOOM, engine=engine, sharding="zero1", micro_batch=size).total.value for size in (4, 8))
        held[engine] = (eight - four) / 4
    assert inputs < held["megatron-deepspeed"] == pytest.approx((69e9 - 37e9) / 6, rel=0.2)
    assert held["megatron"] < 0.5 * inputs


def test_deepspeed_keeps_gradients_in_16_bit() -> None:
    """2 + 2 + 12 B a parameter (arXiv:1910.02054 §3.1), the last 12 divided by 4; Megatron adds gradients up in FP32."""
    ours, theirs = (
        memory(**BLOOM, engine=engine, sharding="zero1", micro_batch=1) for engine in ("megatron-deepspeed", "megatron")
    )
    parameters = ours.weights / 2
    assert (ours.gradients, ours.optimizer) == pytest.approx((2 * parameters, 3 * parameters), rel=1e-9)
    assert theirs.gradients == pytest.approx(4 * theirs.weights / 2, rel=1e-9)
    mixed = memory(model="qwen3-0.6b", gpu="A100 80GB SXM", task="train", micro_batch=1, sequence=512, engine="deepspeed")
    assert mixed.gradients == pytest.approx(mixed.weights, rel=1e-9)


def test_megatron_bridge_divides_states_and_keeps_gradients_in_16_bit() -> None:
    """Qwen3 30B A3B on 16 H100, experts over all of them: 62.166 GiB allocated on rank 0.

    By hand, a GPU: 28.99 G parameters of experts ÷ 16, whose states no other rank shares, at 16 B; 1.54 G others at 4 B and 12 ÷ 16 B.
    """
    fields: dict[str, Any] = {
        "model": "qwen3-30b-a3b",
        "gpu": "H100-SXM-80GB",
        "task": "train",
        "dtype": "bf16",
        "engine": "megatron-bridge",
    }
    fields |= {"gpus": 16, "tp": 1, "pp": 1, "ep": 16, "micro_batch": 1, "global_batch": 1024, "sequence": 4096}
    answer = ask(**fields)
    assert answer.assumed["sharding"] == "zero1"
    found = answer.memory_bytes
    assert found is not None
    a = architecture("qwen3-30b-a3b")
    experts = a.experts_total / 16
    others = a.total - a.experts_total
    assert found.weights + found.gradients + found.optimizer == pytest.approx(16 * experts + others * (4 + 12 / 16), rel=0.01)
    assert (found.total.value - found.overhead) / 2**30 == pytest.approx(62.166, rel=0.05)


@pytest.mark.parametrize(
    ("model", "gpus", "published"),
    [("llama-2-7b", 2, 22.18e9), ("llama-2-13b", 4, 35.57e9)],
)
def test_flat_shards_keep_whole_gradients_of_frozen_weights(model: str, gpus: int, published: float) -> None:
    """LitGPT's adapters under FSDP, micro batches added up: weights ÷ ranks, and 2 B of gradient a parameter that nobody trains."""
    adapters = {"rank": 8, "targets": ["q", "v"], "base": "bf16"}
    fields = TUNED | {"model": model, "lora": adapters, "gpus": gpus, "dp": gpus, "sharding": "zero3", "checkpointing": "full"}
    found = memory(**fields)
    parameters = architecture(model).total
    assert found.weights == pytest.approx(2 * parameters / gpus, rel=0.01)
    assert found.gradients == pytest.approx(2 * parameters, rel=0.01)
    assert allocated(**fields) == pytest.approx(published, rel=0.05)
    at_once = memory(**fields | {"global_batch": gpus})
    assert at_once.gradients == pytest.approx(2 * parameters / gpus, rel=0.01)
    apart = memory(**fields | {"engine": "torch"})
    assert apart.gradients < 0.01 * parameters


@pytest.mark.parametrize(("dtype", "bytes_each", "published"), [("bf16", 2, 14.50e9), ("fp32", 4, 28.95e9)])
def test_litgpt_keeps_a_head_that_others_tie(dtype: str, bytes_each: float, published: float) -> None:
    """Falcon 7B's head is 65,024 · 4,544 parameters, which are published as well: 14.50 GB in 16 bit, 28.95 in FP32."""
    asked = {
        "model": "falcon-7b",
        "gpu": "A100 40GB SXM",
        "task": "generate",
        "dtype": dtype,
        "batch": 1,
        "input_tokens": 1,
        "output_tokens": 128,
    }
    apart, tied = (memory(**asked, engine=engine) for engine in ("litgpt", "torch"))
    assert apart.weights - tied.weights == pytest.approx(bytes_each * 65024 * 4544)
    assert apart.total.value - apart.overhead == pytest.approx(published, rel=0.01)


def test_adapters_on_packed_weights_are_fp32_where_peft_prepares_them() -> None:
    fields = TUNED | {"model": "llama-2-7b", "lora": {"rank": 8, "targets": ["q", "v"], "base": "nf4"}}
    prepared, plain, kept = (memory(**fields | {"engine": engine}) for engine in ("transformers", "torch", "litgpt"))
    assert prepared.optimizer == pytest.approx(plain.optimizer * (8 + 4) / (8 + 2), rel=0.01)
    assert prepared.activations > plain.activations
    inputs = 2 * 4096 + 2 * 11008  # of gate and up, and of down, which adapters elsewhere leave alone
    dropout = 3 * 4096  # its mask, and its result beside the input of the packed product
    assert kept.activations - plain.activations == pytest.approx(32 * 1304 * (inputs + dropout + WHOLE_PRODUCT), rel=1e-3)
    assert allocated(**fields) == pytest.approx(14.14e9, rel=0.12)


@pytest.mark.parametrize(("micro_batch", "published"), [(1, 21.30e9), (2, 29.07e9), (4, None)])
def test_litgpt_keeps_the_whole_product_of_query_key_and_value(micro_batch: int, published: float | None) -> None:
    """The value is a view of it: query and key twice. Four sequences of Llama 2 7B ended out of memory on 40 GB."""
    fields = TUNED | {"model": "llama-2-7b", "lora": {"rank": 8, "targets": ["q", "v"]}, "micro_batch": micro_batch}
    joined, apart = (memory(**fields | {"engine": engine, "loss": "chunked"}) for engine in ("litgpt", "torch"))
    assert joined.activations - apart.activations == pytest.approx(micro_batch * 32 * 1304 * (WHOLE_PRODUCT + 4096), rel=1e-3)
    if published is None:
        assert joined.total.value > joined.capacity
    else:
        assert joined.total.value - joined.overhead == pytest.approx(published, rel=0.1)


def test_litgpt_copies_keys_and_values_for_each_query_head() -> None:
    """Falcon 40B has 8 heads of keys beside 128 of queries, 64 wide: two copies of 8,192 elements instead of 512.

    Elsewhere the value is a view that keeps query and key of the product, too. Beside it is the mask of the adapters' dropout. In NF4 with packed scales it ended out of memory on 40 GB.
    """
    fields = TUNED | {"model": "falcon-40b", "sequence": 1079, "loss": "chunked"}
    adapters = {"rank": 8, "targets": ["q", "v"]}
    copied, grouped = (memory(**fields | {"engine": engine, "lora": adapters}) for engine in ("litgpt", "torch"))
    more = 60 * 1079 * (2 * 2 * (8192 - 512) - 2 * (8192 + 512) + 8192)
    assert copied.activations - grouped.activations == pytest.approx(more, rel=1e-3)
    packed = memory(**fields | {"lora": adapters | {"base": "nf4-dq"}})
    assert packed.total.value > packed.capacity


MISTRAL: dict[str, Any] = {
    "model": "mistral-7b-v0.1",
    "gpu": "A100 80GB SXM",
    "task": "finetune",
    "recipe": "bf16",
    "sequence": 4096,
}
MISTRAL |= {"optimizer": "adamw", "checkpointing": "full", "gpus": 2, "dp": 2, "sharding": "zero3", "micro_batch": 2}


def test_gradients_freed_on_another_stream_stay_reserved() -> None:
    """Mistral 7B on two A100, FSDP's first version: 36.2 GB allocated, 46.5 GB on the device; half of 2 B a parameter are 7.2 GB."""
    first, plain = (memory(**MISTRAL, engine=engine) for engine in ("fms-acceleration", "transformers"))
    whole = 2 * architecture("mistral-7b-v0.1").total
    assert first.overhead - plain.overhead == pytest.approx(whole / 2, rel=0.01)
    assert allocated(**MISTRAL, engine="fms-acceleration") == pytest.approx(36.2e9, rel=0.02)
    assert first.total.value == pytest.approx(46.5e9, rel=0.05)
    adapters = MISTRAL | {"lora": {"rank": 16, "targets": ["q", "v"], "base": "bf16"}}
    assert memory(**adapters, engine="fms-acceleration").overhead == memory(**adapters, engine="transformers").overhead


def test_accelerate_trains_in_fp32_what_it_shards() -> None:
    """Mistral 7B on two A100 by the Trainer under FSDP with mixed precision: 72.43 GB allocated, 20 B for each of half the parameters."""
    unsaid = MISTRAL | {"recipe": None, "micro_batch": 4}
    assert allocated(**unsaid, engine="transformers@4.45") == pytest.approx(72.43e9, rel=0.01)
    for said in ({"engine": "deepspeed"}, {"engine": "torch"}, {"engine": "transformers", "sharding": "zero2"}):
        assert ask(**unsaid | said).assumed.get("recipe") != "amp"


@pytest.mark.parametrize(("micro", "published"), [(4, 20.67e9), (8, 37.00e9)])
def test_peft_prepares_a_packed_base_with_a_residual_stream_in_fp32(micro: int, published: float) -> None:
    """Mistral 7B in NF4 on one A100, TRL: inputs of 32 recomputed layers are 2 B · 4,096 a token larger, and 262 M parameters in FP32."""
    adapters = {"rank": 16, "targets": ["q", "k", "v", "o"], "base": "nf4-dq"}
    alone = {
        "gpus": 1,
        "dp": 1,
        "sharding": "none",
        "micro_batch": micro,
        "lora": adapters,
        "optimizer": "adamw",
        "attention": "flash",
    }
    wide, plain = (memory(**MISTRAL | alone, engine=engine) for engine in ("trl", "fms-acceleration"))
    assert wide.weights - plain.weights == pytest.approx(2 * 2 * 32000 * 4096, rel=0.01)
    assert wide.activations - plain.activations == pytest.approx(32 * micro * 4096 * 4096 * 2, rel=0.05)
    assert allocated(**MISTRAL | alone, engine="trl") == pytest.approx(published, rel=0.03)
    several = alone | {"gpus": 2, "dp": 2, "sharding": "zero3"}
    assert memory(**MISTRAL | several, engine="trl").weights == memory(**MISTRAL | several, engine="fms-acceleration").weights


def test_a_loss_that_is_fused_on_whole_weights_alone_says_so() -> None:
    sharded = ask(**MISTRAL, engine="fms-acceleration", loss="fused")
    assert "under FSDP" in sharded.assumed["loss_kernel"]
    assert sharded.memory_bytes is not None
    assert sharded.memory_bytes.logits == memory(**MISTRAL, engine="fms-acceleration", loss="full").logits
    alone = MISTRAL | {"gpus": 1, "dp": 1, "sharding": "none"}
    full, fused = (memory(**alone, engine="fms-acceleration", loss=loss).total.value for loss in ("full", "fused"))
    assert fused <= full


@pytest.mark.parametrize(
    ("engine", "share"), [("transformers@4.49", 1.0), ("trl", 1.0), ("torch", 1 / 8), ("torchtitan", 1 / 8), ("deepspeed", 1 / 8)]
)
def test_accelerate_keeps_whole_gradients_between_micro_batches(engine: str, share: float) -> None:
    """FSDP's no_sync of four micro batches on eight GPUs: 2 B for each of 8.03 G parameters; one micro batch is exchanged layer by layer."""
    fields: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "gpu": "H100 SXM5 80GB",
        "gpus": 8,
        "task": "finetune",
        "engine": engine,
        "sharding": "zero3",
    }
    fields |= {"recipe": "bf16", "checkpointing": "full", "micro_batch": 1, "sequence": 2048}
    several = memory(**fields, global_batch=32)
    assert several.gradients == pytest.approx(2 * architecture("llama-3.1-8b").total * share, rel=0.01)
    assert memory(**fields, global_batch=8).gradients <= 2 * architecture("llama-3.1-8b").total / 8


def _of_405b(**fields: Any) -> Any:
    """Llama 3.1 405B in FP8 on 512 H100, tensor, pipeline and sharded data parallelism of 8 each."""
    degrees = {"gpus": 512, "tp": 8, "pp": 8, "dp": 8, "sequence": 8192, "micro_batch": 4, "global_batch": 256}
    usual: dict[str, Any] = {"model": "llama-3.1-405b", "gpu": "H100 SXM5 80GB", "task": "train", "dtype": "fp8", "recipe": "mixed"}
    usual |= {"engine": "torch", "sharding": "zero3", "checkpointing": "full", "compile": True}
    return ask(**usual | degrees | fields)


def test_a_pipeline_of_pytorch_keeps_its_stage_whole_for_a_step() -> None:
    """16 of 126 layers over 8 ranks: 6.4 G parameters with 2 B gathered and 4 B of gradient; 8 ranks share both between steps.

    torchtitan prints 82.5 GiB with 1F1B and 72.7 with two stages a rank (arXiv:2410.06511).
    """
    of_stage = 16 * 3.1888e9 / 8
    pipelined, single = (_of_405b(**degrees).memory_bytes for degrees in ({}, {"pp": 1, "dp": 64, "global_batch": 256}))
    assert pipelined.gradients == pytest.approx(4 * of_stage, rel=0.05)
    assert pipelined.buffers > 2 * of_stage
    assert single.gradients < 4 * of_stage
    assert single.buffers < 2 * of_stage
    assert 65 < pipelined.total.value / 2**30 < 90


@pytest.mark.parametrize(
    ("fields", "part"),
    [({}, 4), ({"global_batch": None}, 4), ({"global_batch": 512}, 8), ({"global_batch": 2048}, 32), ({"engine": "nemo"}, 32)],
)
def test_a_pipeline_of_pytorch_divides_the_batch_it_is_given(fields: dict[str, Any], part: int) -> None:
    """`Schedule1F1B` takes no fewer micro batches than stages: 32 sequences of a replica are eight of 4, and 64 are eight of 8."""
    answer = _of_405b(micro_batch=32, **{"sharding": "zero1"} | fields)
    assert answer.layout.micro_batch == part
    assert ("micro_batch" in answer.assumed) is (part < 32)


def test_zero_2_in_a_pipeline_of_pytorch_keeps_the_gradients_of_its_stage_whole_too() -> None:
    """FSDP2 turns off resharding and the exchange of a stage until its last micro batch, whether or not weights are resharded (`stage.py`)."""
    second, third = (_of_405b(sharding=sharding) for sharding in ("zero2", "zero3"))
    assert second.memory_bytes.gradients == pytest.approx(third.memory_bytes.gradients)
    assert second.step_s.value <= third.step_s.value
