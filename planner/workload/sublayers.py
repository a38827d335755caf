"""Groups of equal layers: access to earlier tokens, and parts other than the architecture's own attention or MLP."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Literal

import msgspec

Role = Literal[
    "q", "k", "v", "qkv", "kv", "q_a", "q_b", "kv_a", "kv_b", "o", "gate", "up", "gate_up", "down", "router", "shared_gate",
    "index", "index_key", "index_weights", "in", "out", "other",
]  # fmt: skip
"""Use of a matrix: `in`, `out`: into and out of a recurrence; `index…`: the choice of tokens in sparse attention."""
Matrices = tuple[tuple[Role, int, int], ...]
"""(role, inputs, outputs) of each matrix."""
AttendsTo = Literal["all", "window", "chosen", "source"]
"""Tokens that a layer attends to: all preceding ones, the last `window` of them (it keeps only these), `chosen` ones of all it keeps, or
the output of an encoder, whose keys and values it keeps."""

FLASH_DIM, MASKED_DIM = 256, 128
"""Elements of a head up to which FlashAttention runs (its README), and up to which PyTorch has a fast kernel with a mask (cuDNN's;
unslothai/unsloth#11102)."""


class AttentionGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Access of one group of equal layers to earlier tokens: by scores of each of them, or by a state of constant size."""

    layers: float
    """Number of layers; a fraction where one entry stands for several tokens."""
    heads: int = 0
    kv_heads: int = 1
    score_dim: int = 0
    """Elements of a head's query and key."""
    value_dim: int = 0
    attends_to: AttendsTo = "all"
    cached: float = 0
    """Elements that a layer keeps per token; a fraction where one entry stands for several tokens."""
    read: float = 0
    """Elements that it reads per token it attends to: more than `cached` where it reads the cache of another layer."""
    state: int = 0
    """Elements kept per sequence of any length, in the dtype of the activations: inputs of convolutions."""
    wide_state: int = 0
    """Elements kept per sequence of any length, in FP32: states of recurrences."""
    scan_flop: float = 0
    """FLOP of the recurrence for one token."""

    @classmethod
    def scored(
        cls, layers: float, heads: int, kv_heads: int, dim: int, value_dim: int = 0, attends_to: AttendsTo = "all"
    ) -> AttentionGroup:
        """Attention by scores, with cached keys of `dim` and values of `value_dim` (0: the same) elements for each of `kv_heads`."""
        value, kept = value_dim or dim, kv_heads * (dim + (value_dim or dim))
        return cls(
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            score_dim=dim,
            value_dim=value,
            attends_to=attends_to,
            cached=kept,
            read=kept,
        )

    @property
    def uncached(self) -> AttentionGroup:
        """This attention in an encoder, which keeps nothing of a token."""
        return msgspec.structs.replace(self, cached=0, read=0)

    @property
    def attended(self) -> int:
        """Elements of queries and values: half the FLOPs of a token for each token it attends to."""
        return self.heads * (self.score_dim + self.value_dim)

    @property
    def wide(self) -> int:
        """`attended` where heads are wider than fast kernels support; a window that is a mask limits them further."""
        most = MASKED_DIM if self.attends_to == "window" else FLASH_DIM
        return self.attended if max(self.score_dim, self.value_dim) > most else 0


class Sublayer(msgspec.Struct, frozen=True, kw_only=True):
    """A part of `layers` layers, in place of the architecture's attention or MLP or in addition to it; without matrices: its absence."""

    part: Literal["attention", "mlp", "router"]
    layers: float
    """Layers that every token passes; a fraction where several tokens pass one together."""
    first: int = 0
    stored: int | None = None
    """Number of layers with their own weights; None: all. The others reuse these."""
    matrices: Matrices = ()
    convolution: int = 0
    """Parameters of channel-wise convolutions over the last tokens, and of small products outside the library's layers."""
    other: int = 0
    """Parameters that are neither matrices, norms nor biases: decays, scales."""
    bias: int = 0
    norm: int = 0
    attending: tuple[AttentionGroup, ...] = ()

    @property
    def matrix(self) -> int:
        """Parameters of one layer's matrices."""
        return sum(inputs * outputs for _, inputs, outputs in self.matrices)

    @property
    def used(self) -> float:
        """Parameters that a token is multiplied with in all of these layers."""
        return self.layers * (self.matrix + self.convolution)

    @property
    def kept(self) -> int:
        """Layers whose weights are stored."""
        return int(self.layers) if self.stored is None else self.stored

    @property
    def parameters(self) -> int:
        """Parameters of all of these layers."""
        return self.kept * (self.matrix + self.convolution + self.other + self.bias + self.norm)


def projected_attention(
    width: int,
    seen: AttentionGroup,
    *,
    further: Matrices = (),
    also: tuple[AttentionGroup, ...] = (),
    **rest: int | None,
) -> Sublayer:
    """Attention with one projection each for query, key, value and output; `further`: other matrices, `also`: other access to tokens."""
    query, key, value = seen.heads * seen.score_dim, seen.kv_heads * seen.score_dim, seen.kv_heads * seen.value_dim
    matrices: Matrices = (
        ("q", width, query), ("k", width, key), ("v", width, value), ("o", seen.heads * seen.value_dim, width), *further
    )  # fmt: skip
    return Sublayer(part="attention", layers=seen.layers, matrices=matrices, attending=(seen, *also), **rest)  # type: ignore[arg-type]


def gated_mlp(width: int, ffn: int) -> Matrices:
    """Matrices of an MLP with a gate."""
    return ("gate", width, ffn), ("up", width, ffn), ("down", ffn, width)


_SUMS: dict[str, tuple[str, tuple[AttendsTo, ...]]] = {
    "attended_all": ("attended", ("all",)),
    "attended_window": ("attended", ("window",)),
    "attended_chosen": ("attended", ("chosen",)),
    "attended_source": ("attended", ("source",)),
    "wide_all": ("wide", ("all",)),
    "wide_window": ("wide", ("window",)),
    "cached_all": ("cached", ("all", "chosen")),
    "cached_window": ("cached", ("window",)),
    "cached_source": ("cached", ("source",)),
    "read_all": ("read", ("all",)),
    "read_window": ("read", ("window",)),
    "read_chosen": ("read", ("chosen",)),
    "read_source": ("read", ("source",)),
    "state": ("state", ()),
    "wide_state": ("wide_state", ()),
    "scan_flop": ("scan_flop", ()),
}
"""Sum over the layers -> figure of a layer, and the tokens that the counted layers attend to; (): all layers."""


class ReadsContext:
    """Mixin with sums over the layers that depend on preceding tokens (`_SUMS`), which formulas read from an architecture's `attention`."""

    attended_all: float
    attended_window: float
    attended_chosen: float
    attended_source: float
    wide_all: float
    wide_window: float
    cached_all: float
    cached_window: float
    cached_source: float
    read_all: float
    read_window: float
    read_chosen: float
    read_source: float
    state: float
    wide_state: float
    scan_flop: float

    @property
    def attention(self) -> tuple[AttentionGroup, ...]:
        """Layers in groups of equal ones."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> float:
        if name not in _SUMS:
            raise AttributeError(name)
        figure, reaches = _SUMS[name]
        total = float(sum(one.layers * getattr(one, figure) for one in self.attention if not reaches or one.attends_to in reaches))
        self.__dict__[name] = total
        return total

    @cached_property
    def window_heads(self) -> int:
        """Key heads of the layers that attend to a window."""
        return next((one.kv_heads for one in self.attention if one.attends_to == "window"), 1)

    @cached_property
    def cached_heads(self) -> int:
        """Key heads of the layers that keep every token."""
        return next((one.kv_heads for one in self.attention if one.cached and one.attends_to != "window"), self.window_heads)


def layers_of(parts: Iterable[Sublayer], part: str) -> int:
    """Number of layers with one of `parts` in place of their own `part`."""
    return int(sum(one.layers for one in parts if one.part == part))


SIXTEEN_BITS = "bf16"
"""Format of parts that are not quantised."""
HEAD = "head"


class StoredPart(msgspec.Struct, frozen=True, kw_only=True):
    """Matrices of one use and shape; `share` of them is stored in `format`; the output head has the part 'head' and no shape."""

    part: str
    role: Role = "other"
    inputs: int = 0
    outputs: int = 0
    format: str
    """A name of `planner.workload.weights.FORMATS`."""
    share: float = 1.0
    """Share of these matrices."""


def formats_text(parts: tuple[StoredPart, ...]) -> str:
    """Formats of parts: 'attention in bf16, head in nvfp4'; 'some of' marks a part of which only a share has the format."""
    found: dict[tuple[str, str], float] = {}
    for one in parts:
        key = (one.part, one.format)
        found[key] = max(found.get(key, 0.0), one.share)
    return ", ".join(f"{'some of ' * (share < 1)}{part} in {stored}" for (part, stored), share in found.items())
