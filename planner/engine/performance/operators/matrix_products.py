"""Matrix products of a forward pass one by one: m × k by k × n, how many, and their FLOPs.

A product of m × k by k × n takes 2·m·n·k FLOP, as `torch.utils.flop_counter` counts; norms, softmax, activations and the
optimizer count as none. Its backward pass is two products of the same size, for its input and for its weights. The two products of
attention have four, and fused kernels compute the scores once more. Attention counts the tokens that are attended to: all of
them as PyTorch's counter does (`attended` = sequence), the causal half as MFU does (sequence ÷ 2), fewer where a window cuts it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from planner.workload.architecture import Architecture
from planner.workload.matrices import Matrix, Part, own_matrices
from planner.workload.sublayers import Role

BACKWARD = 2.0
"""Products of a backward pass ÷ those of the forward pass."""
FUSED_ATTENTION_BACKWARD = 2.5
"""Products of attention's backward pass ÷ those of its forward pass in fused kernels, which compute the scores again: five for two."""

_NAMES: dict[Role, str] = {
    "q": "q projection",
    "k": "k projection",
    "v": "v projection",
    "qkv": "q, k, v projection",
    "kv": "k, v projection",
    "q_a": "q to its latent",
    "q_b": "q from its latent",
    "kv_a": "k, v to their latent",
    "kv_b": "k, v from their latent",
    "o": "o projection",
    "gate": "gate",
    "up": "up",
    "gate_up": "gate and up",
    "down": "down",
    "router": "router",
    "shared_gate": "gate of the shared expert",
    "index": "queries of the index",
    "index_key": "key of the index",
    "index_weights": "weights of the index",
    "in": "into the recurrence",
    "out": "out of the recurrence",
    "other": "further product",
}
_PARTS: dict[Part, str] = {"mlp": "MLP ", "experts": "experts, ", "shared": "shared expert, "}
_GROUPS: dict[Part, str] = {"attention": "attention", "mlp": "mlp", "experts": "experts", "shared": "shared", "router": "shared"}
_BY_ROWS: frozenset[Role] = frozenset({"o", "down"})
"""Products whose inputs tensor parallelism divides; it divides the outputs of all others."""


class Gemm(msgspec.Struct, frozen=True):
    """`count` products of m × k by k × n."""

    name: str
    group: str
    """Group that it is timed with: "attention", "mlp", "experts", "shared" (`operators.layer_products`), "head" or "scores"."""
    m: float
    """Rows: tokens, or tokens routed to one expert (mean)."""
    n: float
    k: float
    count: float
    weights: bool = True
    """True if k × n are weights; else both sides are activations."""

    @property
    def flop(self) -> float:
        """Total FLOP of these products."""
        return 2 * self.n * self.k * (self.m * self.count)


def pass_products(
    a: Architecture,
    tokens: float,
    attended: float,
    *,
    head_rows: float,
    source: float = 0.0,
    new: float | None = None,
    touched: float | None = None,
    streams: float = 1.0,
    tp: float = 1,
    expert_tp: float | None = None,
    in_window: float = 0.0,
) -> list[Gemm]:
    """Products of one forward pass of `tokens` through all layers, each of which attends to `attended` tokens (mean).

    Layers with a window, or with chosen tokens, attend to no more; `in_window`: tokens for which layers with a window compute scores, where
    it is a mask; 0: the window. `head_rows`: tokens the output head is applied to. `new`: tokens of each sequence in this pass; None: one
    sequence. `source`: tokens of an encoder's output. `touched`: experts of a layer that get a token; None: all. `streams`: number of times
    that the tokens come to them. `tp`: ranks that share every product; `expert_tp`: ranks that share one of an expert; None: the same.
    """
    routed = tokens * streams * a.experts_per_token / (touched or a.experts or 1)
    weighted = [
        _weighted(one, routed, one.layers * (touched or a.experts), expert_tp or tp)
        if one.part == "experts"
        else _weighted(one, tokens, one.layers * one.copies, tp)
        for one in own_matrices(a)
    ]
    scores = _attention(a, tokens, attended, source, new or tokens, tp, in_window)
    return [*weighted, *_convolutions(a, tokens, tp), *scores, *_head(a, tokens, head_rows, tp)]


def flop_per_token(a: Architecture, attended: float) -> float:
    """FLOP of one token forward: 2·N for the matrices it is multiplied with, including the head, and attention over `attended` tokens.

    The model FLOPs of training are three times that with the causal half of the sequence, whatever is recomputed: 6·N + …
    """
    return sum(one.flop for one in pass_products(a, 1, attended, head_rows=1, touched=a.experts_per_token))


def _weighted(one: Matrix, rows: float, count: float, tp: float) -> Gemm:
    inputs, outputs = (one.inputs / tp, one.outputs) if one.role in _BY_ROWS else (one.inputs, one.outputs / tp)
    return Gemm(_PARTS.get(one.part, "") + _NAMES[one.role], _GROUPS[one.part], rows, outputs, inputs, count)


def _attention(
    a: Architecture, tokens: float, attended: float, source: float, new: float, tp: float, in_window: float
) -> Iterator[Gemm]:
    most = {"window": a.window, "chosen": a.chosen}
    for one in a.attention:
        each, seen = one.layers * one.heads / tp * tokens / new, min(attended, most.get(one.attends_to) or attended)
        seen = {"source": source, "window": in_window or seen}.get(one.attends_to, seen)
        what = "index" if one.value_dim == 1 else "attention"
        where = {"all": "", "window": " in windows", "chosen": " of chosen tokens", "source": " of the encoder's output"}[
            one.attends_to
        ]
        if one.heads:
            yield Gemm(f"{what} scores{where}", "scores", new, seen, one.score_dim, each, weights=False)
        if one.value_dim:
            yield Gemm(f"{what} values{where}", "scores", new, one.value_dim, seen, each, weights=False)
        if one.scan_flop:
            yield Gemm("recurrence", "scores", new, one.scan_flop / 2 / tp, 1, one.layers * tokens / new, weights=False)


def _convolutions(a: Architecture, tokens: float, tp: float) -> Iterator[Gemm]:
    for one in (*a.instead, *a.beside):
        if one.convolution:
            yield Gemm("convolution", "attention", tokens, one.convolution / tp, 1, one.layers)


def _head(a: Architecture, tokens: float, head_rows: float, tp: float) -> Iterator[Gemm]:
    width = a.token_width
    if a.input_matrix:
        yield Gemm("embedding to the layers' width", "head", tokens, a.width / tp, a.input_matrix / a.width, 1)
    if a.output_matrix:
        yield Gemm("layers' width to the head", "head", head_rows, a.output_matrix / a.width / tp, a.width, 1)
    yield Gemm("output head", "head", head_rows, a.vocabulary / tp, width, 1)
