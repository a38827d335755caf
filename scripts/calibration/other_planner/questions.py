"""A request of the planner as a question to `aiconfigurator`: the same model, GPU, layout, lengths and load, in its terms.

Settings that it has no term for are not asked, with the reason (`NotPredicted`). Degrees that a request leaves open are those the planner
chose, so both are asked for one layout. Settings that neither the row nor the request states (the budget of prompt tokens in an iteration,
the release of the tables) are left to aiconfigurator's defaults.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from planner.engine.answers.answer import Answer, LayoutAnswer
from planner.workload.published.rules import NotPredicted
from planner.workload.tasks import Request

SYSTEMS = {
    "A100 80GB SXM": "a100_sxm",
    "A30": "a30",
    "B200 SXM": "b200_sxm",
    "B300 SXM": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "H100 PCIe": "h100_pcie",
    "H100 SXM5 80GB": "h100_sxm",
    "H200 SXM": "h200_sxm",
    "L4": "l4",
    "L40S": "l40s",
    "RTX PRO 6000 Blackwell Server": "rtx_pro_6000_server",
}
"""GPUs that it describes, by the catalogue's name."""
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
MODES = {"serve": "agg", "generate": "static", "prefill": "static_ctx"}
"""Task -> its mode: continuous batching; one fixed batch, prompt and answer; its prompt alone."""
ARCHITECTURES = {
    "gpt_oss": "GptOssForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
"""Published architectures that it knows. Mistral is asked as Llama: the same layers, apart from a window longer than these prompts."""
GEMMS = {
    "awq": "int4_wo",
    "bf16": "bfloat16",
    "fp16": "bfloat16",
    "fp8": "fp8",
    "gptq-int4": "int4_wo",
    "int4": "int4_wo",
    "int8": "int8_wo",
    "nvfp4": "nvfp4",
}
"""Its quantisation of a product, by stored weights; INT8 times INT8 is its `sq`. It has one 16-bit kind."""
CACHES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "int8"}
UNSTATED_POSITIONS = 131072
"""Value for a config that does not state it; no time depends on it."""


def question_of(request: Request, answer: Answer, part: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Questions as other_planner/ask.py takes them, with `key` (of its content) and `replicas`; raises `NotPredicted`.

    `part`: the catalogue's name of the GPU; `config`: the model's, as Hugging Face has it; `answer`: the planner's own.
    """
    assumed = answer.assumed
    engine = str(request.engine or assumed.get("engine", "")).partition("@")[0]
    layout = answer.layout or LayoutAnswer(gpus=request.gpus or 1)
    batch = request.concurrency if request.task == "serve" else request.batch or assumed.get("batch", 1)
    if request.task not in MODES:
        raise NotPredicted(f"it does not predict the task {request.task}")
    if not isinstance(batch, int):
        raise NotPredicted("it takes a number of requests at once, not a rate or as many as fit")
    replicas = layout.dp
    if layout.ep > layout.tp:
        raise NotPredicted("experts spread over data-parallel ranks")
    weights = str(request.weight_dtype or assumed.get("weight_dtype"))
    cache = str(request.kv_dtype or assumed.get("kv_dtype"))
    asked = {
        "config": _config(config),
        "mode": MODES[request.task],
        "system_name": _word(SYSTEMS, part, "the part"),
        "backend_name": _word(BACKENDS, engine, "the engine"),
        "isl": _tokens(request.input_tokens or assumed.get("input_tokens")),
        "osl": 1 if request.task == "prefill" else _tokens(request.output_tokens or assumed.get("output_tokens")),
        "batch_size": max(-(-batch // replicas), 1),
        "tp_size": layout.tp,
        "pp_size": layout.pp,
        "prefix": request.prefix_tokens or 0,
        "gemm_quant_mode": "sq" if (request.dtype, weights) == ("int8", "int8") else _word(GEMMS, weights, "weights in"),
        "kvcache_quant_mode": _word(CACHES, cache, "a cache in"),
    }
    if any("expert" in name for name in config):
        asked |= {"moe_quant_mode": asked["gemm_quant_mode"], "moe_ep_size": layout.ep, "moe_tp_size": layout.tp // layout.ep}
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    return {"key": key, "replicas": replicas, **asked}


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    architecture = _word(ARCHITECTURES, str(config.get("model_type")), "the architecture")
    return {"max_position_embeddings": UNSTATED_POSITIONS, **config, "architectures": [architecture]}


def _word(words: Mapping[str, str], name: str, what: str) -> str:
    if name not in words:
        raise NotPredicted(f"it does not know {what} {name}")
    return words[name]


def _tokens(length: Any) -> int:
    mean = length if isinstance(length, int | float) else getattr(length, "mean", None)
    if mean is None:
        raise NotPredicted("token lengths not stated")
    return round(mean)
