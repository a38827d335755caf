"""Checkpointing by operators: what is kept of a layer, and which work is repeated in backward.

Two lists are in use, and both recompute whatever is cheap for its size. PyTorch programs keep outputs of chosen operators: fused attention,
and every second product without bias in the order of the code (torchtitan's activation_checkpoint.py, 2024-12). Megatron recomputes whole
modules (`--recompute-modules layernorm mla_up_proj moe_act mlp shared_experts`, Megatron Core 0.14), which are all those that exchange no
tokens between GPUs; DeepSeek-V3 was trained in this way (arXiv:2412.19437, 3.2.3: norms and up-projections of latent attention).
"""

from __future__ import annotations

import msgspec

from planner.engine.memory.layers.layer_execution import STATISTIC, LayerExecution
from planner.workload.architecture import Architecture
from planner.workload.matrices import own_matrices
from planner.workload.sublayers import Role

ROUTED_INDEX = 8.0
"""Bytes per chosen expert: the place a token is sent to, and its weight."""
UNPACKING: frozenset[Role] = frozenset({"q_b", "kv_b"})
"""Products that unpack the latents of attention."""


class StoredActivations(msgspec.Struct, frozen=True):
    """Bytes that checkpointing by operators keeps of the mean layer."""

    bytes: float
    """Bytes per token."""
    products_again: float
    """Share of the layers' products, by FLOPs, that are recomputed."""
    exchange_again: float
    """Share of a forward pass's exchange between GPUs that is repeated."""
    not_taken_back_bytes: float
    """Part of `bytes` that recomputing the layer does not use: its input, and the output of its last product."""


def stored_activations(a: Architecture, how: LayerExecution) -> StoredActivations:
    """Bytes per token kept of a layer of `a`, by the list of `how`."""
    return _by_modules(a, how) if how.by_modules else _by_operators(a, how)


def _by_operators(a: Architecture, how: LayerExecution) -> StoredActivations:
    """Outputs of every second product; stored scores, products with a bias and those grouped by expert are recomputed.

    Tokens are gathered again and reduced results are kept, so half of the exchange is repeated. The output of a layer's last product
    is kept as an operator of the list, though backward does not read it; where the layer is compiled, it is not.
    """
    outputs, kept_flop, flop, last = 0.0, 0.0, 0.0, 0.0
    for kinds in (("attention", "mlp"), ("attention", "router", "shared", "experts")):
        layers = a.dense_layers if kinds[1] == "mlp" else a.moe_layers
        count = 0
        for one in sorted((one for one in own_matrices(a) if one.part in kinds and layers), key=lambda one: kinds.index(one.part)):
            work = layers * one.inputs * one.outputs * (a.experts_per_token if one.part == "experts" else 1)
            flop += work
            plain = one.part != "experts" and not _biased(a, one.part, one.role)
            count += plain
            if plain and count % 2:
                outputs, kept_flop = outputs + layers * one.outputs, kept_flop + work
                last += layers * one.outputs * (one.role == "down")
    attention = 0.0 if how.eager else how.product_bytes * _attention_output(a) + STATISTIC * a.heads
    begin = how.residual_bytes * a.width
    if how.compiled:
        outputs, last = outputs - last, 0.0
    return StoredActivations(
        bytes=begin + attention + how.product_bytes * outputs / a.layers,
        products_again=1 - kept_flop / max(flop, 1.0),
        exchange_again=0.5,
        not_taken_back_bytes=begin + how.product_bytes * last / a.layers,
    )


def _by_modules(a: Architecture, how: LayerExecution) -> StoredActivations:
    """Inputs of norms; queries, keys and values, or the latents they are made from; attention's output; inputs and inner width of experts."""
    w, begin = how.product_bytes, how.residual_bytes * a.width
    projected, again, flop = 0.0, 0.0, 0.0
    for one in own_matrices(a):
        work = one.layers * one.inputs * one.outputs * (a.experts_per_token if one.part == "experts" else 1)
        flop += work
        again += work * (one.role in UNPACKING or one.part in {"mlp", "shared"})
        projected += one.layers * one.outputs * (one.part == "attention" and one.role not in UNPACKING | {"o", "out"})
    attention = w * projected / a.layers + (w + how.input_bytes) * _attention_output(a) + STATISTIC * a.heads
    routed = a.experts_per_token * ((how.input_bytes or w) * a.expert_width + (1 + a.gated) * w * a.expert_ffn + ROUTED_INDEX)
    experts = a.moe_layers / a.layers * (routed + STATISTIC * a.experts)
    return StoredActivations(
        bytes=max(a.norms, 1) * begin + attention + experts,
        products_again=again / max(flop, 1.0),
        exchange_again=0.0,
        not_taken_back_bytes=begin,
    )


def _attention_output(a: Architecture) -> float:
    """Elements per token in the input of attention's last product."""
    return float(a.heads * (a.value_dim or a.head_dim))


def _biased(a: Architecture, part: str, role: str) -> bool:
    """True if a projection of the layers has a bias."""
    if part == "attention":
        return a.attention_bias > (a.query + 2 * a.key if role == "o" else 0)
    return part == "mlp" and a.mlp_vector > 0
