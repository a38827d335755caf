"""FLOPs of every matrix product against PyTorch's own counter, on models that exist as shapes only."""

from __future__ import annotations

from typing import Any

import pytest

from planner.engine.performance.operators.matrix_products import BACKWARD, Gemm, flop_per_token, pass_products
from planner.workload.huggingface.config import read_architecture

BATCH, SEQUENCE, KEPT = 2, 40, 3
LLAMA: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
}
EQUAL = {**LLAMA, "num_key_value_heads": 8}
OWN_HEADS = {**LLAMA, "head_dim": 48}
GPT = {"n_embd": 128, "n_layer": 2, "n_head": 4, "vocab_size": 768, "n_positions": 64}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 96}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 20,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    **EXPERTS,
    **EQUAL,
}
OPT: dict[str, Any] = {
    "model_type": "opt",
    "hidden_size": 128,
    "ffn_dim": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "do_layer_norm_before": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **LLAMA},
    "llama, tied": {"model_type": "llama", **LLAMA, "tie_word_embeddings": True},
    "mistral with a window": {"model_type": "mistral", **LLAMA, "sliding_window": 16},
    "qwen2": {"model_type": "qwen2", **LLAMA},
    "qwen3": {"model_type": "qwen3", **OWN_HEADS},
    "gemma2": {"model_type": "gemma2", **OWN_HEADS, "sliding_window": 16},
    "phi3": {"model_type": "phi3", **LLAMA, "pad_token_id": 0},
    "olmo2": {"model_type": "olmo2", **LLAMA},
    "gpt2": {"model_type": "gpt2", **GPT},
    "gpt_neox": {"model_type": "gpt_neox", **EQUAL},
    "falcon": {"model_type": "falcon", **EQUAL, "multi_query": True, "new_decoder_architecture": False, "bias": False},
    "bloom": {"model_type": "bloom", "hidden_size": 128, "n_layer": 2, "n_head": 4, "vocab_size": 512},
    "opt, narrow embedding": {**OPT, "word_embed_proj_dim": 64},
    "opt, wide embedding": {**OPT, "word_embed_proj_dim": 640},
    "mixtral": {"model_type": "mixtral", **LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3_moe": {"model_type": "qwen3_moe", **OWN_HEADS, **EXPERTS, "num_experts": 8},
    "qwen2_moe": {"model_type": "qwen2_moe", **LLAMA, **EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 160},
    "deepseek_v2 lite": {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None},
    "deepseek_v3": {"model_type": "deepseek_v3", **LATENT, "q_lora_rank": 48},
}
OWN_MASK = ("bloom", "opt")
"""The others would look for packed sequences in values that the meta device does not have."""


def counted(config: dict[str, Any], *, keep: int = 0, backward: bool = False) -> int:
    """What PyTorch counts; the tables of the rotary embedding, which it takes for products, are not among it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM

    described = AutoConfig.for_model(**config)
    described._attn_implementation, described._experts_implementation = "eager", "batched_mm"
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(described).train()
        tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
        mask = None if config["model_type"] in OWN_MASK else torch.zeros(BATCH, 1, SEQUENCE, SEQUENCE)
    with FlopCounterMode(display=False) as counter:
        logits = model(tokens, attention_mask=mask, use_cache=False, logits_to_keep=keep).logits
        if backward:
            logits.sum().backward()
    tables = sum(sum(of.values()) for name, of in counter.get_flop_counts().items() if name.endswith("rotary_emb"))
    return int(counter.get_total_flops() - tables)


def products(config: dict[str, Any], **changes: Any) -> list[Gemm]:
    """Ours, with attention as PyTorch counts it: every token attends to all of its sequence."""
    tokens = BATCH * SEQUENCE
    given: dict[str, Any] = {"head_rows": tokens, "new": SEQUENCE, "in_window": SEQUENCE} | changes
    return pass_products(read_architecture(config), tokens, SEQUENCE, **given)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", MODELS)
def test_flops_are_those_of_pytorch(name: str) -> None:
    config = MODELS[name]
    forward = sum(one.flop for one in products(config))
    assert forward == counted(config)
    assert forward * (1 + BACKWARD) == counted(config, backward=True)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "deepseek_v3"])
def test_the_head_is_applied_to_the_tokens_that_are_kept(name: str) -> None:
    kept = sum(one.flop for one in products(MODELS[name], head_rows=BATCH * KEPT))
    assert kept == counted(MODELS[name], keep=KEPT)
    assert kept < sum(one.flop for one in products(MODELS[name]))


def test_a_layer_in_words() -> None:
    names = [one.name for one in products(MODELS["deepseek_v3"])]
    assert names == [
        "q to its latent",
        "q from its latent",
        "k, v to their latent",
        "k, v from their latent",
        "o projection",
        "MLP gate",
        "MLP up",
        "MLP down",
        "experts, gate",
        "experts, up",
        "experts, down",
        "shared expert, gate",
        "shared expert, up",
        "shared expert, down",
        "router",
        "attention scores",
        "attention values",
        "output head",
    ]
    fused = [one.name for one in products(MODELS["phi3"])]
    assert fused[:4] == ["q, k, v projection", "o projection", "MLP gate and up", "MLP down"]


def test_shapes_of_one_model_by_hand() -> None:
    by_name = {one.name: one for one in products(MODELS["llama"])}
    shapes: dict[str, Any] = {name: (one.m, one.n, one.k, one.count) for name, one in by_name.items()}
    assert shapes["q projection"] == (80, 256, 256, 3)
    assert shapes["k projection"] == (80, 64, 256, 3)
    assert shapes["MLP down"] == (80, 256, 688, 3)
    assert shapes["attention scores"] == (40, 40, 32, 3 * 8 * 2)
    assert shapes["attention values"] == (40, 32, 40, 3 * 8 * 2)
    assert shapes["output head"] == (80, 1024, 256, 1)
    assert by_name["MLP down"].flop == 2 * 80 * 256 * 688 * 3


def test_tokens_are_dealt_to_the_experts_that_are_touched() -> None:
    many, few = ({one.name: one for one in products(MODELS["mixtral"], touched=touched)} for touched in (8, 2))
    assert (many["experts, up"].m, many["experts, up"].count) == (80 * 2 / 8, 3 * 8)
    assert (few["experts, up"].m, few["experts, up"].count) == (80, 3 * 2)
    assert many["experts, up"].flop == few["experts, up"].flop


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek_v3"])
def test_ranks_share_the_products(name: str, tp: int) -> None:
    whole, shared = (sum(one.flop for one in products(MODELS[name], tp=ranks)) for ranks in (1, tp))
    assert shared * tp == whole


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", MODELS)
def test_a_token_takes_two_flop_a_parameter_it_is_multiplied_with(name: str) -> None:
    a = read_architecture(MODELS[name])
    attended = 1000
    seen = {"all": attended, "window": min(attended, a.window or attended)}
    attention = 2 * sum(one.layers * one.heads * (one.score_dim + one.value_dim) * seen[one.attends_to] for one in a.attention)
    assert flop_per_token(a, attended) == 2 * a.active_matrix + attention


def test_windows_and_causality_are_what_is_attended_to() -> None:
    whole, half = (sum(one.flop for one in pass_products(read_architecture(MODELS["llama"]), 80, attended, head_rows=80)
        if one.group == "scores") for attended in (40, 20))  # fmt: skip
    assert half == whole / 2
