"""Bytes a token leaves behind in one layer for its backward pass: a sum over the operators of the layer.

Symbols: h width · q, k query and key elements of a token · f feed-forward width · H heads · w bytes of an element that
products compute in · r bytes of an element of the residual stream (4 under autocast and in FP32). A tensor that several
operators keep counts once. Products of frozen weights keep nothing of their input; adapters keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.engine.records.footprint import ActivationBytes
from planner.workload.architecture import Architecture
from planner.workload.block import Block
from planner.workload.matrices import matrices

STATISTIC = 4.0
"""Bytes of one FP32 number a row: the root mean square of a norm, the logarithm of a softmax's sum."""
ROW_INDEX = 8.0
"""Bytes of the index of a row's largest score."""
ROUTING = 40.0
"""Bytes a chosen expert: indices before, while and after tokens are sorted by expert, and weights."""


@dataclass(frozen=True, kw_only=True)
class LayerExecution:
    """How a layer is computed, as far as it decides what is kept for backward."""

    product_bytes: float
    """w."""
    residual_bytes: float
    """r."""
    autocast: bool = False
    fused: bool = False
    """Norms, rotary embedding and activation are fused kernels that keep their inputs alone."""
    eager: bool = False
    recomputed: bool = False
    """Scores are computed again in backward, from the attention's inputs."""
    sequence: float = 0.0
    """Keys a query attends to, where scores are stored."""
    adapted: frozenset[str] | None = None
    """Projections with adapters on frozen weights; None: every weight is trained."""
    all_inputs: bool = False
    """Products of frozen weights keep their inputs too."""
    rank: float = 0.0
    adapter_bytes: float = 2.0
    """Bytes of an adapter's weight."""

    @property
    def trained(self) -> bool:
        """The weights of the model itself are trained."""
        return self.adapted is None

    def keeps(self, name: str) -> bool:
        """The projection `name` needs its input in backward."""
        return self.adapted is None or name in self.adapted

    def inputs(self, names: Iterable[str], size: float, *, wide: bool, kept: bool = False) -> float:
        """What the projections `names` keep of one common input of `size` elements.

        `wide`: the input is as wide as the residual stream (autocast casts it for every projection); `kept`: another
        operator keeps it already.
        """
        count = len(list(names)) if self.adapted is None else sum(1 for name in names if name in self.adapted)
        base = self.product_bytes * size if self.all_inputs and not kept else 0.0
        if not count:
            return base
        inner = 0.0 if self.trained else count * self.rank * (self.product_bytes if self.autocast else self.adapter_bytes)
        if self.autocast and (wide or not self.trained):
            return base + count * 2.0 * size + inner
        if not self.trained and self.adapter_bytes != self.product_bytes:
            return count * self.adapter_bytes * size + inner
        return (0.0 if kept else self.product_bytes * size) + inner


def activation_bytes(a: Architecture, how: LayerExecution) -> ActivationBytes[float]:
    """Bytes one token leaves behind in a layer of `a`."""
    block = a.block
    if a.saved_bytes:
        return _as_described(a, a.saved_bytes, how)
    dense = 1 - a.moe_layers / a.layers
    scores = _scores(a, block, how)
    routed = _experts(a, block, how) if a.moe_layers else 0.0
    mlp = _mlp(a, block, how, a.ffn) if dense else 0.0
    width = max(a.ffn if dense else 0, a.experts_per_token * a.expert_ffn + a.shared_ffn if a.moe_layers else 0)
    return ActivationBytes(
        norms=_norms(a, block, how),
        attention=_attention(a, block, how),
        scores=scores,
        mlp=dense * mlp + (1 - dense) * routed,
        dropout=2.0 * a.width * a.dropout,
        head=_norm(a, block, how, a.width) + (how.product_bytes * a.width if how.trained else 0.0),
        boundary=how.residual_bytes * a.width,
        by_operators=_by_operators(a, how)[0],
        not_taken_back=how.residual_bytes * a.width + _by_operators(a, how)[2],
        backward=_backward(a, block, how, width, scores),
    )


def _as_described(a: Architecture, saved: float, how: LayerExecution) -> ActivationBytes[float]:
    """The formulas, scaled to what the model's own code was seen to keep in 16 bit, operator by operator."""
    formula = replace(a, saved_bytes=None)
    plain, asked = (activation_bytes(formula, one) for one in (LayerExecution(product_bytes=2, residual_bytes=2), how))
    scale = saved / (plain.norms + plain.attention + plain.mlp + plain.dropout)
    return replace(asked, norms=asked.norms * scale, attention=asked.attention * scale, mlp=asked.mlp * scale)


def _norm(a: Architecture, block: Block, how: LayerExecution, size: float, *, rows: float = 1.0, element: float = 0.0) -> float:
    """A norm over `size` elements of `element` bytes (0: of the residual stream), but for its output.

    LayerNorm is one kernel: its input, mean and deviation. RMSNorm is written out: its input in FP32, one statistic a row, and
    the normalised input where its weight is trained.
    """
    element = element or how.residual_bytes
    if a.centred:
        return element * size + 2 * element * rows
    if how.fused:
        return element * size + STATISTIC * rows
    normalised = 4.0 if block.wide_norms else element
    return 4 * size + STATISTIC * rows + normalised * size * how.trained


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
        whole = a.attention_norm > 2 * a.head_dim and not a.centred
        rows = (1, 1) if whole else (a.heads, a.kv_heads)
        normed = sum(_norm(a, block, how, size, rows=row, element=w) for size, row in zip((q, k), rows, strict=True))
    fused = a.fused_qkv and a.rotary and not how.fused  # the value is a view that keeps the whole product
    repeated = how.eager or (w > 2 and not how.recomputed)  # keys and values, for each query head
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


def _latent(a: Architecture, how: LayerExecution) -> float:
    """Multi-head latent attention: compressed query and key/value with their norms, then full heads."""
    w, value = how.product_bytes, a.heads * a.value_dim
    compressed = a.query_rank + a.latent_rank
    norms = sum(_norm(a, Block(), how, size, element=w) for size in (a.query_rank, a.latent_rank) if size)
    expanded = a.heads * (a.head_dim - a.rotary_dim) + value
    inputs = w * compressed * how.trained
    if how.eager:  # the value is copied out of what it was expanded with
        return norms + inputs + w * (2 * a.query + 2 * value)
    return norms + inputs + w * (2 * a.query + expanded + value) + STATISTIC * a.heads


def _scores(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Stored attention scores: their softmax in FP32, its 16-bit copy, and a mask and a product where there is dropout."""
    if not how.eager:
        return 0.0
    w = how.product_bytes
    softmax = w if block.narrow_softmax and not how.autocast else 4.0
    copy = 0.0 if softmax == w else w
    product = 1.0 + w if block.attention_dropout else copy
    sink = softmax + ROW_INDEX if block.sinks else 0.0
    return a.heads * (how.sequence * (softmax + product + (w if block.capped_scores else 0.0)) + sink)


def _mlp(a: Architecture, block: Block, how: LayerExecution, width: float) -> float:
    """An MLP of `width`: its input, what its activation keeps, and the input of the last product."""
    w = how.product_bytes
    shared = block.parallel and a.norms == 1
    names = ("up",) if block.fused_gate or not a.gated else ("gate", "up")
    entered = 0.0 if shared else how.inputs(names, a.width, wide=True)
    if a.gated:
        inner = (2.0 if how.fused else 3.0) * w * width
    elif block.activation == "gelu-new" and not how.fused:
        inner = (14.0 if how.autocast else 4 * w) * width
    else:
        inner = 0.0 if block.activation == "relu" else w * width
    relu = not a.gated and block.activation == "relu"
    left = how.inputs(("down",), width, wide=False, kept=relu and not how.trained)
    return entered + inner + left


def _experts(a: Architecture, block: Block, how: LayerExecution) -> float:
    """Router and the experts a token is sent to: gathered inputs, gate and up, activation, product, weighted outputs."""
    w, chosen = how.product_bytes, a.experts_per_token
    router = STATISTIC * a.experts + ROUTING * chosen
    entered = (w + 4.0 * (block.wide_router and w < 4)) * a.width if how.trained else 0.0
    gathered = how.inputs(("up",), a.width, wide=False) if how.trained else how.inputs(("gate", "up"), a.width, wide=False)
    tensors = 2.0 if how.fused else 6.0 if block.clamped_gate else 3.0
    inner = tensors * w * a.expert_ffn + how.inputs(("down",), a.expert_ffn, wide=False)
    routed = chosen * (gathered + inner + w * a.width)
    shared = _mlp(a, block, how, a.shared_ffn) - w * a.width * how.trained if a.shared_ffn else 0.0
    weighed = w * (a.width + 1) if a.shared_gate else 0.0  # the shared expert's output, and the sigmoid it is multiplied by
    return router + entered + routed + shared + weighed


def _backward(a: Architecture, block: Block, how: LayerExecution, width: float, scores: float) -> float:
    """Gradients alive at once as a layer's backward begins: of the residual stream and of the MLP's inner tensors."""
    inner = (2.0 if a.gated or block.activation == "gelu-new" else 1.0) * how.product_bytes * width
    if block.activation == "gelu-new" and how.autocast:
        inner = 12.0 * width  # three in FP32
    return how.residual_bytes * a.width + max(inner, scores - 4.0 * how.product_bytes * width)


def recomputed_products(a: Architecture, how: LayerExecution) -> float:
    """Share of the layers' products that checkpointing by operators computes again."""
    return _by_operators(a, how)[1]


def _by_operators(a: Architecture, how: LayerExecution) -> tuple[float, float, float]:
    """(bytes a token leaves in a layer, share of products computed again, bytes of the last product's output) where only outputs of some operators are kept.

    torchtitan's list: fused attention, and every second product without bias in the order of the code; stored scores, products with
    a bias and those grouped by expert are computed again.
    """
    outputs, kept_flop, flop, last = 0.0, 0.0, 0.0, 0.0
    for kinds in (("attention", "mlp"), ("attention", "router", "shared", "experts")):
        layers = a.dense_layers if kinds[1] == "mlp" else a.moe_layers
        count = 0
        for one in sorted((one for one in matrices(a) if one.part in kinds and layers), key=lambda one: kinds.index(one.part)):
            work = layers * one.inputs * one.outputs * (a.experts_per_token if one.part == "experts" else 1)
            flop += work
            plain = one.part != "experts" and not _biased(a, one.part, one.role)
            count += plain
            if plain and count % 2:
                outputs, kept_flop = outputs + layers * one.outputs, kept_flop + work
                last += layers * one.outputs * (one.role == "down")
    attention = 0.0 if how.eager else how.product_bytes * a.heads * (a.value_dim or a.head_dim) + STATISTIC * a.heads
    kept = how.residual_bytes * a.width + attention + how.product_bytes * outputs / a.layers
    return kept, 1 - kept_flop / max(flop, 1.0), how.product_bytes * last / a.layers


def _biased(a: Architecture, part: str, role: str) -> bool:
    """A projection of the layers has a bias."""
    if part == "attention":
        return a.attention_bias > (a.query + 2 * a.key if role == "o" else 0)
    return part == "mlp" and a.mlp_vector > 0
