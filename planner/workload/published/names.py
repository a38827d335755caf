"""Spellings that sources of published measurements use, and the planner's names for them: tables, looked up exactly."""

from __future__ import annotations

import re

TASKS = {
    "pretrain": "train",
    "finetune_full": "finetune",
    "finetune_lora": "finetune",
    "finetune_qlora": "finetune",
    "inference_single": "generate",
    "inference_batch": "generate",
    "prefill": "prefill",
    "serving": "serve",
}
DTYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "mxfp8": "fp8",
    "tf32/fp32": "tf32",
}
"""Other spellings of a precision, without what follows its dash ('bf16-true', 'fp16-act')."""
ENGINES = (
    # how a framework column begins, the engine that is asked, whether the number after it is the engine's release
    ("hf transformers/autogptq", "transformers", False),
    ("hf transformers", "transformers", True),
    ("hf trainer fms-acceleration", "fms-acceleration", False),
    ("hf trainer", "transformers", True),  # the trainer of transformers, numbered as it
    ("hf peft", "transformers", False),  # adapters on transformers, with a release of its own
    ("autogptq/hf", "transformers", False),
    ("transformers", "transformers", True),
    ("vllm", "vllm", True),
    ("sglang", "sglang", True),
    ("tensorrt-llm", "tensorrt-llm", True),
    ("trtllm", "tensorrt-llm", True),
    ("llama.cpp", "llama.cpp", True),
    ("gpt-fast", "gpt-fast", False),
    ("exllama", "exllamav3", False),
    ("mlc", "mlc", False),
    ("lmdeploy", "lmdeploy", False),
    ("megatron-deepspeed", "megatron-deepspeed", False),
    ("megatron-bridge", "megatron-bridge", False),
    ("megatron", "megatron", False),
    ("nemo", "megatron-bridge", False),
    ("litgpt", "litgpt", False),
    ("torchtune", "torch", False),
    ("torchtitan", "torch", False),
    ("llm-foundry", "torch", False),
    ("fms-fsdp", "torch", False),
    ("internevo", "torch", False),
    ("flash-attention", "torch", False),
    ("torch", "torch", False),
)
"""A framework that is not here leaves the engine open, so that the default is used."""
WEIGHTS = {
    "bnb-4bit": "nf4",
    "bnb.nf4": "nf4",
    "bnb.nf4-dq": "nf4-dq",
    "bnb-int8": "int8",
    "fp4-dq": "nf4-dq",
    "gptq-int4-g128": "gptq-int4",
    "gptq-int4-g128-actorder": "gptq-int4",
    "gptq-int4-g32-actorder": "gptq-int4-g32",
    "gptq-int4-nogroup": "gptq-int4",
    "int4-g128": "int4",
    "int4-g32": "gptq-int4-g32",
    "f16": "fp16",
}
"""Spellings of a storage format that are not the planner's; any other is taken as it is, in lower case."""
WEIGHTS_IN_NAMES = {"gptq": "gptq-int4", "awq": "awq", "fp8": "fp8", "nvfp4": "nvfp4"}
"""Words of a model's name that say its format where the column is empty; hubs' GPTQ files have 4 bits unless they say so."""
OPTIMIZERS = {"adamw": "adamw", "adamw 8-bit": "adamw-8bit", "adamw-8bit": "adamw-8bit", "sgd": "sgd", "adafactor": "adafactor"}
SHARDINGS = {
    "none": "none",
    "ddp": "none",
    "tp": "none",
    "tp+sp": "none",
    "layer split": "none",
    "fsdp": "zero3",
    "fsdp2": "zero3",
    "fsdp2 full_shard": "zero3",
    "fsdp-zero3": "zero3",
    "full_shard": "zero3",
    "shard_grad_op": "zero2",
    "zero1": "zero1",
    "zero2": "zero2",
    "zero3": "zero3",
    "hsdp": "hsdp",
}
"""Names without what follows an equals sign: 'zero1=8' shards over 8 ranks, which the planner takes as over all."""
CHECKPOINTING = {"": None, "none": "none", "full": "full", "selective": "selective", "fsdp wrapper default": "full"}
TRUE_16_BIT = ("bf16-true", "16-true")
NAME_WORDS_WITHOUT_SIZE = (
    *("instruct", "chat", "hf", "it", "base", "text", "v1.5", "2507", "0528", "test"),
    *("gptq", "awq", "gemm", "gemv", "int4", "int8", "fp8", "nvfp4", "bf16"),
)
"""Words of a model's name that leave its architecture as it is."""
FAMILIES_WITH_VERSION = re.compile(r"(llama|codellama|gpt|vicuna)(\d[\d.]*)")
SAME_ARCHITECTURE = {
    "llama-7b": "llama-1-7b",
    "llama-13b": "llama-1-13b",
    "llama-33b": "llama-1-33b",
    "llama-65b": "llama-1-65b",
    "llama-70b": "llama-2-70b",
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
    "vicuna-7b": "llama-2-7b",
    "vicuna-13b": "llama-2-13b",
    "koala-13b": "llama-1-13b",
    "wizardlm-33b": "llama-1-33b",
    "mistral-7b": "mistral-7b-v0.1",
    "phi-1.5-1.3b": "phi-1.5",
    "gpt-2-124m": "gpt2",
    "deepseek-r1": "deepseek-v3",
}
"""Models that have the architecture of another one, and names without a version."""


def model_key(name: str) -> str:
    """The part of a model's name that fixes its architecture: 'meta-llama/Llama-2-7b-chat-hf' is 'llama-2-7b'."""
    words = re.split(r"[-_\s]+", name.partition(" (")[0].rsplit("/", 1)[-1].strip().lower())
    kept = [word for word in words if word not in NAME_WORDS_WITHOUT_SIZE]
    first = FAMILIES_WITH_VERSION.fullmatch(kept[0]) if len(kept) > 1 else None
    key = "-".join([*first.groups(), *kept[1:]] if first else kept)
    return SAME_ARCHITECTURE.get(key, key)
