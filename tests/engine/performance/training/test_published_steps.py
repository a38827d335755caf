"""Published training that no constant was fitted to: speeds of FlashAttention's GPTs, lengths that fit by QLoRA."""

from __future__ import annotations

import pytest
from engine_sample import ask, memory


@pytest.mark.parametrize(
    ("layers", "width", "heads", "sequence", "micro_batch", "teraflop_per_s"),
    [
        (12, 768, 12, 1024, 32, 147),
        (24, 1024, 16, 1024, 16, 159),
        (24, 1536, 16, 1024, 8, 170),
        (48, 1600, 25, 1024, 4, 164),
        (12, 768, 12, 2048, 32, 149),
        (24, 1024, 16, 2048, 16, 167),
        (24, 1536, 16, 2048, 8, 163),
        (24, 2048, 16, 2048, 4, 189),
    ],
)
def test_speeds_of_gpt_on_eight_a100(
    layers: int, width: int, heads: int, sequence: int, micro_batch: int, teraflop_per_s: float
) -> None:
    """FlashAttention's chart of 2022 (assets/gpt2_training_efficiency.jpg, gpt3_training_efficiency.jpg), without its batches.

    72 l h² (1 + s/6h + V/12lh) FLOP a token, by Megatron's formula without recomputation.
    """
    vocabulary = 50257
    gpt = {
        "model_type": "gpt2",
        "n_embd": width,
        "n_layer": layers,
        "n_head": heads,
        "vocab_size": vocabulary,
        "n_positions": sequence,
    }
    found = ask(
        model=gpt,
        gpu="A100 80GB SXM",
        gpus=8,
        task="train",
        engine="torch",
        compile=True,
        sequence=sequence,
        micro_batch=micro_batch,
        global_batch=512,
    )
    flop = 72 * layers * width**2 * (1 + sequence / (6 * width) + vocabulary / (12 * layers * width))
    assert found.tokens_per_s_per_gpu is not None
    assert found.tokens_per_s_per_gpu.value * flop == pytest.approx(teraflop_per_s * 1e12, rel=0.16)
    assert found.tokens_per_s_per_gpu.low < teraflop_per_s * 1e12 / flop < found.tokens_per_s_per_gpu.high


@pytest.mark.parametrize(
    ("model", "gpu", "gigabytes", "sequence"),
    [
        ("llama-3.1-8b", "RTX 4090", 24, 5_789),
        ("llama-3.1-8b", "A100 40GB SXM", 40, 12_264),
        ("llama-3.1-8b", "L40S", 48, 15_502),
        ("llama-3.1-8b", "A100 80GB SXM", 80, 28_454),
        ("llama-3.1-70b", "A100 80GB SXM", 80, 6_916),
    ],
)
def test_longest_sequences_of_qlora_fill_the_gpu(model: str, gpu: str, gigabytes: float, sequence: int) -> None:
    """Transformers with FlashAttention 2, rank 32 on all linear layers, one sequence (unsloth.ai/blog/llama3-3 and its README, 2024-12)."""
    total = memory(
        model=model,
        gpu=gpu,
        task="finetune",
        engine="transformers@4.46",
        checkpointing="full",
        sequence=sequence,
        micro_batch=1,
        lora={"rank": 32, "targets": "all-linear", "base": "nf4"},
    ).total
    assert 0.85 < total.value / (gigabytes * 1e9) < 1.0
    assert total.low < gigabytes * 1e9 < total.high
