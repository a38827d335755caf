"""Memory of steps that torch.compile compiles, beside what its own partitioner keeps, and torchtitan's loss by its month."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from engine_sample import memory

from planner.engine.job.engines.find import find_engine
from planner.engine.memory.layers.layer_execution import LayerExecution
from planner.engine.memory.layers.recomputation import stored_activations
from planner.workload.architecture import Architecture
from planner.workload.huggingface.config import read_architecture

WIDTH, HEADS, KV_HEADS, HEAD, FFN, TOKENS = 256, 4, 2, 64, 640, 64
TITAN = {
    "task": "train", "model": "llama-3.1-8b", "gpu": "H100 SXM5 80GB", "gpus": 8, "sequence": 8192, "micro_batch": 1, "global_batch": 8,
    "checkpointing": "selective-op",
}  # fmt: skip


def _llama() -> Architecture:
    config = {
        "model_type": "llama",
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
    }
    return read_architecture(config | {"intermediate_size": FFN, "num_hidden_layers": 1, "vocab_size": 512})


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_layer_keeps_of_the_list_what_backward_reads() -> None:
    """One block under torchtitan's policy, partitioned by torch.compile: every second product but the last, whose output is added and read no more."""
    how = LayerExecution(product_bytes=2, residual_bytes=2)
    listed = stored_activations(_llama(), how).bytes
    compiled = stored_activations(_llama(), LayerExecution(product_bytes=2, residual_bytes=2, fused=True, compiled=True)).bytes
    assert listed - compiled == 2 * WIDTH
    assert compiled == pytest.approx(_saved_by_pytorch(), rel=0.01)


def _saved_by_pytorch() -> float:
    """Bytes a token that a compiled block of Llama keeps under torchtitan's policy of 2024-12, but for its weights and rotary tables."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    sizes = {"q": (WIDTH, HEADS * HEAD), "k": (WIDTH, KV_HEADS * HEAD), "v": (WIDTH, KV_HEADS * HEAD), "o": (HEADS * HEAD, WIDTH)}
    sizes |= {"gate": (WIDTH, FFN), "up": (WIDTH, FFN), "down": (FFN, WIDTH)}
    weights = {name: nn.Parameter(torch.randn(wide, narrow, dtype=torch.bfloat16)) for name, (narrow, wide) in sizes.items()}
    norms = [nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16)) for _ in range(2)]

    def product(x: Any, name: str) -> Any:
        return functional.linear(x, weights[name])

    def block(x: Any) -> Any:
        y = functional.rms_norm(x, (WIDTH,), norms[0], 1e-5)
        query, key, value = (product(y, name).view(1, TOKENS, -1, HEAD).transpose(1, 2) for name in "qkv")
        key, value = (one.repeat_interleave(HEADS // KV_HEADS, 1) for one in (key, value))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + product(attended.transpose(1, 2).reshape(1, TOKENS, WIDTH), "o")
        y = functional.rms_norm(x, (WIDTH,), norms[1], 1e-5)
        return x + product(functional.silu(product(y, "gate")) * product(y, "up"), "down")

    aten = torch.ops.aten
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default

    def contexts() -> Any:
        counted: dict[bool, int] = defaultdict(int)

        def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            counted[context.is_recompute] += operator == aten.mm.default
            kept = operator == attention or (operator == aten.mm.default and counted[context.is_recompute] % 2 == 1)
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    own = {one.untyped_storage().data_ptr() for one in (*weights.values(), *norms)}
    kept: dict[int, Any] = {}

    def note(tensor: Any) -> Any:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    torch._dynamo.reset()
    step = torch.compile(
        lambda x: checkpoint(block, x, use_reentrant=False, context_fn=contexts), backend="aot_eager_decomp_partition"
    )
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        step(torch.randn(1, TOKENS, WIDTH, dtype=torch.bfloat16, requires_grad=True))
    return float(sum(one.untyped_storage().nbytes() for one in kept.values() if one.numel() >= TOKENS)) / TOKENS


@pytest.mark.parametrize(
    ("release", "bytes_of_an_entry"),
    [("", 4), ("@2025-08", 4), ("@2025-02", 14), ("@2024-12", 14), ("@2024-11", 4), ("@2024-09", 14)],
)
def test_torchtitan_compiles_its_loss_in_some_months(release: str, bytes_of_an_entry: int) -> None:
    """pytorch/torchtitan#642 (2024-10-22), #755 (2024-12-19), #1033 (2025-04); eager, its FP32 logits and their gradient are 14 bytes an entry."""
    found = memory(**TITAN, engine=f"torchtitan{release}", compile=True)
    assert found.logits == pytest.approx(8192 * 128_256 * bytes_of_an_entry, rel=0.01)
    assert memory(**TITAN, engine=f"torchtitan{release}").logits == pytest.approx(8192 * 128_256 * 14, rel=0.01)


def test_a_loss_that_is_asked_for_is_not_there_where_only_layers_are_compiled() -> None:
    fused = {"compile": True, "loss": "fused"}
    assert (
        memory(**TITAN, **fused, engine="torchtitan@2024-12").logits
        == memory(**TITAN, compile=True, engine="torchtitan@2024-12").logits
    )
    assert find_engine("torch@2024-12").loss_compiled == "asked"


@pytest.mark.parametrize(
    ("fields", "published_gib"),
    [
        ({"micro_batch": 2, "engine": "torchtitan@2024-12"}, 82.4),
        ({"micro_batch": 2, "engine": "torchtitan@2024-12", "compile": True}, 77.0),
        ({"micro_batch": 2, "engine": "torchtitan@2024-12", "compile": True, "gpus": 128}, 62.0),
        ({"engine": "torchtitan@2025-08", "compile": True, "gpu": "MI300X"}, 39.09),
    ],
)
def test_torchtitan_reserves_what_it_prints(fields: dict[str, Any], published_gib: float) -> None:
    """Peaks published by torchtitan in 2024-12 and by torchao in 2025-08, Llama 3.1 8B in BF16; what is reserved has no context and no communicators."""
    asked = TITAN | fields | {"global_batch": fields.get("gpus", 8) * fields.get("micro_batch", 1)}
    record = find_engine(fields["engine"])
    reserved = memory(**asked).total.value - record.context_bytes - record.communicator_bytes
    assert reserved / 2**30 == pytest.approx(published_gib, rel=0.05)
