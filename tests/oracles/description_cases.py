"""What the code of `transformers` does for each family, traced on the meta device: FLOPs and cache bytes at three lengths."""

from __future__ import annotations

import json
from typing import Any

from golden import ORACLES, ROOT, Golden, digest

GOLDEN = Golden("descriptions", ROOT / "bench" / "describe.py", ORACLES / "description_cases.py")
DEFAULTS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "default_configs.json").read_text())
LAYERS = 6
"""Enough for every pattern of layers; those whose last layers use an earlier cache have `SHARING`."""
SHARING = 10
WHOLE = (
    "glm4_moe",
    "qwen3_next",
    "gemma4_text",
    "olmo3",
    "glm_moe_dsa",
    "gemma3n_text",
    "deepseek_v4",
    "zamba2",
    "rembert",
    "zaya",
)
"""Families of which the whole description is kept, not its sums alone."""


HYBRID = ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid", "hybrid"]
MIXED: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [2]},
    "gpt_neo": {"attention_types": [[["global", "local"], 3]]},
    "granitemoehybrid": {"layer_types": ["linear_attention"] * 5 + ["full_attention"]},
    "hrm_text": {"num_hidden_layers": 48, "num_layers_per_stack": 6},
    "xlstm": {"num_blocks": 6},
    "zamba": {"layers_block_type": HYBRID},
    "zamba2": {"layers_block_type": HYBRID, "hybrid_layer_ids": [2, 4, 5]},
}
"""Patterns of layers where the first few of the default have no attention, or their number is not said by a list of them."""
DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
UNTRACED = {
    "deberta": "it looks for the longest distance among the values",
    "deberta-v2": "it looks for the longest distance among the values",
    "esm": "it looks for padding among the values",
    "squeezebert": "it looks for values of its mask",
    "cpmant": "32 learned tokens stand before every prompt",
    "jetmoe": "its experts are looped over by value",
    "xlm": "it looks for lengths among the values",
    "xlnet": "its positions are of another dtype than its weights",
    "xmod": "its adapters are chosen by value",
    "longcat_flash": "its experts are looped over by value",
    "openai-gpt": "it keeps no cache",
    "recurrent_gemma": "it keeps its cache in its modules",
}
"""Families whose code the tracer cannot follow, or not in full, on a device without values; their parameters are counted all the same."""


def shortened(config: dict[str, Any]) -> dict[str, Any]:
    """`config` with few layers, everything else as it is."""
    layers = SHARING if config.get("num_kv_shared_layers") else LAYERS
    depth = next((name for name in DEPTHS if name in config), DEPTHS[0])
    all_layers = config.get(depth)
    kept = {key: value[:layers] if isinstance(value, list) and len(value) == all_layers else value for key, value in config.items()}
    shared = {"num_kv_shared_layers": 5} if layers == SHARING else {}
    return kept | {depth: layers} | MIXED.get(config["model_type"], {}) | shared


CASES = {name: shortened(config) for name, config in DEFAULTS.items() if name not in UNTRACED}
TRACED: dict[str, dict[str, Any]] = {
    "dots3_note": {"text_config": {"num_hidden_layers": 3}},
    "ernie4_5_vl_moe": {"text_config": {"num_hidden_layers": 3}},
    "molmo2": {"text_config": {"num_hidden_layers": 3}},
    "voxtral": {"text_config": {"model_type": "llama", "num_hidden_layers": 3}},
    "bart": {"decoder_layers": LAYERS, "is_encoder_decoder": False},
    "git": {"num_hidden_layers": LAYERS},
    "glm5_next": {"text_config": {"num_hidden_layers": 6}},
    "ibert": {"num_hidden_layers": LAYERS},
    "phi4_multimodal": {"num_hidden_layers": LAYERS},
    "prophetnet": {"num_decoder_layers": LAYERS, "is_encoder_decoder": False},
}
"""Models of no known family, or with one that reads pictures or sound, with what differs from the library's defaults: described whole, and planned by their code alone."""
ASKED = CASES | {name: {"model_type": name, **config} for name, config in TRACED.items()}


def key(name: str) -> str:
    """Under which the golden value of a family lies."""
    return f"{name} {digest(json.dumps(ASKED[name], sort_keys=True))}"


def compute(name: str) -> dict[str, Any]:
    """The description of one family, or its sums."""
    from bench.describe import describe

    found = describe(ASKED[name])
    if name in WHOLE or name in TRACED:
        return found
    sizes = {tokens: sum(product(one["shape"]) * one["bytes"] for one in caches) for tokens, caches in found["caches"].items()}
    return {"flops": found["flops"], "cache_bytes": sizes}


def product(shape: list[int]) -> int:
    """Elements of a tensor."""
    return shape[0] * product(shape[1:]) if shape else 1
