"""A decoder-only transformer as the sizes that decide its memory and time.

Symbols: L layers · h width · q = heads·head_dim · k = kv_heads·head_dim · f feed-forward width · V vocabulary · E experts.
"Matrix" parameters take part in matrix products; "vector" parameters (norms, biases) do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Sizes of one model. All counts are of parameters or elements, never bytes."""

    family: str
    """Its `model_type`."""
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Inner width of the dense MLP."""
    gated: bool
    """The MLP has a gate matrix (SwiGLU, GeGLU): three matrices instead of two."""
    vocabulary: int
    tied: bool
    """The output head is the input embedding."""
    learned_positions: int = 0
    max_context: int | None = None

    attention_matrix: int
    """Matrix parameters of one layer's attention."""
    attention_vector: int = 0
    """Biases, q/k norms and sinks of one layer's attention."""
    mlp_vector: int = 0
    norm_vector: int
    """Norm parameters of one layer outside its attention."""
    final_vector: int
    """Parameters after the last layer that are no head matrix: final norm, head bias, embedding norm."""
    cached_per_token: int
    """Elements one layer keeps per token in the KV cache: 2k, or the latent of MLA."""

    qk_norm: bool = False
    dropout: bool = False
    window: int | None = None
    """Tokens a windowed layer attends to."""
    windowed_layers: int = 0

    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    """Summed inner width of the experts every token passes."""
    expert_vector: int = 0
    """Biases of one expert."""
    router_vector: int = 0
    shared_gate: int = 0
    dense_layers: int
    """Layers with a dense MLP (all of them without experts)."""

    @property
    def query(self) -> int:
        """Elements of the query of one token."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Elements of the key of one token."""
        return self.kv_heads * self.head_dim

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.layers - self.dense_layers

    @property
    def mlp_matrices(self) -> int:
        """Matrices of an MLP: 3 with a gate, else 2."""
        return 3 if self.gated else 2

    @property
    def dense_mlp_matrix(self) -> int:
        """Matrix parameters of a dense MLP."""
        return self.mlp_matrices * self.width * self.ffn

    @property
    def expert_matrix(self) -> int:
        """Matrix parameters of one routed expert."""
        return self.mlp_matrices * self.width * self.expert_ffn

    @property
    def shared_matrix(self) -> int:
        """Matrix parameters of the shared experts of a layer."""
        return self.mlp_matrices * self.width * self.shared_ffn + self.shared_gate

    @property
    def router_matrix(self) -> int:
        """Matrix parameters of the router of a layer."""
        return self.width * self.experts

    @property
    def embedding(self) -> int:
        """Token and learned position embeddings."""
        return (self.vocabulary + self.learned_positions) * self.width

    @property
    def head(self) -> int:
        """Parameters of an output head of its own; 0 when tied."""
        return 0 if self.tied else self.vocabulary * self.width

    @cached_property
    def experts_total(self) -> int:
        """Parameters of all routed experts of all layers."""
        return self.moe_layers * self.experts * (self.expert_matrix + self.expert_vector)

    @cached_property
    def layers_shared(self) -> int:
        """Parameters of all layers outside their routed experts."""
        dense = self.dense_layers * self.dense_mlp_matrix
        moe = self.moe_layers * (self.router_matrix + self.shared_matrix)
        vectors = self.layers * (self.attention_vector + self.norm_vector) + self.dense_layers * self.mlp_vector
        return self.layers * self.attention_matrix + dense + moe + vectors + self.moe_layers * self.router_vector

    @cached_property
    def total(self) -> int:
        """All parameters; a tied head counts once."""
        return self.embedding + self.head + self.layers_shared + self.experts_total + self.final_vector

    @cached_property
    def active(self) -> int:
        """Parameters one token uses: all but the experts it is not routed to."""
        used = self.moe_layers * self.experts_per_token * (self.expert_matrix + self.expert_vector)
        return self.total - self.experts_total + used

    @cached_property
    def active_matrix(self) -> int:
        """Matrix parameters one token is multiplied with, head (tied or not) included, input embedding not."""
        attention = self.layers * self.attention_matrix
        dense = self.dense_layers * self.dense_mlp_matrix
        routed = self.experts_per_token * self.expert_matrix + self.shared_matrix + self.router_matrix
        return attention + dense + self.moe_layers * routed + self.vocabulary * self.width

    @cached_property
    def linear_matrix(self) -> int:
        """Matrix parameters of all linear layers (all experts), head included."""
        moe = self.experts * self.expert_matrix + self.shared_matrix + self.router_matrix
        dense = self.dense_layers * self.dense_mlp_matrix
        return self.layers * self.attention_matrix + dense + self.moe_layers * moe + self.vocabulary * self.width

    def lora_parameters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Parameters of rank-`rank` adapters on the named projections of every layer: a dense MLP, or every expert and the shared one."""
        h, q, k = self.width, self.query, self.key
        attention = {"q": h + q, "k": h + k, "v": h + k, "o": q + h}
        per_layer = sum(rank * size for name, size in attention.items() if name in targets)
        count = sum(1 for name in ("gate", "up", "down") if name in targets and (self.gated or name != "gate"))
        dense = self.dense_layers * count * rank * (h + self.ffn)
        experts = self.moe_layers * self.experts * count * rank * (h + self.expert_ffn)
        shared = self.moe_layers * bool(self.shared_ffn) * count * rank * (h + self.shared_ffn)
        return self.layers * per_layer + dense + experts + shared
