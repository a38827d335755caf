"""The training steps that are followed in PyTorch, and the golden values of what each of them held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from golden import ORACLES, Golden, digest

GOLDEN = Golden("training_memory", ORACLES / "memory_oracle.py", ORACLES / "fake_torch.py")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One step: the model as a `config.json`, and how it is trained, in the words of a workload."""

    model: dict[str, Any]
    recipe: str = "bf16"
    optimizer: str = "adamw"
    checkpointing: str = "none"
    attention: str = "flash"
    loss: str = "full"
    micro_batch: int = 2
    sequence: int = 512
    accumulated: int = 1
    rank: int = 0
    """Rank of LoRA adapters on all linear layers, or `targets`; 0: every parameter is trained."""
    targets: tuple[str, ...] = ()
    in_backward: bool = False
    fused: bool = False

    @property
    def key(self) -> str:
        """The family, what is not as by default, and a digest of the whole."""
        changed = [f"{one.name}={value}" for one in fields(self)[1:] if (value := getattr(self, one.name)) != one.default]
        return " ".join([self.model["model_type"], *changed, digest(repr(self))])


LLAMA = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 3,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
QWEN3 = LLAMA | {
    "model_type": "qwen3",
    "intermediate_size": 3072,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 3, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}
OTHERS = {
    "qwen2": LLAMA | {"model_type": "qwen2", "num_key_value_heads": 4, "vocab_size": 151936},
    "mistral": LLAMA | {"model_type": "mistral", "num_key_value_heads": 4, "intermediate_size": 3584},
    "phi3": LLAMA | {"model_type": "phi3", "num_key_value_heads": 8, "pad_token_id": 0},
    "olmo2": LLAMA | {"model_type": "olmo2"},
    "gemma2": LLAMA | {"model_type": "gemma2", "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": True},
    "gpt_neox": {name: LLAMA[name] for name in LLAMA if name != "num_key_value_heads"} | {"model_type": "gpt_neox"},
}
OTHERS |= {
    "gemma3": OTHERS["gemma2"] | {"model_type": "gemma3_text"},
    "phi": OTHERS["gpt_neox"] | {"model_type": "phi"},
    "opt": {"model_type": "opt", "hidden_size": 1024, "word_embed_proj_dim": 1024, "ffn_dim": 4096, "vocab_size": 50272}
    | {"num_hidden_layers": 3, "num_attention_heads": 16},
}
_SMALL = LLAMA | {"num_key_value_heads": 8, "vocab_size": 8000, "pad_token_id": 0}
_OWN_HEADS = _SMALL | {"head_dim": 64}
_BIGCODE = {"model_type": "gpt_bigcode", "n_embd": 768, "n_layer": 3, "n_head": 12, "vocab_size": 8000, "n_positions": 1024}
_NAMED = {
    "cohere cohere2 olmo starcoder2 stablelm exaone4 arcee apertus": _SMALL,
    "glm glm4 helium nemotron seed_oss": _OWN_HEADS,
}
CODED = [_BIGCODE, *(sizes | {"model_type": name} for names, sizes in _NAMED.items() for name in names.split())]
"""Families whose norms, rotary embedding, activation or dropout are code of their own."""
LATENT = LLAMA | {
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 512,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 0,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 384,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
}
EXPERTS = (
    LLAMA | {"model_type": "mixtral", "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2},
    QWEN3 | {"model_type": "qwen3_moe", "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512},
    QWEN3
    | {"model_type": "qwen2_moe", "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512}
    | {"shared_expert_intermediate_size": 1024, "tie_word_embeddings": False},
    LATENT,
    LATENT | {"model_type": "deepseek_v2", "norm_topk_prob": False, "topk_method": "greedy"},
)
_PARTED = _OWN_HEADS | {"num_experts_per_tok": 4, "moe_intermediate_size": 512, "intermediate_size": 512}
ROUTED = (
    _PARTED
    | {
        "model_type": "glm4_moe",
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "first_k_dense_replace": 0,
        "n_group": 1,
        "topk_group": 1,
    },
    _PARTED
    | {
        "model_type": "dots1",
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "first_k_dense_replace": 0,
        "n_group": 1,
        "topk_group": 1,
    },
    _PARTED
    | {"model_type": "ernie4_5_moe", "moe_num_experts": 16, "moe_k": 4, "moe_num_shared_experts": 1, "moe_layer_start_index": 0},
    _PARTED | {"model_type": "minimax_m2", "num_local_experts": 8},
)
"""Mixtures whose router computes in FP32, or whose heads are rotated in part."""
SINKS = LLAMA | {"model_type": "gpt_oss", "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1024}
SINKS |= {"num_local_experts": 8, "num_experts_per_tok": 2}
_FALCON = {"model_type": "falcon", "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 3, "vocab_size": 32000}
STORED = (
    _FALCON | {"new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False, "alibi": False},
    _FALCON | {"new_decoder_architecture": True, "num_kv_heads": 4, "parallel_attn": True, "bias": False, "alibi": False},
    {"model_type": "gptj", "n_embd": 1024, "n_head": 16, "n_layer": 3, "vocab_size": 50400, "rotary_dim": 64}
    | {"n_positions": 2048, "tie_word_embeddings": False},
    {"model_type": "bloom", "hidden_size": 1024, "n_head": 16, "n_layer": 3, "vocab_size": 32000},
    {"model_type": "mpt", "d_model": 1024, "n_heads": 16, "n_layers": 3, "vocab_size": 50368, "max_seq_len": 2048},
)
"""Families whose own classes store attention scores."""


def cases() -> Iterator[Case]:
    """Three families through everything, twenty more through the usual recipes, and sizes that move the peak."""
    for model in (LLAMA, QWEN3, GPT2):
        for recipe in ("bf16", "amp", "fp32", "mixed"):
            for checkpointing in ("none", "full"):
                yield Case(model=model, recipe=recipe, checkpointing=checkpointing, micro_batch=4, sequence=512)
        for checkpointing in ("none", "selective"):
            yield Case(model=model, attention="eager", checkpointing=checkpointing, sequence=512)
        for optimizer in ("sgd", "sgd-momentum", "adafactor", "muon"):
            yield Case(model=model, recipe="amp", optimizer=optimizer, sequence=256)
        yield Case(model=model, recipe="amp", loss="chunked", micro_batch=4, sequence=1024)
        yield Case(model=model, in_backward=True, micro_batch=1, sequence=1024)
        yield Case(model=model, accumulated=4)
    for model in (LLAMA, QWEN3):
        for checkpointing in ("none", "full"):
            yield Case(model=model, rank=16, checkpointing=checkpointing, micro_batch=4)
        yield Case(model=model, rank=8, targets=("q", "v"), micro_batch=4)
    for model in (LLAMA, QWEN3, GPT2, OTHERS["qwen2"], OTHERS["phi3"], OTHERS["gemma2"], LATENT):
        for recipe in ("bf16", "mixed") if model is LATENT else ("bf16", "amp", "mixed"):
            yield Case(model=model, recipe=recipe, checkpointing="selective-op")
        few_words = {"vocab_size": 1000, "n_layer" if model is GPT2 else "num_hidden_layers": 6}
        few_words |= {"first_k_dense_replace": 6} if model is LATENT else {}
        yield Case(model=model | few_words, checkpointing="selective-op", micro_batch=8, sequence=1024)
    yield Case(model=LLAMA, fused=True, micro_batch=1, sequence=64)
    for model in OTHERS.values():
        yield Case(model=model, micro_batch=4)
        yield Case(model=model, recipe="amp", checkpointing="full", micro_batch=4)
    for model in CODED:
        yield Case(model=model)
    for model in EXPERTS:  # in 16 bit: there is no grouped product in FP32
        for checkpointing in ("none", "full"):
            yield Case(model=model, checkpointing=checkpointing, micro_batch=4)
    for model in ROUTED:
        yield Case(model=model, micro_batch=4)
    for model in STORED:
        for recipe in ("bf16", "amp", "fp32"):
            yield Case(model=model, recipe=recipe, attention="eager", micro_batch=4)
    dense = LATENT | {"first_k_dense_replace": LATENT["num_hidden_layers"]}
    for recipe in ("bf16", "amp"):
        for attention in ("flash", "eager"):
            yield Case(model=dense, recipe=recipe, attention=attention, micro_batch=4)
    yield Case(model=SINKS, micro_batch=4)
    yield Case(model=SINKS, attention="eager", micro_batch=4)
    yield Case(model=SINKS, micro_batch=4, rank=8, targets=("q", "v"))
    for layers, width, batch in ((8, 512, 1), (2, 2048, 8), (12, 768, 2)):
        sized = LLAMA | {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 4 * width}
        yield Case(model=sized, recipe="mixed", micro_batch=batch, sequence=1024)


@dataclass(frozen=True)
class Held:
    """What a step held in PyTorch, in bytes."""

    layer: float
    """Kept for backward by one of the middle layers."""
    peak: float


def held(case: Case) -> Held:
    """What `case` holds: the golden value, or PyTorch asked where there is none."""
    return Held(**GOLDEN.get(case.key, lambda: compute(case)))


def compute(case: Case) -> dict[str, float]:
    """What is kept as a golden value, from PyTorch itself."""
    from memory_oracle import run

    seen = run(case)
    return {"layer": seen.layer, "peak": seen.peak}
