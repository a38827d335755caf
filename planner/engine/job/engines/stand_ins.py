"""Names of programs that run another engine, and what they turn on by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.job.engine import Engine
from planner.engine.job.engines.serving import GENERIC


class StandIn(msgspec.Struct, frozen=True, kw_only=True):
    """A program that people name as an engine and that runs, or computes as, another one."""

    name: str
    label: str
    engine: str
    """The engine whose record holds for it."""
    words: str
    """Relation to that engine."""
    turns_on: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Keys of a workload -> what it sets by default."""
    differs: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Attributes of the record that differ."""
    source: str


_LIKE = "has no figures of its own here, and is taken to be as fast as"
_WIDE = "has no figures of its own here, and is taken as"
_HF = "trains by the Trainer of"
_FETCHES = {"": "q4_k_m", "fp8": "q4_k_m", "mxfp4": "mxfp4_moe", "mxfp4-fp8": "mxfp4_moe"}
"""Files that Ollama's library and LM Studio offer first: of 4 bits, and of experts that are published in MXFP4 as they are."""

STAND_INS: dict[str, StandIn] = {
    one.name: one
    for one in (
        StandIn(
            name="ollama",
            label="Ollama",
            engine="llama.cpp",
            words="runs",
            differs={"fetches": _FETCHES},
            source="Ollama builds on ggml and llama.cpp",
        ),
        StandIn(
            name="lm-studio",
            label="LM Studio",
            engine="llama.cpp",
            words="runs",
            differs={"fetches": _FETCHES},
            source="LM Studio's runtimes: llama.cpp on CUDA",
        ),
        StandIn(
            name="koboldcpp", label="KoboldCpp", engine="llama.cpp", words="is a fork of", source="KoboldCpp builds on llama.cpp"
        ),
        StandIn(
            name="nim",
            label="NIM",
            engine="tensorrt-llm",
            words="runs",
            source="NIM for LLMs: TensorRT-LLM where a profile exists, else vLLM",
        ),
        StandIn(
            name="tgi",
            label="TGI",
            engine="vllm",
            words=_LIKE,
            source="Text Generation Inference: continuous batching, paged cache",
        ),
        StandIn(
            name="lmdeploy", label="LMDeploy", engine="tensorrt-llm", words=_LIKE, source="TurboMind: a C++ engine with CUDA graphs"
        ),
        StandIn(
            name="exllamav3",
            label="ExLlamaV3",
            engine="gpt-fast",
            words=_LIKE,
            differs={"fp16_accumulate": True, "unpacks": True},
            source="ExLlama: fused kernels for packed weights, CUDA graphs; one stream or a few; prompts of more than 50 rows (MAX_Q_GEMM_ROWS) "
            "unpack each matrix to FP16 and multiply it by cublasHgemm, which adds up in FP16 (exllamav2's q_gemm.cu)",
        ),
        StandIn(name="mlc", label="MLC LLM", engine="gpt-fast", words=_LIKE, source="MLC LLM: compiled kernels and CUDA graphs"),
        StandIn(
            name="aphrodite",
            label="Aphrodite",
            engine="vllm",
            words="is a fork of",
            source="Aphrodite Engine's README: built on vLLM's paged attention",
        ),
        StandIn(name="vllm-omni", label="vLLM-Omni", engine="vllm", words="answers in text by", source="vLLM-Omni extends vLLM"),
        StandIn(
            name="dynamo",
            label="Dynamo",
            engine="vllm",
            words="routes requests to workers of",
            source="NVIDIA Dynamo's README: vLLM, SGLang and TensorRT-LLM as backends",
        ),
        StandIn(
            name="triton",
            label="Triton Inference Server",
            engine="tensorrt-llm",
            words="serves language models by its backend of",
            source="triton-inference-server/tensorrtllm_backend",
        ),
        StandIn(
            name="deepspeed-mii",
            label="DeepSpeed-MII",
            engine="vllm",
            words=_LIKE,
            source="DeepSpeed-FastGen: blocked cache, continuous batching, split prompts",
        ),
        StandIn(
            name="lightllm",
            label="LightLLM",
            engine="vllm",
            words=_LIKE,
            source="LightLLM: continuous batching, cache by the token",
        ),
        StandIn(name="fastertransformer", label="FasterTransformer", engine=GENERIC, words=_WIDE, source="no continuous batching"),
        StandIn(name="mlx", label="MLX", engine=GENERIC, words=_WIDE, source="MLX: Metal and CUDA kernels of its own"),
        StandIn(name="atom", label="ATOM", engine=GENERIC, words=_WIDE, source="ROCm/ATOM: AMD's AITER kernels"),
        StandIn(
            name="torchtitan",
            label="torchtitan",
            engine="torch",
            words="trains by FSDP2 of",
            turns_on={"recipe": "amp", "sharding": "zero3", "checkpointing": "selective-op", "optimizer": "adamw-fused"},
            source="torchtitan's train configs: FSDP2 with FP32 parameters cast to BF16, activation checkpointing by operators, fused AdamW",
        ),
        StandIn(
            name="torchtune",
            label="torchtune",
            engine="torch",
            words="trains by",
            turns_on={"recipe": "bf16", "loss": "chunked", "optimizer": "adamw-fused"},
            source="torchtune's recipes: dtype bf16, LinearCrossEntropyLoss over 8 chunks, fused AdamW; checkpointing is set by each config",
        ),
        StandIn(
            name="lightning",
            label="Lightning",
            engine="torch",
            words="trains by",
            source="PyTorch Lightning: loops around PyTorch's own steps",
        ),
        StandIn(
            name="nanotron",
            label="Nanotron",
            engine="torch",
            words="trains by",
            turns_on={"recipe": "mixed", "sharding": "zero1"},
            differs={"unfused_optimizer": False},
            source="nanotron's config: torch_adam_is_fused, BF16 weights, FP32 gradients accumulated, ZeRO 1",
        ),
        StandIn(
            name="deepspeed",
            label="DeepSpeed",
            engine="transformers",
            words="shards",
            turns_on={"recipe": "mixed", "sharding": "zero2"},
            differs={"gradients_16_bit": True, "most_pipelined_zero": 1, "accelerates": 0.0, "unfused_optimizer": False},
            source="DeepSpeed: FusedAdam; FP32 master weights, gradients in the type of the model (grad_accum_dtype); ZeRO 2 in its getting-started config, and 1 at most "
            "in a pipeline (runtime/pipe/engine.py: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism)",
        ),
        StandIn(
            name="megatron-deepspeed",
            label="Megatron-DeepSpeed",
            engine="megatron",
            words="is a fork of",
            turns_on={"recipe": "mixed", "sharding": "zero1"},
            differs={
                "peaks_compared": True,
                "gradients_16_bit": True,
                "whole_between": 1.0,
                "keeps_stage_outputs": 1.0,
                "most_pipelined_zero": 1,
            },
            source="DeepSpeed's optimizer (2 + 2 + 12 bytes a parameter, arXiv:1910.02054 §3.1) and pipeline (runtime/pipe/engine.py keeps outputs in "
            "its buffers) around Megatron as it was before sequence parallelism (arXiv:2205.05198)",
        ),
        StandIn(
            name="megatron-bridge",
            label="Megatron-Bridge",
            engine="megatron",
            words="trains by",
            turns_on={"recipe": "mixed", "sharding": "zero1"},
            differs={"peaks_compared": True, "gradients_16_bit": True},
            source="Megatron-Bridge, as NeMo before it: distributed optimizer, gradients added up and reduced in BF16 by its performance recipes "
            "(scripts/performance: use_distributed_optimizer, grad_reduce_in_fp32 = False)",
        ),
        StandIn(
            name="nemo",
            label="NeMo",
            engine="megatron",
            words="trains by",
            turns_on={"recipe": "mixed", "sharding": "zero1"},
            differs={"gradients_16_bit": True},
            source="NeMo's pretraining recipes, which Megatron-Bridge's follow: distributed optimizer, gradients reduced in BF16",
        ),
        StandIn(
            name="litgpt",
            label="LitGPT",
            engine="torch",
            words="trains by FSDP of",
            turns_on={"loss": "chunked"},
            differs={
                "peaks_compared": True,
                "flat_gradients": 1.0,
                "packed_keep_inputs": True,
                "head_apart": True,
                "joins_projections": True,
                "drops_adapter_inputs": True,
            },
            source="LitGPT's fine-tuning: FSDP around blocks of frozen and trained weights, whose gradients have one flat tensor, and "
            "no_backward_sync between micro batches (PyTorch's FSDP: gradients are then kept whole); bitsandbytes 0.42; its GPT has an lm_head beside its wte: "
            "Falcon 7B, tied elsewhere, takes 0.65 GB more in 16 bit and 1.26 in FP32 (tutorials/quantize.md), which is its head; one "
            "product for query, key and value, keys and values expanded to all query heads (lit_gpt/model.py), lora_dropout 0.05 (finetune/lora.py)",
        ),
        StandIn(
            name="fms-acceleration",
            label="fms-acceleration",
            engine="transformers",
            words="adds kernels to the Trainer of",
            differs={"peaks_compared": True, "stream_gradients": 1.0, "fuses_whole_loss": True, "unfused_optimizer": True},
            source="adamw_torch is its default (foundation-model-stack/fms-hf-tuning#607); fms-acceleration on FSDP's first version, which frees gradients by record_stream (docs.pytorch.org, FSDP2 compared with FSDP1); "
            "its reference runs hold the same bytes with and without Liger's fused loss under FSDP, all 18 pairs (refs/a100_80gb_liger.csv)",
        ),
        StandIn(
            name="trl",
            label="TRL",
            engine="transformers",
            words=_HF,
            turns_on={"checkpointing": "full", "optimizer": "adamw-fused"},
            differs={"widens_residual": True, "frees_logits": 0.0},
            source="SFTTrainer measures accuracy and entropy on the logits before the backward pass; SFTConfig: gradient_checkpointing and bf16 are on, adamw_torch_fused; SFTTrainer calls PEFT's prepare_model_for_kbit_training, which casts "
            "embedding, norms and head of a bitsandbytes base to FP32",
        ),
        StandIn(
            name="axolotl",
            label="Axolotl",
            engine="transformers",
            words=_HF,
            turns_on={"optimizer": "adamw-fused", "attention": "flash"},
            differs={"ampere_attention": True, "triton_attention": False},
            source="Axolotl's config: bf16 auto, adamw_torch_fused; flash_attention, which is FlashAttention 2",
        ),
        StandIn(
            name="ms-swift",
            label="ms-swift",
            engine="transformers",
            words=_HF,
            turns_on={"checkpointing": "full"},
            source="ms-swift's command line parameters: gradient_checkpointing is True by default",
        ),
        StandIn(
            name="llama-factory",
            label="LLaMA-Factory",
            engine="transformers",
            words=_HF,
            turns_on={"checkpointing": "full", "attention": "flash"},
            source="LLaMA-Factory: disable_gradient_checkpointing is false, flash_attn auto",
        ),
        StandIn(
            name="verl",
            label="verl",
            engine="transformers",
            words="trains by FSDP around the models of",
            turns_on={"recipe": "amp", "sharding": "zero3", "checkpointing": "full"},
            differs={"accelerates": 0.0, "ampere_attention": True, "triton_attention": False, "masks_windows": False},
            source="verl's trainer configs: model_dtype fp32 under FSDP in BF16, reshard_after_forward, enable_gradient_checkpointing (engine/fsdp.yaml, "
            "model/hf_model.yaml); FlashAttention 2 by default (verl-project/verl#5419)",
        ),
        StandIn(
            name="openrlhf",
            label="OpenRLHF",
            engine="transformers",
            words="trains by DeepSpeed around the models of",
            turns_on={"recipe": "mixed", "sharding": "zero2", "attention": "flash"},
            differs={
                "gradients_16_bit": True,
                "most_pipelined_zero": 1,
                "accelerates": 0.0,
                "unfused_optimizer": False,
                "ampere_attention": True,
                "triton_attention": False,
            },
            source="OpenRLHF's train_ppo_ray.py: zero_stage 2, no gradient_checkpointing, flash_attention_2; else as DeepSpeed",
        ),
        StandIn(
            name="unsloth",
            label="Unsloth",
            engine="transformers",
            words="replaces the kernels of",
            turns_on={"checkpointing": "full", "offload": "activations", "loss": "fused", "optimizer": "adamw-8bit"},
            differs={"fused_elementwise": 1.0, "launches_per_layer": 60.0, "masks_windows": False, "gathers_biases": 0.0},
            source='Unsloth: use_gradient_checkpointing="unsloth" keeps layer inputs on the host, fused norms, rotary embedding, MLP and '
            "loss, adamw_8bit in its notebooks",
        ),
        StandIn(
            name="peft", label="PEFT", engine="transformers", words="adds adapters to the models of", source="huggingface/peft"
        ),
        StandIn(
            name="optimum",
            label="Optimum",
            engine="transformers",
            words="runs the models of",
            source="huggingface/optimum: exporters and accelerators around transformers",
        ),
        StandIn(
            name="xtuner",
            label="XTuner",
            engine="transformers",
            words="trains by MMEngine around the models of",
            source="InternLM/xtuner: transformers' models, PEFT's adapters, DeepSpeed's shards",
        ),
        StandIn(
            name="composer",
            label="Composer",
            engine="torch",
            words="trains by FSDP of",
            source="mosaicml/composer, and LLM Foundry, which trains by it",
        ),
        StandIn(
            name="gpt-neox",
            label="GPT-NeoX",
            engine="megatron",
            words="joins DeepSpeed to",
            turns_on={"recipe": "mixed", "sharding": "zero1"},
            differs={"gradients_16_bit": True, "most_pipelined_zero": 1},
            source="EleutherAI/gpt-neox README: Megatron and DeepSpeed; ZeRO 1 in its configs",
        ),
        *(
            StandIn(name=name, label=label, engine="torch", words=_LIKE, source=f"{label}: {what}")
            for name, label, what in (
                ("colossalai", "Colossal-AI", "shards and pipelines of its own around PyTorch's operators"),
                ("internevo", "InternEvo", "ZeRO and sequence parallelism of its own around PyTorch's operators"),
                ("picotron", "Picotron", "four kinds of parallelism in PyTorch, for teaching"),
                ("jax", "JAX", "compiled by XLA"),
                ("maxtext", "MaxText", "compiled by XLA"),
                ("levanter", "Levanter", "compiled by XLA"),
            )
        ),
    )
}


def as_stand_in(one: StandIn, engine: Engine) -> Engine:
    """The record of `engine` with what differs in `one`."""
    runs = f"{one.label} {one.words} {engine.label}"
    return replace(
        engine, label=one.label, runs=runs, turns_on=one.turns_on, source=f"{one.source}; {engine.source}", **one.differs
    )
