"""Models of `transformers` on the meta device: their parameters and the shapes of their matrices, counted module by module."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import transformers

from planner.workload.huggingface.config import TEXT_PART


def build(config: dict[str, Any]) -> Any:
    """The model the library builds for `config`, without memory."""
    kept = {key: value for key, value in (config.get(TEXT_PART) or config).items() if key != "torch_dtype"}
    if kept.get("q_lora_rank") == 0:
        kept["q_lora_rank"] = None  # a preset has no null
    if (family := config["model_type"]) != "bert":
        kept["model_type"] = kept.get("model_type", f"{family}_text")
    kind = transformers.AutoModelForMaskedLM if family == "bert" else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(transformers.AutoConfig.for_model(**kept))


def kind_of(name: str, module: Any, *, tied: bool) -> str:
    """The component a parameter belongs to, by the names and classes the library gives its modules."""
    path, _, leaf = name.rpartition(".")
    if "norm" in type(module).__name__.lower():
        return "norms"
    if ".experts" in path:
        return "experts"
    if path.endswith((".gate", ".router")):
        return "router"
    if "shared_expert" in path:
        return "shared"
    if leaf == "bias":
        return "biases"
    if isinstance(module, torch.nn.Embedding) or path.endswith("project_in"):
        return "embedding"
    if path.endswith(("lm_head", "decoder", "embed_out", "project_out", "transform.dense")) and not (tied and path == "lm_head"):
        return "head"
    return "attention" if "attn" in path or "attention" in path else "mlp"


def counted(model: Any) -> Counter[str]:
    """Parameters by component; the corrections of a router count, which the library keeps as a buffer."""
    modules = dict(model.named_modules())
    found: Counter[str] = Counter()
    for name, tensor in model.named_parameters():
        found[kind_of(name, modules[name.rpartition(".")[0]], tied=model.config.tie_word_embeddings)] += tensor.numel()
    for name, tensor in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            found["router"] += tensor.numel()
    return found


def shapes(model: Any) -> Counter[tuple[int, ...]]:
    """Linear layers by shape, of the layers alone: routed experts and their router are modules of other kinds."""
    found: Counter[tuple[int, ...]] = Counter()
    for path, module in model.named_modules():
        linear = isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
        if linear and any(part.isdigit() for part in path.split(".")):
            found[tuple(sorted(module.weight.shape))] += 1
    return found
