"""Weight matrices of an architecture by their role, for storage formats and adapters, and the products that the benchmark times."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

import msgspec

from planner.workload.architecture import Architecture
from planner.workload.sublayers import Role

Part = Literal["attention", "mlp", "experts", "shared", "router"]
DECODING_TOKENS, PROMPT_TOKENS = 16, 2048
"""Values of m: a small decoding batch, and a chunk of prompts or a micro batch of training."""


class Matrix(msgspec.Struct, frozen=True):
    """Matrices of one shape: `copies` in each of `layers` layers; `first`: the first of the layers."""

    part: Part
    role: Role
    inputs: int
    outputs: int
    first: int
    layers: float
    """Layers that every token passes."""
    copies: int = 1
    stored: int | None = None
    """Number of layers with their own matrix; None: all."""

    @property
    def parameters(self) -> int:
        """Parameters of all these matrices."""
        return self.inputs * self.outputs * self.kept

    @property
    def kept(self) -> int:
        """Number of stored matrices."""
        return (int(self.layers) if self.stored is None else self.stored) * self.copies


_TARGETS: dict[str, frozenset[str]] = {
    **{target: frozenset({target}) for target in ("q", "k", "v", "o", "gate", "up", "down", "in", "out")},
    "qkv": frozenset({"q", "k", "v"}),
    "gate_up": frozenset({"gate", "up"}),
    **dict.fromkeys(("q_a", "q_b"), frozenset({"q"})),
    **dict.fromkeys(("kv", "kv_a", "kv_b"), frozenset({"k", "v"})),
}
"""Role of a matrix -> adapter targets that include it; routers and gates of shared experts have none."""


def adapter_parameters(architecture: Architecture, rank: int, targets: Collection[str], *, experts: bool = False) -> int:
    """Parameters of rank-`rank` adapters on the named projections of every layer: a dense MLP, or every expert and the shared one.

    `experts`: only those of routed experts. An adapter of a matrix has rank · (inputs + outputs). A fused matrix has one adapter; latent attention has one on each factor.
    """
    found = (one for one in adapted(architecture, targets) if one.part == "experts" or not experts)
    return sum(rank * (one.inputs + one.outputs) * one.kept for one in found)


def adapted(architecture: Architecture, targets: Collection[str]) -> tuple[Matrix, ...]:
    """Matrices that get adapters for `targets`; a fused matrix gets one adapter for any of its parts."""
    return tuple(matrix for matrix in matrices(architecture) if not _TARGETS.get(matrix.role, frozenset()).isdisjoint(targets))


def matrices(architecture: Architecture) -> tuple[Matrix, ...]:
    """Every matrix of the layers, those of an encoder last; where some layers have experts, the dense ones are assumed to come first."""
    encoder = matrices(architecture.source) if architecture.source else ()
    return (*own_matrices(architecture), *encoder)


def own_matrices(architecture: Architecture) -> tuple[Matrix, ...]:
    """Matrices of the layers that generate, without those of an encoder."""
    return (*_attention(architecture), *_mlp(architecture), *_further(architecture))


def _further(a: Architecture) -> Iterator[Matrix]:
    for one in (*a.instead, *a.beside):
        for role, inputs, outputs in one.matrices:
            yield Matrix(one.part, role, inputs, outputs, one.first, one.layers, stored=one.stored)


def _attention(a: Architecture) -> Iterator[Matrix]:
    def one(role: Role, inputs: int, outputs: int) -> Matrix:
        return Matrix("attention", role, inputs, outputs, 0, a.attention_layers)

    if not a.attention_layers:
        return

    if a.latent_rank:
        if a.query_rank:
            yield one("q_a", a.width, a.query_rank)
            yield one("q_b", a.query_rank * (2 if a.query_gate else 1), a.query + a.query_gate)
        else:
            yield one("q", a.width, a.query)
        yield one("kv_a", a.width, a.latent_rank + a.rotary_dim)
        yield one("kv_b", a.latent_rank, a.heads * (a.head_dim - a.rotary_dim + a.value_dim))
        yield one("o", a.heads * a.value_dim, a.width)
        return
    if a.fused_qkv:
        yield one("qkv", a.width, a.query + 2 * a.key)
    else:
        yield one("q", a.width, a.query + a.query_gate)
        yield one("k", a.width, a.key)
        yield one("v", a.width, a.key)
    yield one("o", a.query, a.width)


def _mlp(a: Architecture) -> Iterator[Matrix]:
    moe = a.moe_layers
    blocks: tuple[tuple[Part, int, int, int, int, int], ...] = (
        ("mlp", a.width, a.ffn, 0, a.dense_layers, 1),
        ("experts", a.expert_width, a.expert_ffn, a.dense_layers, moe, a.experts),
        ("shared", a.width, a.shared_ffn, a.dense_layers, moe, 1),
    )
    for part, width, inner, first, layers, copies in blocks:
        if layers and inner:
            if a.fused_gate_up:
                yield Matrix(part, "gate_up", width, 2 * inner, first, layers, copies)
            else:
                if a.gated:
                    yield Matrix(part, "gate", width, inner, first, layers, copies)
                yield Matrix(part, "up", width, inner, first, layers, copies)
            yield Matrix(part, "down", inner, width, first, layers, copies)
    if moe:
        yield Matrix("router", "router", a.width, a.experts, a.dense_layers, moe)
        if a.shared_gate:
            yield Matrix("router", "shared_gate", a.width, a.shared_gate // a.width, a.dense_layers, moe)


def product_shapes(a: Architecture) -> tuple[tuple[int, int, int], ...]:
    """(m, n, k) = tokens, outputs, inputs of the distinct products of a layer and the head, many tokens first; one expert represents all."""
    matrices = [(a.query, a.width), (a.key, a.width), (a.width, a.query)]
    if a.dense_layers or not a.experts:
        matrices += [(a.ffn, a.width), (a.width, a.ffn)]
    if a.experts:
        matrices += [(a.expert_ffn, a.expert_width), (a.expert_width, a.expert_ffn)]
    matrices.append((a.vocabulary, a.width))
    sized = dict.fromkeys((outputs, inputs) for outputs, inputs in matrices if outputs > 0 and inputs > 0)
    return tuple((m, n, k) for m in (PROMPT_TOKENS, DECODING_TOKENS) for n, k in sized)
