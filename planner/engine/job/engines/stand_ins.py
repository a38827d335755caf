"""Names of programs that run another engine, and what they turn on by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.job.engine import Engine
from planner.engine.job.engines.serving import GENERIC


class StandIn(msgspec.Struct, frozen=True):
    """A program that people name as an engine and that runs, or computes as, another one."""

    label: str
    engine: str
    """The engine whose record holds for it."""
    words: str
    """Relation to that engine."""
    source: str
    turns_on: Mapping[str, Any] = {}
    """Keys of a workload -> what it sets by default."""
    differs: Mapping[str, Any] = {}
    """Attributes of the record that differ."""


_LIKE = "has no figures of its own here, and is taken to be as fast as"
_WIDE = "has no figures of its own here, and is taken as"
_HF = "trains by the Trainer of"
_FETCHES = {"": "q4_k_m", "fp8": "q4_k_m", "mxfp4": "mxfp4_moe", "mxfp4-fp8": "mxfp4_moe"}
"""Files that Ollama's library and LM Studio offer first: of 4 bits, and of experts that are published in MXFP4 as they are."""

STAND_INS = {
    "ollama": StandIn("Ollama", "llama.cpp", "runs", "Ollama builds on ggml and llama.cpp", differs={"fetches": _FETCHES}),
    "lm-studio": StandIn(
        "LM Studio", "llama.cpp", "runs", "LM Studio's runtimes: llama.cpp on CUDA", differs={"fetches": _FETCHES}
    ),
    "koboldcpp": StandIn("KoboldCpp", "llama.cpp", "is a fork of", "KoboldCpp builds on llama.cpp"),
    "nim": StandIn("NIM", "tensorrt-llm", "runs", "NIM for LLMs: TensorRT-LLM where a profile exists, else vLLM"),
    "tgi": StandIn("TGI", "vllm", _LIKE, "Text Generation Inference: continuous batching, paged cache"),
    "lmdeploy": StandIn("LMDeploy", "tensorrt-llm", _LIKE, "TurboMind: a C++ engine with CUDA graphs"),
    "exllamav3": StandIn(
        "ExLlamaV3",
        "gpt-fast",
        _LIKE,
        "ExLlama: fused kernels for packed weights, CUDA graphs; one stream or a few; prompts of more than 50 rows (MAX_Q_GEMM_ROWS) "
        "unpack each matrix to FP16 and multiply it by cublasHgemm, which adds up in FP16 (exllamav2's q_gemm.cu)",
        differs={"fp16_accumulate": True, "unpacks": True},
    ),
    "autoawq": StandIn("AutoAWQ", GENERIC, _WIDE, "AutoAWQ: modules of a few kernels in place of transformers' (fuse_layers)"),
    "mlc": StandIn("MLC LLM", "gpt-fast", _LIKE, "MLC LLM: compiled kernels and CUDA graphs"),
    "aphrodite": StandIn("Aphrodite", "vllm", "is a fork of", "Aphrodite Engine's README: built on vLLM's paged attention"),
    "vllm-omni": StandIn("vLLM-Omni", "vllm", "answers in text by", "vLLM-Omni extends vLLM"),
    "dynamo": StandIn(
        "Dynamo", "vllm", "routes requests to workers of", "NVIDIA Dynamo's README: vLLM, SGLang and TensorRT-LLM as backends"
    ),
    "triton": StandIn(
        "Triton Inference Server",
        "tensorrt-llm",
        "serves language models by its backend of",
        "triton-inference-server/tensorrtllm_backend",
    ),
    "deepspeed-mii": StandIn(
        "DeepSpeed-MII", "vllm", _LIKE, "DeepSpeed-FastGen: blocked cache, continuous batching, split prompts"
    ),
    "lightllm": StandIn("LightLLM", "vllm", _LIKE, "LightLLM: continuous batching, cache by the token"),
    "fastertransformer": StandIn("FasterTransformer", GENERIC, _WIDE, "no continuous batching"),
    "mlx": StandIn("MLX", GENERIC, _WIDE, "MLX: Metal and CUDA kernels of its own"),
    "atom": StandIn("ATOM", GENERIC, _WIDE, "ROCm/ATOM: AMD's AITER kernels"),
    "torchtitan": StandIn(
        "torchtitan",
        "torch",
        "trains by FSDP2 of",
        "torchtitan's train configs: FSDP2 with FP32 parameters cast to BF16, activation checkpointing by operators, fused AdamW",
        turns_on={"recipe": "amp", "sharding": "zero3", "checkpointing": "selective-op", "optimizer": "adamw-fused"},
    ),
    "torchtune": StandIn(
        "torchtune",
        "torch",
        "trains by",
        "torchtune's recipes: dtype bf16, LinearCrossEntropyLoss over 8 chunks, fused AdamW; checkpointing is set by each config",
        turns_on={"recipe": "bf16", "loss": "chunked", "optimizer": "adamw-fused"},
    ),
    "lightning": StandIn("Lightning", "torch", "trains by", "PyTorch Lightning: loops around PyTorch's own steps"),
    "nanotron": StandIn(
        "Nanotron",
        "torch",
        "trains by",
        "nanotron's config: torch_adam_is_fused, BF16 weights, FP32 gradients accumulated, ZeRO 1",
        turns_on={"recipe": "mixed", "sharding": "zero1"},
        differs={"unfused_optimizer": False},
    ),
    "deepspeed": StandIn(
        "DeepSpeed",
        "transformers",
        "shards",
        "DeepSpeed: FusedAdam; FP32 master weights, gradients in the type of the model (grad_accum_dtype); ZeRO 2 in its getting-started config, and 1 at most "
        "in a pipeline (runtime/pipe/engine.py: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism)",
        turns_on={"recipe": "mixed", "sharding": "zero2"},
        differs={"gradients_16_bit": True, "most_pipelined_zero": 1, "accelerates": 0.0, "unfused_optimizer": False},
    ),
    "megatron-deepspeed": StandIn(
        "Megatron-DeepSpeed",
        "megatron",
        "is a fork of",
        "DeepSpeed's optimizer (2 + 2 + 12 bytes a parameter, arXiv:1910.02054, section 3.1) and pipeline (runtime/pipe/engine.py keeps outputs in "
        "its buffers) around Megatron as it was before sequence parallelism (arXiv:2205.05198)",
        turns_on={"recipe": "mixed", "sharding": "zero1"},
        differs={
            "peaks_compared": True,
            "gradients_16_bit": True,
            "whole_between": 1.0,
            "keeps_stage_outputs": 1.0,
            "most_pipelined_zero": 1,
        },
    ),
    "megatron-bridge": StandIn(
        "Megatron-Bridge",
        "megatron",
        "trains by",
        "Megatron-Bridge, as NeMo before it: distributed optimizer, gradients added up and reduced in BF16 by its performance recipes "
        "(scripts/performance: use_distributed_optimizer, grad_reduce_in_fp32 = False)",
        turns_on={"recipe": "mixed", "sharding": "zero1"},
        differs={"peaks_compared": True, "gradients_16_bit": True},
    ),
    "nemo": StandIn(
        "NeMo",
        "megatron",
        "trains by",
        "NeMo's pretraining recipes, which Megatron-Bridge's follow: distributed optimizer, gradients reduced in BF16",
        turns_on={"recipe": "mixed", "sharding": "zero1"},
        differs={"gradients_16_bit": True},
    ),
    "nemo-automodel": StandIn(
        "NeMo AutoModel",
        "torch",
        "replaces the kernels of",
        "NeMo AutoModel: models of transformers with Liger's kernels and PyTorch's fused attention (_transformers/kernel_patches.py), Triton kernels for LoRA "
        "(components/_peft/lora.py), Transformer Engine and DeepEP in its performance summary; FSDP2 and BF16 as its documentation starts a model",
        turns_on={"recipe": "bf16", "sharding": "zero3"},
        differs={"fused_elementwise": 1.0},
    ),
    "litgpt": StandIn(
        "LitGPT",
        "torch",
        "trains by FSDP of",
        "LitGPT's fine-tuning: FSDP around blocks of frozen and trained weights, whose gradients have one flat tensor, and "
        "no_backward_sync between micro batches (PyTorch's FSDP: gradients are then kept whole); bitsandbytes 0.42; its GPT has an lm_head beside its wte: "
        "Falcon 7B, tied elsewhere, takes 0.65 GB more in 16 bit and 1.26 in FP32 (tutorials/quantize.md), which is its head; one "
        "product for query, key and value, keys and values expanded to all query heads (lit_gpt/model.py), lora_dropout 0.05 (finetune/lora.py)",
        turns_on={"loss": "chunked"},
        differs={
            "peaks_compared": True,
            "flat_gradients": 1.0,
            "packed_keep_inputs": True,
            "head_apart": True,
            "joins_projections": True,
            "drops_adapter_inputs": True,
        },
    ),
    "fms-acceleration": StandIn(
        "fms-acceleration",
        "transformers",
        "adds kernels to the Trainer of",
        "adamw_torch is its default (foundation-model-stack/fms-hf-tuning#607); fms-acceleration on FSDP's first version, which frees gradients by record_stream (docs.pytorch.org, FSDP2 compared with FSDP1); "
        "its reference runs hold the same bytes with and without Liger's fused loss under FSDP, all 18 pairs (refs/a100_80gb_liger.csv)",
        differs={"peaks_compared": True, "stream_gradients": 1.0, "fuses_whole_loss": True, "unfused_optimizer": True},
    ),
    "trl": StandIn(
        "TRL",
        "transformers",
        _HF,
        "SFTTrainer measures accuracy and entropy on the logits before the backward pass; SFTConfig: gradient_checkpointing and bf16 are on, adamw_torch_fused; SFTTrainer calls PEFT's prepare_model_for_kbit_training, which casts "
        "embedding, norms and head of a bitsandbytes base to FP32",
        turns_on={"checkpointing": "full", "optimizer": "adamw-fused"},
        differs={"widens_residual": True, "frees_logits": 0.0},
    ),
    "axolotl": StandIn(
        "Axolotl",
        "transformers",
        _HF,
        "Axolotl's config: bf16 auto, adamw_torch_fused; flash_attention, which is FlashAttention 2",
        turns_on={"optimizer": "adamw-fused", "attention": "flash"},
        differs={"ampere_attention": True, "triton_attention": False},
    ),
    "ms-swift": StandIn(
        "ms-swift",
        "transformers",
        _HF,
        "ms-swift's command line parameters: gradient_checkpointing is True by default",
        turns_on={"checkpointing": "full"},
    ),
    "llama-factory": StandIn(
        "LLaMA-Factory",
        "transformers",
        _HF,
        "LLaMA-Factory: disable_gradient_checkpointing is false, flash_attn auto",
        turns_on={"checkpointing": "full", "attention": "flash"},
    ),
    "verl": StandIn(
        "verl",
        "transformers",
        "trains by FSDP around the models of",
        "verl's trainer configs: model_dtype fp32 under FSDP in BF16, reshard_after_forward, enable_gradient_checkpointing (engine/fsdp.yaml, "
        "model/hf_model.yaml); FlashAttention 2 by default (verl-project/verl#5419)",
        turns_on={"recipe": "amp", "sharding": "zero3", "checkpointing": "full"},
        differs={"accelerates": 0.0, "ampere_attention": True, "triton_attention": False, "masks_windows": False},
    ),
    "openrlhf": StandIn(
        "OpenRLHF",
        "transformers",
        "trains by DeepSpeed around the models of",
        "OpenRLHF's train_ppo_ray.py: zero_stage 2, no gradient_checkpointing, flash_attention_2; else as DeepSpeed",
        turns_on={"recipe": "mixed", "sharding": "zero2", "attention": "flash"},
        differs={
            "gradients_16_bit": True,
            "most_pipelined_zero": 1,
            "accelerates": 0.0,
            "unfused_optimizer": False,
            "ampere_attention": True,
            "triton_attention": False,
        },
    ),
    "unsloth": StandIn(
        "Unsloth",
        "transformers",
        "replaces the kernels of",
        'Unsloth: use_gradient_checkpointing="unsloth" keeps layer inputs on the host, fused norms, rotary embedding, MLP and '
        "loss, adamw_8bit in its notebooks",
        turns_on={"checkpointing": "full", "offload": "activations", "loss": "fused", "optimizer": "adamw-8bit"},
        differs={"fused_elementwise": 1.0, "launches_per_layer": 60.0, "masks_windows": False, "gathers_biases": 0.0},
    ),
    "peft": StandIn("PEFT", "transformers", "adds adapters to the models of", "huggingface/peft"),
    "optimum": StandIn(
        "Optimum", "transformers", "runs the models of", "huggingface/optimum: exporters and accelerators around transformers"
    ),
    "xtuner": StandIn(
        "XTuner",
        "transformers",
        "trains by MMEngine around the models of",
        "InternLM/xtuner: transformers' models, PEFT's adapters, DeepSpeed's shards",
    ),
    "composer": StandIn("Composer", "torch", "trains by FSDP of", "mosaicml/composer, and LLM Foundry, which trains by it"),
    "gpt-neox": StandIn(
        "GPT-NeoX",
        "megatron",
        "joins DeepSpeed to",
        "EleutherAI/gpt-neox README: Megatron and DeepSpeed; ZeRO 1 in its configs",
        turns_on={"recipe": "mixed", "sharding": "zero1"},
        differs={"gradients_16_bit": True, "most_pipelined_zero": 1},
    ),
    "colossalai": StandIn("Colossal-AI", "torch", _LIKE, "Colossal-AI: shards and pipelines of its own around PyTorch's operators"),
    "internevo": StandIn(
        "InternEvo", "torch", _LIKE, "InternEvo: ZeRO and sequence parallelism of its own around PyTorch's operators"
    ),
    "picotron": StandIn("Picotron", "torch", _LIKE, "Picotron: four kinds of parallelism in PyTorch, for teaching"),
    "jax": StandIn("JAX", "torch", _LIKE, "JAX: compiled by XLA"),
    "maxtext": StandIn("MaxText", "torch", _LIKE, "MaxText: compiled by XLA"),
    "levanter": StandIn("Levanter", "torch", _LIKE, "Levanter: compiled by XLA"),
}
"""Name -> the program."""


def as_stand_in(one: StandIn, engine: Engine) -> Engine:
    """The record of `engine` with what differs in `one`."""
    runs = f"{one.label} {one.words} {engine.label}"
    return replace(
        engine, label=one.label, runs=runs, turns_on=one.turns_on, source=f"{one.source}; {engine.source}", **one.differs
    )
