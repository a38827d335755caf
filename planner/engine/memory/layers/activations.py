"""Bytes per token that one layer keeps for its backward pass: a sum over the operators of the layer.

Symbols: h width · q, k query and key elements of a token · f feed-forward width · H heads · w bytes of an element that
products compute in · r bytes of an element of the residual stream (4 under autocast and in FP32). A tensor that several
operators keep counts once. Products of frozen weights keep nothing of their input; adapters keep theirs.
"""

from __future__ import annotations

from msgspec.structs import replace

from planner.engine.memory.layers.layer_execution import STATISTIC, LayerExecution
from planner.engine.memory.layers.recomputation import kept_of_layer
from planner.engine.records.footprint import ActivationBytes
from planner.workload.architecture import Architecture
from planner.workload.block import Block

ROW_INDEX = 8.0
"""Bytes of the index of a row's largest score."""
XIELU = 7.0
"""Bytes per element that xIELU keeps in 16 bit in addition to its input: the mask of its sign and three tensors (transformers'
XIELUActivation in Python)."""
ROUTING = 40.0
"""Bytes per chosen expert: indices before, while and after tokens are sorted by expert, and weights."""


def activation_bytes(a: Architecture, how: LayerExecution) -> ActivationBytes[float]:
    """Bytes per token that a layer of `a` keeps."""
    block = a.block
    if a.saved_bytes:
        return _as_described(a, a.saved_bytes, how)
    dense = 1 - a.moe_layers / a.layers
    scores = _scores(a, block, how)
    routed = _experts(a, block, how) if a.moe_layers else 0.0
    mlp = _mlp(a, block, how, a.ffn) if dense else 0.0
    width = max(a.ffn if dense else 0, a.experts_per_token * a.expert_ffn + a.shared_ffn if a.moe_layers else 0)
    kept = kept_of_layer(a, how)
    return ActivationBytes(
        norms=_norms(a, block, how) + _crossing_norms(a, block, how),
        attention=_attention(a, block, how) + _crossing(a, how),
        scores=scores,
        mlp=dense * mlp + (1 - dense) * routed,
        dropout=(3.0 if a.source else 2.0) * a.width * a.dropout,
        head=_norm(a, block, how, a.width) + (how.product_bytes * a.width if how.trained else 0.0),
        boundary=how.residual_bytes * a.width,
        by_operators=kept.bytes,
        not_taken_back=kept.not_taken_back_bytes,
        backward=_backward(a, block, how, width, scores),
    )


def _as_described(a: Architecture, saved: float, how: LayerExecution) -> ActivationBytes[float]:
    """Formulas, scaled to what the model's own code was observed to keep in 16 bit, operator by operator."""
    formula = replace(a, saved_bytes=None)
    plain, asked = (activation_bytes(formula, one) for one in (LayerExecution(product_bytes=2, residual_bytes=2), how))
    scale = saved / (plain.norms + plain.attention + plain.mlp + plain.dropout)
    return replace(asked, norms=asked.norms * scale, attention=asked.attention * scale, mlp=asked.mlp * scale)


def _norm(a: Architecture, block: Block, how: LayerExecution, size: float, *, rows: float = 1.0, element: float = 0.0) -> float:
    """A norm over `size` elements of `element` bytes (0: of the residual stream), without its output.

    LayerNorm is one kernel: its input, mean and deviation; operator by operator, three tensors in FP32. RMSNorm is not fused: its input in
    FP32, one statistic per row, and the normalised input where its weight is trained.
    """
    element = element or how.residual_bytes
    if a.centred and block.written_norms and not how.fused:
        return (8 + 4 * how.trained) * size + STATISTIC * rows
    if a.centred:
        element = 4.0 if block.wide_norms else element
        return element * size + 2 * element * rows
    if how.fused:
        return element * size + STATISTIC * rows
    normalised = 4.0 if block.wide_norms else element
    narrow = element * size * (block.narrow_norm_input and element < 4)
    return 4 * size + STATISTIC * rows + normalised * size * how.trained + narrow


def _norms(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Norms around attention and MLP."""
    one = _norm(a, block, how, a.width)
    shared = block.parallel and a.centred and a.norms == 2
    if shared:
        return 2 * one - how.residual_bytes * a.width
    branches = 2 if block.branch_norms else 0
    return (a.norms - branches) * one + branches * _norm(a, block, how, a.width, element=how.product_bytes)


def _attention(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Inputs of the projections, q/k norms, and what the attention kernel itself keeps."""
    names = ("q",) if a.fused_qkv else ("q", "k", "v")
    if block.parallel and a.norms == 1:  # the MLP reads the same input
        names = (*names, "up", "gate") if a.gated else (*names, "up")
    if a.latent_rank:
        return how.inputs(("q", "v"), a.width, wide=True) + _latent(a, how)
    projected = how.inputs(names, a.width, wide=True)
    w, q, k = how.product_bytes, a.query, a.key
    normed = 0.0
    if a.qk_norm:
        rows = (1, 1) if a.norms_all_heads else (a.heads, a.kv_heads)
        normed = sum(_norm(a, block, how, size, rows=row, element=w) for size, row in zip((q, k), rows, strict=True))
    fused = a.fused_qkv and a.rotary and not how.fused  # the value is a view that keeps the whole product
    repeated = how.eager or block.repeated_keys or (w > 2 and not how.recomputed)  # keys and values, for each query head
    keys = max(q, k) if repeated else k
    tensors = 2.0 * q + 2 * keys
    if not how.eager:
        tensors += (q + k) * (fused and (q == k or not repeated)) + q * (
            block.joined_rotary and how.keeps("o") and not (how.fused or how.recomputed)
        )
    rotated = (4.0 - w) * (q + k) * (how.recomputed and how.autocast and a.rotary and not block.plain_input)  # not yet cast
    out = how.inputs(("o",), q, wide=False, kept=True)
    statistics = 0.0 if how.eager or how.recomputed else STATISTIC * a.heads
    widened = (4.0 - w) * (q + keys) * (block.wide_scores and how.eager and not how.autocast)
    return projected + normed + w * tensors + rotated + widened + statistics + out


def _crossing_norms(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Norm around attention to an encoder's output."""
    return _norm(a, block, how, a.width) if a.source else 0.0


def _crossing(a: Architecture, how: LayerExecution) -> float:
    """Attention to an encoder's output, without its keys and values: the query, its input, and the input of the last product."""
    if a.source is None:
        return 0.0
    entered = how.inputs(("q",), a.width, wide=True)
    statistics = 0.0 if how.eager or how.recomputed else STATISTIC * a.heads
    return entered + how.product_bytes * 2 * a.query + statistics + how.inputs(("o",), a.query, wide=False, kept=True)


def source_bytes(a: Architecture, how: LayerExecution) -> float:
    """Bytes per token of an encoder's output that a layer of its decoder keeps: keys and values, and their input where it is cast."""
    output = (
        0.0 if how.product_bytes == how.residual_bytes and how.trained else how.inputs(("k", "v"), a.width, wide=True, kept=True)
    )
    return 2 * how.product_bytes * a.query + output


def _latent(a: Architecture, how: LayerExecution) -> float:
    """Multi-head latent attention: compressed query and key/value with their norms, then full heads."""
    w, value = how.product_bytes, a.heads * a.value_dim
    compressed = a.query_rank + a.latent_rank
    norms = sum(_norm(a, Block(), how, size, element=w) for size in (a.query_rank, a.latent_rank) if size)
    expanded = a.heads * (a.head_dim - a.rotary_dim) + value
    inputs = (how.input_bytes or w) * compressed * how.trained
    if how.eager:  # the value is copied out of the expanded tensor
        return norms + inputs + w * (2 * a.query + 2 * value)
    return norms + inputs + w * (2 * a.query + expanded + value) + how.input_bytes * value + STATISTIC * a.heads


def _scores(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Stored attention scores: their softmax in FP32, its 16-bit copy, and with dropout a mask and a product."""
    if not (how.eager and a.scored_share):
        return 0.0
    w = how.product_bytes
    softmax = w if block.narrow_softmax and not how.autocast else 4.0
    copy = 0.0 if softmax == w else w
    product = 1.0 + w if block.attention_dropout else copy
    sink = softmax + ROW_INDEX if block.sinks else 0.0
    seen = how.sequence + (how.source if a.source else 0.0)
    return a.heads * (seen * (softmax + product + (w if block.capped_scores else 0.0)) + sink)


def _mlp(a: Architecture, block: Block, how: LayerExecution, width: float) -> float:
    """An MLP of `width`: its input, what its activation keeps, and the input of the last product."""
    w = how.product_bytes
    shared = block.parallel and a.norms == 1
    names = ("up",) if block.fused_gate or not a.gated else ("gate", "up")
    entered = 0.0 if shared else how.inputs(names, a.width, wide=True)
    written_out = block.activation == "gelu-new" and not how.fused
    if a.gated:
        inner = ((20.0 if how.autocast else 6 * w) if written_out else (2.0 if how.fused else 3.0) * w) * width
    elif written_out:
        inner = (14.0 if how.autocast else 4 * w) * width
    elif block.activation == "xielu" and not how.fused:
        inner = (XIELU + w) * width
    else:
        inner = 0.0 if block.activation == "relu" else w * width
    relu = not a.gated and block.activation == "relu"
    if block.inner_dropout:  # its mask, and a result of its own beside that of the activation
        inner += (1.0 + w * relu) * width
    left = how.inputs(("down",), width, wide=False, kept=relu and not how.trained)
    return entered + inner + left


def _experts(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Router and the experts that a token is sent to: gathered inputs, gate and up, activation, product, weighted outputs."""
    w, chosen = how.product_bytes, a.experts_per_token
    router = STATISTIC * a.experts + ROUTING * chosen
    entered = (w + 4.0 * (block.wide_router and w < 4)) * a.width if how.trained else 0.0
    gathered = how.inputs(("up",) if how.trained else ("gate", "up"), a.expert_width, wide=False)
    tensors = 2.0 if how.fused else 6.0 if block.clamped_gate else 3.0
    inner = tensors * w * a.expert_ffn + how.inputs(("down",), a.expert_ffn, wide=False)
    weighed_after = 0.0 if how.weighs_inside else w * a.expert_width
    routed = chosen * (gathered + inner + weighed_after)
    common = 0.0 if how.input_bytes else w * a.width * how.trained  # the input that the router also keeps
    shared = _mlp(a, block, how, a.shared_ffn) - common if a.shared_ffn else 0.0
    weighed = w * (a.width + 1) if a.shared_gate else 0.0  # the shared expert's output, and the sigmoid it is multiplied by
    return router + entered + routed + shared + weighed


def _backward(a: Architecture, block: Block, how: LayerExecution, width: float, scores: float) -> float:
    """Gradients alive at once as a layer's backward begins: of the residual stream and of the MLP's inner tensors."""
    inner = (2.0 if a.gated or block.activation == "gelu-new" else 1.0) * how.product_bytes * width
    if block.activation == "gelu-new" and how.autocast:
        inner = 12.0 * width  # three in FP32
    return how.residual_bytes * a.width + max(inner, scores - 4.0 * how.product_bytes * width)
