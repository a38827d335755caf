"""Memory: worked examples by hand."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import architecture, ask, memory, parts

from planner.units import GIB
from planner.workload.optimizers import OPTIMIZERS
from planner.workload.weights import FORMATS

H100 = {"gpu": "H100-SXM-80GB"}
LLAMA_8B = 8_030_261_248
exact = pytest.approx


def training(**fields: Any) -> dict[str, float]:
    return parts(memory(**H100, task="train", **({"model": "llama-3.1-8b", "micro_batch": 1, "sequence": 128} | fields)))


@pytest.mark.parametrize(
    ("recipe", "optimizer", "per_parameter"),
    [
        ("mixed", "adamw", 2 + 4 + 12),  # 16-bit weights; FP32 gradients; FP32 copy and two moments
        ("fp32", "adamw", 4 + 4 + 8),
        ("bf16", "adamw", 2 + 2 + 4),
        ("mixed", "sgd", 2 + 4 + 4),
        ("mixed", "sgd-momentum", 2 + 4 + 8),
        ("bf16", "sgd", 2 + 2),
        ("bf16", "adamw-8bit", 2 + 2 + 2 * (1 + 4 / 256)),
    ],
)
def test_bytes_of_state_per_parameter(recipe: str, optimizer: str, per_parameter: float) -> None:
    found = training(recipe=recipe, optimizer=optimizer)
    assert found["weights"] + found["gradients"] + found["optimizer"] == exact(per_parameter * LLAMA_8B, rel=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_accepted_and_costs_what_it_says(name: str) -> None:
    one, a = OPTIMIZERS[name], architecture("llama-3.1-8b")
    assert one.source
    found = training(recipe="bf16", optimizer=name)
    assert found["optimizer"] == exact(one.state_bytes(2.0, a) * LLAMA_8B, rel=1e-12)
    assert found["gradients"] == exact(2 * LLAMA_8B * one.updates)


def test_state_by_kind() -> None:
    found = training(recipe="mixed", optimizer="adamw")
    assert found["weights"] == exact(2 * LLAMA_8B)
    assert found["gradients"] == exact(4 * LLAMA_8B)
    assert found["optimizer"] == exact(12 * LLAMA_8B)
    assert found["kv_cache"] == 0


def test_autocast_keeps_a_16_bit_copy_of_layers_and_head_while_the_graph_lives() -> None:
    a = architecture("gpt2")
    found = training(model="gpt2", recipe="amp", micro_batch=8, sequence=1024)
    assert found["buffers"] == exact(2 * (a.layers_shared + 50257 * 768))


def test_a_forward_pass_only_needs_its_weights() -> None:
    found = training(optimizer="none", recipe="bf16")
    assert (found["gradients"], found["optimizer"]) == (0, 0)


def test_activations_and_logits_of_gpt2_by_hand() -> None:
    """58 bytes per width, layer and token with dropout, statistics of norms and heads; 14 per vocabulary entry as backward starts."""
    tokens = 8 * 1024
    layer = 58 * 768 + 2 * (2 + 2) + 4 * 12
    head = 2 * 768 + 2 + 2 + 2 * 768  # input, mean and deviation of the last norm; input of the head
    found = training(model="gpt2", recipe="bf16", micro_batch=8, sequence=1024)
    assert found["activations"] == exact((12 * layer + head) * tokens)
    assert found["logits"] == exact(14 * 50257 * tokens)


def test_activations_of_llama_by_hand() -> None:
    """16h + 8f + 4q + 4k and statistics of two norms and 32 heads; 2h where everything is recomputed."""
    tokens = 4 * 4096
    layer = 16 * 4096 + 8 * 14336 + 4 * 4096 + 4 * 1024 + 2 * 4 + 4 * 32
    head = 4 * 4096 + 4 + 2 * 4096 + 2 * 4096  # the last norm in FP32, its statistic and result; input of the head
    fields = {"recipe": "bf16", "optimizer": "sgd", "micro_batch": 4, "sequence": 4096}
    assert training(**fields)["activations"] == exact((32 * layer + head) * tokens)
    assert training(**fields, checkpointing="full")["activations"] == exact((32 * 2 * 4096 + head) * tokens)
    softmax = (4 + 2) * 32 * 4096 - 4 * 32  # FP32 and its copy for each score, instead of a statistic a head
    repeated = 2 * 2 * (4096 - 1024)  # keys and values for every query head
    assert training(**fields, attention="eager")["activations"] == exact((32 * (layer + softmax + repeated) + head) * tokens)


@pytest.mark.parametrize("loss", ["chunked", "fused"])
def test_a_loss_in_pieces_never_holds_the_logits(loss: str) -> None:
    fields = {"model": "gpt2", "recipe": "bf16", "micro_batch": 8, "sequence": 1024}
    assert training(**fields, loss=loss)["logits"] < training(**fields)["logits"] / 7


@pytest.mark.parametrize(
    ("model", "kv_dtype", "bytes_per_token"),
    [
        ("llama-3.1-8b", "bf16", 131_072),  # 2 · 32 layers · 8 heads · 128 · 2 bytes
        ("llama-3.1-8b", "fp8", 65_536),
        ("llama-3.1-8b", "int4", 32_768),
        ("llama-3.1-70b", "bf16", 327_680),
        ("llama-2-7b", "bf16", 524_288),
        ("qwen3-8b", "bf16", 147_456),
        ("gpt2", "fp16", 36_864),
        ("deepseek-v3", "bf16", 70_272),  # 61 layers · (512 + 64) · 2 bytes
    ],
)
def test_cache_bytes_per_token(model: str, kv_dtype: str, bytes_per_token: int) -> None:
    found = memory(**H100, model=model, task="generate", kv_dtype=kv_dtype, input_tokens=900, output_tokens=124, batch=3)
    assert found.kv_cache == exact(3 * 1024 * bytes_per_token)


def test_transformers_caches_full_keys_and_values_of_latent_attention() -> None:
    """61 layers · 128 heads · (192 of the key + 128 of the value) · 2 bytes; vLLM keeps the latent."""
    fields = {**H100, "model": "deepseek-v3", "task": "generate", "input_tokens": 900, "output_tokens": 124}
    assert memory(**fields, engine="transformers").kv_cache == exact(1024 * 61 * 128 * (192 + 128) * 2)
    assert memory(**fields, engine="vllm").kv_cache == exact(1024 * 70_272)


@pytest.mark.parametrize(("tokens", "kept"), [(2048, 2048 * 32), (10_000, 4096 * 32)])
def test_a_window_bounds_the_cache(tokens: int, kept: int) -> None:
    found = memory(**H100, model="mistral-7b-v0.1", task="generate", input_tokens=tokens - 100, output_tokens=100)
    assert found.kv_cache == exact(kept * 2 * 1024 * 2)


def test_every_other_layer_of_gpt_oss_is_windowed() -> None:
    found = memory(**H100, model="gpt-oss-20b", task="generate", input_tokens=8000, output_tokens=192)
    assert found.kv_cache == exact((12 * 128 + 12 * 8192) * 2 * 8 * 64 * 2)


def test_key_value_heads_are_repeated_beyond_their_number() -> None:
    fields = {"model": "qwen2.5-7b", "task": "generate", "input_tokens": 1000, "output_tokens": 24}
    alone = memory(**H100, **fields).kv_cache
    assert [memory(**H100, **fields, gpus=n, tp=n).kv_cache for n in (2, 4)] == [exact(alone / 2), exact(alone / 4)]
    assert memory(**H100, **fields, gpus=7, tp=7).kv_cache == exact(alone / 4)  # four heads: one on each of seven GPUs


@pytest.mark.parametrize(
    ("stored", "bits"), [("bf16", 16), ("fp8", 8), ("int4", 4 + 32 / 128), ("nf4", 4.5), ("awq", 4 + 20 / 128)]
)
def test_stored_weights(stored: str, bits: float) -> None:
    """Matrices of the layers in the format; norms, embedding and head in 16 bit."""
    matrices = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336)
    kept = 2 * 128256 * 4096 + (2 * 32 + 1) * 4096
    found = memory(**H100, model="llama-3.1-8b", task="generate", weight_dtype=stored)
    assert found.weights == exact(matrices * bits / 8 + kept * 2)


def test_a_smaller_format_never_takes_more() -> None:
    by_bits = sorted(FORMATS.values(), key=lambda item: item.bits)
    whole = [item for item in by_bits if item.bits < item.kept_bits == 16]
    sizes = [memory(gpu="B200 SXM", model="qwen3-8b", task="generate", weight_dtype=item.name).weights for item in whole]
    assert sizes == sorted(sizes)


def test_qlora_by_hand() -> None:
    """Weights of 4.5 bit, adapters of 16 bytes: FP32 weight, gradient and two moments."""
    a = architecture("llama-2-7b")
    lora = {"rank": 8, "targets": ["q", "v"], "base": "nf4"}
    found = training(model="llama-2-7b", recipe="bf16", lora=_lora(lora))
    other = 2 * 32000 * 4096 + (2 * 32 + 1) * 4096  # embedding, head and norms
    assert found["weights"] == exact((a.total - other) * 4.5 / 8 + other * 2)
    assert found["optimizer"] == exact(4_194_304 * (4 + 8))


def test_old_bitsandbytes_keeps_the_input_of_every_product() -> None:
    """Two of the width (attention's and the MLP's) and one of the MLP's own, in 16 bit: the output of attention is kept anyhow."""
    lora = _lora({"rank": 8, "targets": ["q", "v"], "base": "nf4"})
    fields = {"model": "llama-2-7b", "recipe": "bf16", "lora": lora, "micro_batch": 2, "sequence": 1024, "checkpointing": "none"}
    old, new = (training(**fields, engine=engine)["activations"] for engine in ("transformers@4.40", "transformers@4.45"))
    assert old - new == exact(2 * 1024 * 32 * 2 * (2 * 4096 + 11008))


def _lora(fields: dict[str, Any]) -> Any:
    import msgspec

    from planner.workload.tasks import Lora

    return msgspec.convert(fields, Lora)


def test_an_adapter_costs_a_fraction_of_the_model() -> None:
    adapters = _lora({"rank": 16, "targets": "all-linear", "base": "bf16"})
    whole = memory(**H100, model="llama-3.1-8b", task="finetune", recipe="bf16", micro_batch=1, sequence=512)
    light = memory(**H100, model="llama-3.1-8b", task="finetune", recipe="bf16", micro_batch=1, sequence=512, lora=adapters)
    assert light.weights == exact(2 * LLAMA_8B)
    assert light.optimizer + light.gradients < 0.02 * (whole.optimizer + whole.gradients)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_zero_divides_what_it_says(ranks: int) -> None:
    def states(sharding: str) -> tuple[object, ...]:
        found = training(recipe="mixed", gpus=ranks, dp=ranks, sharding=sharding)
        return found["weights"], found["gradients"], found["optimizer"]

    weights, gradients, optimizer = (
        training(recipe="mixed", gpus=ranks, dp=ranks)[name] for name in ("weights", "gradients", "optimizer")
    )
    assert states("zero1") == (exact(weights), exact(gradients), exact(optimizer / ranks))
    assert states("zero2") == (exact(weights), exact(gradients / ranks), exact(optimizer / ranks))
    assert states("zero3") == (exact(weights / ranks), exact(gradients / ranks), exact(optimizer / ranks))


def test_hybrid_sharding_divides_inside_the_node() -> None:
    across = training(gpus=16, dp=16, gpus_per_node=8, sharding="zero3")
    inside = training(gpus=16, dp=16, gpus_per_node=8, sharding="hsdp")
    assert inside["optimizer"] == exact(2 * across["optimizer"])


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt2", "mixtral-8x7b", "qwen3-8b"])
@pytest.mark.parametrize("tp", [2, 4])
def test_tensor_parallel_ranks_hold_the_weights_once(model: str, tp: int) -> None:
    """But for the final norm, which every rank has."""
    fields = {**H100, "model": model, "task": "generate"}
    alone, shard = memory(**fields).weights, memory(**fields, gpus=tp, tp=tp).weights
    copies = (tp - 1) * architecture(model).final_vector * 2
    assert tp * shard == exact(alone + copies, rel=1e-12)


def test_experts_are_spread_over_expert_parallel_ranks() -> None:
    a = architecture("qwen3-30b-a3b")
    fields = {**H100, "model": "qwen3-30b-a3b", "task": "generate"}
    alone, spread = memory(**fields).weights, memory(**fields, gpus=8, dp=8, ep=8, tp=1).weights
    assert alone - spread == exact(2 * a.experts_total * 7 / 8)


def test_transformers_before_4_45_makes_the_logits_of_the_whole_prompt() -> None:
    """16 bit and FP32 of 30,720 tokens · 151,936 entries; from 4.45 on of one token."""
    fields = {**H100, "model": "qwen2.5-0.5b", "task": "generate", "input_tokens": 30_720, "output_tokens": 2048}
    assert memory(**fields, engine="transformers@4.41").logits == exact(6 * 30_720 * 151_936)
    assert memory(**fields, engine="transformers@4.48.1").logits <= 6 * 151_936
    assert ask(**fields, engine="transformers").assumed["engine_release"] == "5.0 and later"


def test_the_old_cache_stands_beside_the_new_one_while_a_token_is_appended() -> None:
    fields = {**H100, "model": "llama-2-7b", "task": "generate", "input_tokens": 16, "output_tokens": 2032, "batch": 8}
    cache = 8 * 2048 * 524_288
    old, new = (memory(**fields, engine=f"transformers@{release}") for release in ("4.40", "5.0"))
    assert old.kv_cache == old.buffers == exact(cache)
    assert new.kv_cache == 32 * new.buffers == exact(cache)
    assert memory(**fields, engine="vllm").buffers == 0


def test_a_cache_in_blocks_is_rounded_up() -> None:
    fields = {**H100, "model": "llama-3.1-8b", "task": "generate", "input_tokens": 1000, "output_tokens": 1}
    assert memory(**fields, engine="vllm").kv_cache == exact(1008 * 131_072)
    assert memory(**fields, engine="llama.cpp").kv_cache == exact(1001 * 131_072)


@pytest.mark.parametrize(("engine", "chunked"), [("vllm", True), ("vllm@0.6.3.post1", False), ("vllm@0.11", True)])
def test_a_release_picks_its_record(engine: str, *, chunked: bool) -> None:
    fields = {**H100, "model": "llama-3.1-8b", "task": "prefill", "input_tokens": 60_000, "engine": engine}
    tokens = 8192 if chunked else 60_000
    assert memory(**fields).activations == exact(tokens * (6 * 14336 + 8 * 4096))


def test_layers_are_dealt_out_where_the_engine_does_so() -> None:
    fields = {**H100, "model": "llama-3.1-70b", "task": "generate", "gpus": 2}
    dealt, split = ask(**fields, engine="transformers").layout, ask(**fields, engine="vllm").layout
    assert dealt is not None
    assert split is not None
    assert (dealt.tp, dealt.pp, split.tp, split.pp) == (1, 2, 2, 1)


def test_one_gpu_has_no_communicators() -> None:
    fields = {**H100, "model": "qwen3-8b", "task": "generate", "batch": 1, "input_tokens": 16, "engine": "vllm"}
    assert memory(**fields, gpus=2, tp=2).overhead - memory(**fields).overhead == exact(2.1 * GIB, rel=0.01)


def test_the_reserve_of_the_engine_is_not_there_to_use() -> None:
    """Weights of 77 % of the GPU and their overheads fit an engine that takes 90 %, not one that takes 78 %."""
    fields = {**H100, "model": "qwen3-32b", "task": "generate", "input_tokens": 16, "output_tokens": 16, "engine": "vllm"}
    assert ask(**fields, memory_fraction=0.9).fits
    small = ask(**fields, memory_fraction=0.78)
    assert not small.fits
    assert small.reason is not None
    assert "short" in small.reason


def test_what_fits_at_once_just_fits() -> None:
    fields = {**H100, "model": "llama-3.1-8b", "task": "serve", "input_tokens": 1500, "output_tokens": 500}
    most = ask(**fields, concurrency=64).max_concurrency
    assert most is not None
    assert 200 < most < 300  # (0.9 · 79.2 GiB - 15 GiB of weights and some) ÷ 262 MB
    assert ask(**fields, concurrency=most - 2).fits


@pytest.mark.parametrize(("engine", "states"), [("sglang@0.5.9", 3), ("sglang@0.5.16", 5), ("vllm", 0)])
def test_states_of_recurrences_have_a_pool_of_their_own_in_sglang(engine: str, states: int) -> None:
    """By hand: 30 of 40 layers keep 2 MiB of states in FP32 and 3 inputs of 8,192 convolutions; keys and values of 10 layers are 20 KiB a token."""
    fields = {
        "gpu": "H200 SXM",
        "model": "qwen3.5-35b-a3b",
        "task": "generate",
        "input_tokens": 600,
        "output_tokens": 424,
        "engine": engine,
    }
    each, cached = 30 * (32 * 128 * 128 * 4 + 3 * 8192 * 2), 10 * 2 * 2 * 256 * 2 * 1024
    expected = max(states * each * 1.9 / 0.9, cached * 1.9) if states else each + cached
    assert memory(**fields).kv_cache == exact(expected, rel=0.02)


def test_memory_that_is_missing_is_counted_in_the_reason() -> None:
    answer = ask(**H100, model="llama-3.1-70b", task="generate")
    assert not answer.fits
    assert answer.reason is not None
    assert answer.reason.startswith("does not fit: ")
    assert answer.memory_bytes is not None
    assert answer.memory_bytes.weights == exact(2 * 70_553_706_496)
