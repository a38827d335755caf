"""Models of `transformers` on the meta device: their parameters and the shapes of their matrices, counted module by module."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from planner.workload.huggingface.config import TEXT_PART

ROUTERS = {"gate", "router"}
"""Names of modules that choose experts."""
INWARD = ("project_in", "embeddings_project", "embedding_hidden_mapping_in", "map_inputs_layer")
"""Ends of the names of products between embeddings and layers."""
HEADS = (
    "lm_head",
    "decoder",
    "embed_out",
    "project_out",
    "transform.dense",
    "vocab_transform",
    "head.dense",
    "lm_head.dense",
    "generator_predictions.dense",
    "predictions.dense",
)
"""Ends of the names of output heads, and of products right before them."""
MIXERS = {"conv", "temporal_block", "linear_attn", "attn_hc", "ffn_hc", "hc_head", "mlstm_layer"}
"""Modules that mix tokens, or copies of the residual stream, whose names do not say attention."""
BESIDE = {"mlps", "fc1_latent_proj", "fc2_latent_proj", "input_layernorm", "post_attention_layernorm", "post_mlp_residual_scale"}
"""Products of a layer with experts that are no part of a shared one."""
MLP = ("up_proj", "down_proj", "gate_proj")
"""Names of an MLP's projections where attention and MLP are both called mixers."""
WITHOUT_CODE = {
    "baichuan": "llama",
    "glm4v_moe_text": "glm4_moe",
    "internlm2": "llama",
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "minimax_m3": "minimax_m3_vl_text",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
}
"""Families whose code as a causal language model is that of another one of the library."""


def build(config: dict[str, Any]) -> Any:
    """The model the library builds for `config`, without memory."""
    kept = {key: value for key, value in (config.get(TEXT_PART) or config).items() if key != "torch_dtype"}
    if kept.get("q_lora_rank") == 0:
        kept["q_lora_rank"] = None  # a preset has no null
    if (family := config["model_type"]) != "bert":
        kept["model_type"] = kept.get("model_type", f"{family}_text")
    kept["model_type"] = WITHOUT_CODE.get(kept["model_type"], kept["model_type"])
    causal = family != "bert" and kept["model_type"] in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
    with torch.device("meta"):
        return kind.from_config(transformers.AutoConfig.for_model(**kept))


def kind_of(name: str, module: Any, *, tied: bool) -> str:
    """The component a parameter belongs to, by the names and classes the library gives its modules."""
    path, _, leaf = name.rpartition(".")
    if "norm" in type(module).__name__.lower() and "Head" not in type(module).__name__:
        return "norms"
    if tied and path == "lm_head.decoder" and leaf != "bias":
        return "embedding"
    if "latent_proj" in path or "layernorm.mlp" in path:
        return "mlp"
    if "attention.experts" in path:
        return "biases" if leaf == "bias" else "attention"
    if ".experts" in path or "ParallelExperts" in type(module).__name__:
        return "experts"
    if ROUTERS & set(path.split(".")) or leaf in {"expert_bias", "e_score_correction_bias"}:
        return "router"
    if "shared_expert" in path:
        return "shared"
    if leaf == "bias":
        return "biases"
    if isinstance(module, torch.nn.Embedding) or path.endswith(INWARD):
        return "embedding"
    if path == "head" or (path.endswith(HEADS) and not (tied and path == "lm_head")):
        return "head"
    mixes = (
        any(part in path for part in ("attn", "attention", "mamba"))
        or MIXERS & set(path.split("."))
        or ("mixer" in path and not path.endswith(MLP))
    )
    return "attention" if mixes else "mlp"


def layer_of(path: str) -> str:
    """The layer a module belongs to: its path up to the first number; all of it where there is none."""
    parts = path.split(".")
    return ".".join(parts[: next((at + 1 for at, part in enumerate(parts) if part.isdigit()), len(parts))])


def counted(model: Any) -> Counter[str]:
    """Parameters by component; the corrections of a router count, which the library keeps as a buffer."""
    modules = dict(model.named_modules())
    routed = {layer_of(path) for path in modules if path.endswith(".experts")}
    found: Counter[str] = Counter()
    tensors = dict(model.named_parameters())
    tied = (
        model.config.tie_word_embeddings and "lm_head.weight" not in tensors
    )  # CPM-Ant says so and has embeddings of another length
    for name, whole in tensors.items():
        joined = name.endswith(
            "experts.gate_up_proj"
        )  # LongCat's experts without weights have one in the library, none in checkpoints
        tensor = whole[: len(tensors[name.replace("gate_up", "down")])] if joined else whole
        kind = kind_of(name, modules[name.rpartition(".")[0]], tied=tied)
        found["shared" if kind == "mlp" and layer_of(name) in routed and not BESIDE & set(name.split(".")) else kind] += (
            tensor.numel()
        )
    for name, tensor in model.named_buffers():
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            found["router"] += tensor.numel()
    return found


def shapes(model: Any) -> Counter[tuple[int, ...]]:
    """Linear layers by shape, of the layers alone: routed experts and their router are modules of other kinds."""
    found: Counter[tuple[int, ...]] = Counter()
    adapters: set[int] = set()
    for path, module in model.named_modules():
        linear = isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
        parts = path.split(".")
        if "adapter_list" in path and linear:
            if id(module.weight) in adapters:
                continue  # every use of a shared block has modules for the adapters of all others
            adapters.add(id(module.weight))
        if linear and not ROUTERS & set(parts) and (any(part.isdigit() for part in parts) or "per_layer" in path):
            found[tuple(sorted(module.weight.shape))] += 1
    return found
