"""Reads a Hugging Face `config.json` into an `Architecture`, family by family, exact to the parameter.

Each family is one function from the config's keys to sizes; it states what the modelling code of `transformers`
builds for that `model_type`. An unknown `model_type` is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import Problem, Problems, UserError, nearest_names
from planner.workload.architecture import Architecture


class _Keys:
    """The keys of one config, with every missing or unusable one noted as a problem."""

    def __init__(self, config: Mapping[str, Any], problems: Problems) -> None:
        self._config = config
        self._problems = problems

    def size(self, *names: str, default: int | None = None) -> int:
        """A positive whole number under the first name present."""
        for name in names:
            value = self._config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                self._problems.add(f"model.{name}", f"{value!r} is not accepted; it has to be a positive whole number.")
                return 1
            return value
        if default is None:
            self._problems.add(f"model.{names[0]}", "missing; a positive whole number is required.", nearest_names(names[0], self._config))
            return 1
        return default

    def count(self, name: str, default: int = 0) -> int:
        """A whole number that may be zero."""
        value = self._config.get(name)
        return default if value is None else int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """A truth value."""
        value = self._config.get(name)
        return default if value is None else bool(value)

    def table(self, name: str) -> Mapping[str, Any]:
        """A nested object; empty when absent."""
        value = self._config.get(name)
        return value if isinstance(value, Mapping) else {}

    def items(self, name: str) -> list[Any]:
        """A list; empty when absent."""
        value = self._config.get(name)
        return value if isinstance(value, list) else []


def _rotary_sizes(keys: _Keys, *, tied: bool, kv_default: int | None = None) -> dict[str, Any]:
    """Sizes common to the Llama-like families; RMSNorm has one vector of width h, used twice a layer and once at the end."""
    width, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    kv_heads = keys.size("num_key_value_heads", default=kv_default or heads)
    head_dim = keys.size("head_dim", default=max(1, width // heads))
    layers = keys.size("num_hidden_layers")
    query, key = heads * head_dim, kv_heads * head_dim
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn": keys.size("intermediate_size"),
        "gated": True,
        "vocabulary": keys.size("vocab_size"),
        "tied": keys.flag("tie_word_embeddings", default=tied),
        "max_context": keys.count("max_position_embeddings") or None,
        "attention_matrix": width * query + 2 * width * key + query * width,
        "norm_vector": 2 * width,
        "final_vector": width,
        "cached_per_token": 2 * key,
        "dense_layers": layers,
    }


def _llama(keys: _Keys) -> dict[str, Any]:
    sizes = _rotary_sizes(keys, tied=False)
    query, key, width = sizes["heads"] * sizes["head_dim"], sizes["cached_per_token"] // 2, sizes["width"]
    if keys.flag("attention_bias", default=False):
        sizes["attention_vector"] = query + 2 * key + width
    if keys.flag("mlp_bias", default=False):
        sizes["mlp_vector"] = 2 * sizes["ffn"] + width
    return sizes


def _windowed(keys: _Keys, sizes: dict[str, Any]) -> dict[str, Any]:
    if window := keys.count("sliding_window"):
        sizes |= {"window": window, "windowed_layers": sizes["layers"]}
    return sizes


def _mistral(keys: _Keys) -> dict[str, Any]:
    return _windowed(keys, _rotary_sizes(keys, tied=False, kv_default=8))


def _mixtral(keys: _Keys) -> dict[str, Any]:
    sizes = _mistral(keys)
    return sizes | {
        "dense_layers": 0,
        "experts": keys.size("num_local_experts", default=8),
        "experts_per_token": keys.size("num_experts_per_tok", default=2),
        "expert_ffn": sizes["ffn"],
    }


def _qwen2(keys: _Keys) -> dict[str, Any]:
    sizes = _rotary_sizes(keys, tied=False)
    sizes["attention_vector"] = sizes["heads"] * sizes["head_dim"] + sizes["cached_per_token"]
    return sizes


def _qwen2_moe(keys: _Keys) -> dict[str, Any]:
    return _qwen2(keys) | _qwen_experts(keys) | {
        "shared_ffn": keys.size("shared_expert_intermediate_size", default=5632),
        "shared_gate": keys.size("hidden_size"),
    }


def _qwen3(keys: _Keys) -> dict[str, Any]:
    sizes = _rotary_sizes(keys, tied=False)
    sizes |= {"head_dim": keys.size("head_dim", default=128), "qk_norm": True}
    query, key, width = sizes["heads"] * sizes["head_dim"], sizes["kv_heads"] * sizes["head_dim"], sizes["width"]
    biases = query + 2 * key + width if keys.flag("attention_bias", default=False) else 0
    return sizes | {
        "attention_matrix": 2 * width * query + 2 * width * key,
        "attention_vector": 2 * sizes["head_dim"] + biases,
        "cached_per_token": 2 * key,
    }


def _qwen3_moe(keys: _Keys) -> dict[str, Any]:
    return _qwen3(keys) | _qwen_experts(keys)


def _qwen_experts(keys: _Keys) -> dict[str, Any]:
    """Every `decoder_sparse_step`-th layer has experts, except those of `mlp_only_layers`."""
    layers, step = keys.size("num_hidden_layers"), keys.size("decoder_sparse_step", default=1)
    plain = set(keys.items("mlp_only_layers"))
    sparse = sum(1 for layer in range(layers) if layer not in plain and (layer + 1) % step == 0)
    return {
        "dense_layers": layers - sparse,
        "experts": keys.size("num_experts"),
        "experts_per_token": keys.size("num_experts_per_tok"),
        "expert_ffn": keys.size("moe_intermediate_size"),
    }


def _layer_norm_sizes(width: int, heads: int, layers: int, ffn: int, vocabulary: int, *, norms: int, biases: bool) -> dict[str, Any]:
    """A GPT-style block: full attention, a plain MLP, `norms` LayerNorms (weight and bias) a layer."""
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": width // heads,
        "ffn": ffn,
        "gated": False,
        "vocabulary": vocabulary,
        "tied": True,
        "attention_matrix": 4 * width * width,
        "attention_vector": 4 * width if biases else 0,
        "mlp_vector": ffn + width if biases else 0,
        "norm_vector": 2 * norms * width,
        "final_vector": 2 * width,
        "cached_per_token": 2 * width,
        "dense_layers": layers,
    }


def _gpt2(keys: _Keys) -> dict[str, Any]:
    width = keys.size("n_embd", "hidden_size")
    positions = keys.size("n_positions", "max_position_embeddings", default=1024)
    sizes = _layer_norm_sizes(
        width,
        keys.size("n_head", "num_attention_heads"),
        keys.size("n_layer", "num_hidden_layers"),
        keys.size("n_inner", default=4 * width),
        keys.size("vocab_size", default=50257),
        norms=2,
        biases=True,
    )
    return sizes | {"learned_positions": positions, "max_context": positions, "dropout": True}


def _gptj(keys: _Keys) -> dict[str, Any]:
    """One LayerNorm feeds attention and MLP; the head has a bias and is not tied."""
    width, vocabulary = keys.size("n_embd"), keys.size("vocab_size")
    sizes = _layer_norm_sizes(
        width, keys.size("n_head"), keys.size("n_layer"), keys.size("n_inner", default=4 * width), vocabulary, norms=1, biases=True
    )
    return sizes | {
        "attention_vector": 0,
        "tied": False,
        "final_vector": 2 * width + vocabulary,
        "max_context": keys.size("n_positions", default=2048),
    }


def _gpt_neox(keys: _Keys) -> dict[str, Any]:
    width = keys.size("hidden_size")
    sizes = _layer_norm_sizes(
        width,
        keys.size("num_attention_heads"),
        keys.size("num_hidden_layers"),
        keys.size("intermediate_size"),
        keys.size("vocab_size"),
        norms=2,
        biases=True,
    )
    return sizes | {"tied": keys.flag("tie_word_embeddings", default=False), "max_context": keys.count("max_position_embeddings") or None}


def _falcon(keys: _Keys) -> dict[str, Any]:
    """7B: one key/value head and one norm a layer. 40B and 180B ("new decoder architecture"): grouped heads, two norms."""
    width, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    new = keys.flag("new_decoder_architecture", default=False)
    norms = 2 if new or not keys.flag("parallel_attn", default=True) else 1
    sizes = _layer_norm_sizes(
        width,
        heads,
        keys.size("num_hidden_layers"),
        keys.size("ffn_hidden_size", default=4 * width),
        keys.size("vocab_size", default=65024),
        norms=norms,
        biases=keys.flag("bias", default=False),
    )
    kv_heads = keys.size("num_kv_heads", default=heads) if new else 1 if keys.flag("multi_query", default=True) else heads
    key = kv_heads * sizes["head_dim"]
    return sizes | {"kv_heads": kv_heads, "attention_matrix": 2 * width * width + 2 * width * key, "cached_per_token": 2 * key}


def _mpt(keys: _Keys) -> dict[str, Any]:
    """Norms without bias; ALiBi unless switched off, then learned positions up to `max_seq_len`."""
    width = keys.size("d_model")
    alibi = bool(keys.table("attn_config").get("alibi", True))
    length = keys.size("max_seq_len", default=2048)
    sizes = _layer_norm_sizes(
        width,
        keys.size("n_heads"),
        keys.size("n_layers"),
        keys.size("expansion_ratio", default=4) * width,
        keys.size("vocab_size", default=50368),
        norms=2,
        biases=not keys.flag("no_bias", default=True),
    )
    return sizes | {
        "norm_vector": 2 * width,
        "final_vector": width,
        "learned_positions": 0 if alibi else length,
        "max_context": length,
    }


def _phi(keys: _Keys) -> dict[str, Any]:
    width, heads, vocabulary = keys.size("hidden_size"), keys.size("num_attention_heads"), keys.size("vocab_size")
    sizes = _layer_norm_sizes(
        width, heads, keys.size("num_hidden_layers"), keys.size("intermediate_size"), vocabulary, norms=1, biases=True
    )
    return sizes | {"tied": keys.flag("tie_word_embeddings", default=False), "final_vector": 2 * width + vocabulary}


def _phi3(keys: _Keys) -> dict[str, Any]:
    return _windowed(keys, _rotary_sizes(keys, tied=False))


def _gemma2(keys: _Keys) -> dict[str, Any]:
    """Four norms a layer; every other layer is windowed."""
    sizes = _rotary_sizes(keys, tied=True)
    sizes["norm_vector"] = 4 * sizes["width"]
    if window := keys.count("sliding_window"):
        sizes |= {"window": window, "windowed_layers": (sizes["layers"] + 1) // 2}
    return sizes


def _gemma3(keys: _Keys) -> dict[str, Any]:
    """As gemma2, with q/k norms over the head; one layer in `sliding_window_pattern` attends to everything."""
    sizes = _gemma2(keys)
    pattern = keys.size("sliding_window_pattern", default=6)
    windowed = sizes["layers"] - sizes["layers"] // pattern if sizes.get("window") else 0
    return sizes | {"attention_vector": 2 * sizes["head_dim"], "qk_norm": True, "windowed_layers": windowed}


def _olmo2(keys: _Keys) -> dict[str, Any]:
    """q/k norms over the whole projection."""
    sizes = _rotary_sizes(keys, tied=False)
    return sizes | {"attention_vector": sizes["heads"] * sizes["head_dim"] + sizes["cached_per_token"] // 2, "qk_norm": True}


def _gpt_oss(keys: _Keys) -> dict[str, Any]:
    """Biases everywhere, a learned sink a head; every other layer is windowed."""
    sizes = _rotary_sizes(keys, tied=False)
    width, experts = sizes["width"], keys.size("num_local_experts")
    return sizes | {
        "attention_vector": sizes["heads"] * sizes["head_dim"] + sizes["cached_per_token"] + width + sizes["heads"],
        "dense_layers": 0,
        "experts": experts,
        "experts_per_token": keys.size("num_experts_per_tok", "experts_per_token"),
        "expert_ffn": sizes["ffn"],
        "expert_vector": 2 * sizes["ffn"] + width,
        "router_vector": experts,
        "window": keys.count("sliding_window") or None,
        "windowed_layers": keys.items("layer_types").count("sliding_attention") or (sizes["layers"] + 1) // 2,
    }


def _deepseek(keys: _Keys) -> dict[str, Any]:
    """Multi-head latent attention: the cache holds one compressed vector and one rotary key a token."""
    sizes = _rotary_sizes(keys, tied=False)
    width, heads = sizes["width"], sizes["heads"]
    plain, rotary = keys.size("qk_nope_head_dim"), keys.size("qk_rope_head_dim")
    value, latent, query_rank = keys.size("v_head_dim"), keys.size("kv_lora_rank"), keys.count("q_lora_rank")
    query = heads * (plain + rotary)
    query_matrix = width * query_rank + query_rank * query if query_rank else width * query
    first_dense = keys.count("first_k_dense_replace")
    expert_ffn = keys.size("moe_intermediate_size")
    return sizes | {
        "kv_heads": heads,
        "head_dim": plain + rotary,
        "attention_matrix": query_matrix + width * (latent + rotary) + latent * heads * (plain + value) + heads * value * width,
        "attention_vector": query_rank + latent,
        "cached_per_token": latent + rotary,
        "dense_layers": first_dense,
        "experts": keys.size("n_routed_experts"),
        "experts_per_token": keys.size("num_experts_per_tok"),
        "expert_ffn": expert_ffn,
        "shared_ffn": keys.count("n_shared_experts") * expert_ffn,
        "router_vector": keys.size("n_routed_experts") if keys.count("n_group") and "noaux" in str(keys._config.get("topk_method")) else 0,
    }


FAMILIES: dict[str, Callable[[_Keys], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "gpt2": _gpt2,
    "gptj": _gptj,
    "gpt_neox": _gpt_neox,
    "falcon": _falcon,
    "mpt": _mpt,
    "phi": _phi,
    "phi3": _phi3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "olmo2": _olmo2,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
"""`model_type` -> reader."""


def read_architecture(config: Mapping[str, Any], where: str = "") -> Architecture:
    """The architecture a config describes; raises `UserError` naming every missing or unusable key."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        given = "missing" if family is None else f"{family!r} is not supported"
        near = nearest_names(str(family), FAMILIES) if family is not None else ()
        raise UserError(Problem(where, "model.model_type", f"{given}; supported: {', '.join(sorted(FAMILIES))}.", near))
    problems = Problems(where)
    sizes = FAMILIES[family](_Keys(config, problems))
    if not problems.found and sizes["heads"] % sizes["kv_heads"] and family not in {"deepseek_v2", "deepseek_v3"}:
        problems.add("model.num_key_value_heads", f"{sizes['kv_heads']} does not divide num_attention_heads = {sizes['heads']}.")
    problems.raise_if_any()
    return Architecture(family=family, **sizes)
