"""Training memory against PyTorch: what one layer keeps, and the peak of a whole step, over recipes, optimizers and families."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from statistics import median, quantiles
from typing import Any

import pytest
import torch
from engine_sample import candidate, chip
from fake_torch import quiet
from memory_oracle import Case, Seen, build, run
from torch.distributed._tools.mem_tracker import MemTracker

from planner.engine.memory import memory_of
from planner.engine.records.layout import CHECKPOINTING

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
    for model in OTHERS.values():
        yield Case(model=model, micro_batch=4)
        yield Case(model=model, recipe="amp", checkpointing="full", micro_batch=4)
    for model in EXPERTS:  # in 16 bit: there is no grouped product in FP32
        for checkpointing in ("none", "full"):
            yield Case(model=model, checkpointing=checkpointing, micro_batch=4)
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


def predicted(case: Case) -> tuple[float, float]:
    """(bytes one layer keeps, bytes at the peak of the step), as the planner has them."""
    lora: dict[str, Any] = {"lora": {"rank": case.rank, "targets": list(case.targets) or "all-linear"}} if case.rank else {}
    one = candidate(
        chip("H100-SXM-80GB"),
        {"checkpointing": CHECKPOINTING[case.checkpointing]},
        model=case.model,
        task="finetune" if case.rank else "train",
        recipe=case.recipe,
        optimizer=case.optimizer,
        attention=case.attention,
        loss=case.loss,
        micro_batch=case.micro_batch,
        sequence=case.sequence,
        global_batch=case.micro_batch * case.accumulated,
        optimizer_in_backward=case.in_backward,
        engine="torch",
        **lora,
    )
    kept = one.jobs[0].footprint
    stored = kept.attention + kept.scores
    attention = min(kept.attention_recomputed, stored) if case.checkpointing == "selective" else stored
    found = memory_of(one.table())
    layer = case.micro_batch * case.sequence * (kept.norms + attention + kept.mlp + kept.dropout)
    return layer, float((found.total - found.overhead)[0])


@cache
def compared() -> list[tuple[Case, Seen, float, float]]:
    """Each case with what PyTorch holds, and the planner's bytes of a layer and of the peak."""
    return [(case, run(case), *predicted(case)) for case in cases()]


def described(case: Case, error: float) -> str:
    return f"{error:+.2%} {case.model['model_type']} {case}"


def test_there_are_enough_cases() -> None:
    assert len(compared()) >= 60


def test_what_a_layer_keeps_is_what_autograd_saves() -> None:
    errors = [(layer / seen.layer - 1, case) for case, seen, layer, _ in compared() if case.checkpointing != "full"]
    wrong = [described(case, error) for error, case in errors if abs(error) > 0.02]
    assert not wrong, "\n".join(wrong)
    assert len(errors) > 40


def test_the_peak_of_a_step_is_where_pytorch_has_it() -> None:
    errors = sorted(((abs(peak / seen.peak - 1), case) for case, seen, _, peak in compared()), key=lambda found: found[0])
    sizes = [error for error, _ in errors]
    worst = "\n".join(described(case, error) for error, case in errors[-8:])
    assert median(sizes) <= 0.005, worst
    assert quantiles(sizes, n=10)[-1] <= 0.02, worst
    assert sizes[-1] <= 0.05, worst


@pytest.mark.parametrize("part", ["weights", "gradients", "optimizer"])
def test_states_are_what_pytorch_holds(part: str) -> None:
    """Parameter for parameter, in a step whose peak is the optimizer's."""
    case = Case(model=LLAMA | {"vocab_size": 1000}, recipe="fp32", micro_batch=1, sequence=16)
    seen: dict[str, Any] = run(case).parts
    asked: dict[str, Any] = {"recipe": "fp32", "micro_batch": 1, "sequence": 16, "engine": "torch"}
    found = memory_of(candidate(chip("H100-SXM-80GB"), model=case.model, task="train", **asked).table())
    assert float(getattr(found, part)[0]) == pytest.approx(seen[part], rel=1e-3)


def test_what_lives_is_what_pytorchs_own_tracker_sees() -> None:
    """Our count of storages against torch's `MemTracker`, which follows the same step in its own way."""
    case = Case(model=LLAMA, micro_batch=4, sequence=512)
    with quiet():
        model = build(case, torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        ids = torch.zeros((case.micro_batch, case.sequence), dtype=torch.int64)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for _ in range(2):
                outputs = model(input_ids=ids, labels=ids)
                outputs.loss.backward()
                del outputs
                optimizer.step()
                optimizer.zero_grad()
                tracker.reset_mod_stats()
    (peak,) = (found["Total"] for found in tracker.get_tracker_snapshot("peak").values())
    assert run(case).peak == pytest.approx(peak, rel=1e-4)
