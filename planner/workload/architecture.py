"""Sizes of a transformer, decoder or encoder, that decide its memory and time.

Symbols: L layers · h width · q = heads·head_dim · k = kv_heads·head_dim · f feed-forward width · V vocabulary · E experts.
"Matrix" parameters take part in matrix products; "vector" parameters (norms, biases) do not.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from planner.workload.block import Block
from planner.workload.sublayers import AttentionGroup, ReadsContext, StoredPart, Sublayer, layers_of


class Architecture(msgspec.Struct, ReadsContext, frozen=True, kw_only=True, dict=True):
    """Sizes of one model. All counts are of parameters or elements, never bytes.

    Most layers have the attention and one of the MLPs that the fields describe; `instead` lists the exceptions, `beside` further parts of layers.
    """

    family: str
    """Its `model_type`."""
    block: Block
    """Further facts of the family's code."""
    eager_attention: bool
    """True if transformers has no fused attention for the family."""
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Inner width of the dense MLP."""
    gated: bool
    """True if the MLP has a gate matrix (SwiGLU, GeGLU): three matrices instead of two."""
    vocabulary: int
    tied: bool
    """True if the output head is the input embedding."""
    embedding_width: int | None = None
    """Width of the embedding and of the head's input, where it differs from the layers' (OPT 350M)."""
    learned_positions: int = 0
    token_types: int = 0
    """Rows of the embedding of segments (BERT)."""
    rotary: bool = False
    alibi: bool = False
    """True if a bias of the attention scores replaces positions: eager attention stores it as a tensor."""
    max_context: int | None = None
    encoder: bool = False
    """True if it attends in both directions and keeps no cache: it can be trained or read prompts, but generates nothing."""
    fused_qkv: bool = False
    """True if query, key and value are one matrix, and so one adapter and one tensor of a GGUF file."""
    fused_gate_up: bool = False
    """True if gate and up are one matrix."""

    instead: tuple[Sublayer, ...] = ()
    """Attentions and MLPs of layers that differ from the fields below."""
    beside: tuple[Sublayer, ...] = ()
    """Parts of layers in addition to attention and MLP."""

    query_gate: int = 0
    """Outputs of the query's projection that gate attention's output; with a compressed query it reads the normed and the plain one."""
    attention_bias: int = 0
    """Biases of one layer's attention."""
    attention_norm: int = 0
    """Norm parameters of one layer's attention: of query and key, or of latents."""
    sinks: int = 0
    """Learned sinks of one layer's attention: one per head."""
    mlp_vector: int = 0
    norms: int = 2
    """Norms of one layer outside its attention."""
    final_norms: int = 1
    """Norms outside the layers: after the last, after the embedding, in the head."""
    norm_parameters: int
    """Parameters of one of these norms: the width, twice that with a bias."""
    centred: bool = False
    """True if the norms subtract the mean (LayerNorm, not RMSNorm)."""
    final_bias: int = 0
    """Biases outside the layers."""
    input_matrix: int = 0
    """Projection from the embedding's width to that of the layers."""
    output_matrix: int = 0
    """Projection between the last layer and the head."""

    dropout: bool = False
    window: int | None = None
    """Tokens that a windowed layer attends to."""
    windowed_layers: int = 0
    """Number of windowed layers among those with the attention of these fields."""
    chosen: int | None = None
    """Tokens that a layer with sparse attention chooses to attend to."""

    experts: int = 0
    experts_per_token: int = 0
    routed_share: float = 1.0
    """Share of the experts among which those of a token are chosen, where groups of them are chosen first."""
    expert_ffn: int = 0
    narrowed: int = 0
    """Width of the inputs and outputs of routed experts, where projections make it narrower than the layers; 0: not narrower."""
    shared_ffn: int = 0
    """Summed inner width of the experts that every token passes."""
    expert_vector: int = 0
    """Biases of one expert."""
    router_vector: int = 0
    shared_gate: int = 0
    dense_layers: int
    """Layers with a dense MLP (all of them without experts)."""
    latent_rank: int = 0
    """Multi-head latent attention: width of the compressed key and value; 0: full keys and values."""
    query_rank: int = 0
    """Width of the compressed query; 0: not compressed."""
    rotary_dim: int = 0
    """Elements of a head's rotary key, which all heads share (latent attention)."""
    value_dim: int = 0
    """Elements of a head's value where they are not `head_dim` (latent attention)."""
    saved_bytes: float | None = None
    """Bytes saved for the backward pass per token in the mean layer, in 16 bit, operator by operator; None: by formula."""
    mtp_layers: int = 0
    """Layers that predict further tokens; not in `total`, because transformers leaves them out, see `mtp_parameters`."""
    source: Architecture | None = None
    """Encoder of the prompt, with the projections of its output to keys and values; sizes are the decoder's, counts include both."""
    source_tokens: int = 0
    """Tokens that the encoder reads for every request (Whisper: 30 seconds of sound); 0: the tokens of the prompt."""
    taken_as: str = ""  # words for what its name was taken for, where that is no name of the catalogue
    stored_as: str = ""
    """Format of most weights in the file that the model was read from, where it states one; see `planner.workload.weights`."""
    stored_parts: tuple[StoredPart, ...] = ()
    """Parts of the file in other formats."""
    mtp_copies: bool = True
    """True if each of these layers comes with a copy of embedding and head in checkpoints."""
    tower: Architecture | None = None
    """Layers that process patches of pictures; its parameters are included in `towers`."""
    picture_tokens: int = 0
    """Tokens of a picture, where all have one size; 0: they depend on its size."""
    pixels_per_token: int = 0
    """Side in pixels of the square that becomes a token of a picture; 0: all have one size."""
    token_patches: float = 0
    """Patches of a picture for each of its tokens."""
    towers: int = 0
    """Parameters of encoders of pictures with their projection, which no token of text passes."""
    left_out: tuple[str, ...] = ()
    """Parts of the config that are not counted: 'vision_config', 'num_nextn_predict_layers', …"""
    per_layer_embedding: int = 0
    """Parameters of a second embedding, which gives every layer its own vector for a token."""

    @property
    def query(self) -> int:
        """Elements of the query of one token."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Elements of the key of one token."""
        return self.kv_heads * self.head_dim

    @property
    def cached_per_token(self) -> int:
        """Elements that one layer keeps per token in the KV cache: 2k, or the latent and rotary key of latent attention."""
        if self.latent_rank:
            return self.latent_rank + self.rotary_dim
        return 0 if self.encoder else 2 * self.key

    @cached_property
    def attention_matrix(self) -> int:
        """Matrix parameters of one layer's attention: the factors of latent attention, or query, key, value and output."""
        if not self.latent_rank:
            return 2 * self.width * (self.query + self.key) + self.width * self.query_gate
        reads = self.query_rank * (2 if self.query_gate else 1)
        query = self.query_rank * self.width + reads * (self.query + self.query_gate) if reads else self.width * self.query
        unpacked = self.heads * (self.head_dim - self.rotary_dim + self.value_dim)
        return query + self.width * self.cached_per_token + self.latent_rank * unpacked + self.heads * self.value_dim * self.width

    @cached_property
    def attention_layers(self) -> int:
        """Layers with the attention that the fields describe."""
        return self.layers - layers_of(self.instead, "attention")

    @cached_property
    def attention(self) -> tuple[AttentionGroup, ...]:
        """Layers in groups of equal access to earlier tokens; the choice of tokens in sparse attention is a separate group."""
        own = AttentionGroup(
            layers=self.attention_layers - self.windowed_layers,
            heads=self.heads,
            kv_heads=1 if self.latent_rank else self.kv_heads,
            score_dim=self.head_dim,
            value_dim=self.value_dim or self.head_dim,
            attends_to="chosen" if self.chosen else "all",
            cached=self.cached_per_token,
            read=self.cached_per_token,
        )
        groups = [own, replace(own, layers=self.windowed_layers, attends_to="window")]
        further = (one for part in (*self.instead, *self.beside) for one in part.attending)
        return tuple(one for one in (*groups, *further) if one.layers)

    @property
    def scored_share(self) -> float:
        """Share of the layers in which a token has a score for each token that it attends to; recurrences have none."""
        return min(1.0, sum(one.layers for one in self.attention if one.attended and one.attends_to != "source") / self.layers)

    @property
    def attention_vector(self) -> int:
        """Biases, norms and sinks of one layer's attention."""
        return self.attention_bias + self.attention_norm + self.sinks

    @property
    def qk_norm(self) -> bool:
        """True if query and key are normalised."""
        return self.attention_norm > 0 and not self.latent_rank

    @property
    def norms_all_heads(self) -> bool:
        """True if query and key are normalised over all of their heads at once, for which ranks that share the heads exchange sums."""
        return self.qk_norm and self.attention_norm > 2 * self.head_dim and not self.centred

    @property
    def norm_vector(self) -> int:
        """Norm parameters of one layer outside its attention."""
        return self.norms * self.norm_parameters

    @property
    def final_vector(self) -> int:
        """Vectors outside the layers, norms and biases, and towers: what every GPU of a stage holds whole, but for towers that an engine divides."""
        own = self.final_norms * self.norm_parameters + self.final_bias + self.towers
        return own + (self.source.final_vector if self.source else 0)

    @property
    def attended(self) -> int:
        """Elements of a token's queries and values in a layer with the attention of these fields."""
        return self.heads * (self.head_dim + (self.value_dim or self.head_dim))

    @property
    def expanded(self) -> int:
        """Elements of a token's keys and values of all heads and layers, where latent attention is cached expanded."""
        further = self.cached_all - self.attention_layers * self.cached_per_token
        return int(self.attention_layers * self.attended + further) * (self.latent_rank > 0)

    @cached_property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.layers - self.dense_layers - layers_of(self.instead, "mlp")

    @property
    def dense_share(self) -> float:
        """Share of the layers that have the dense MLP."""
        further = sum(one.layers for one in self.instead if one.part == "mlp" and one.used)
        return (self.dense_layers + further) / self.layers

    @property
    def mixer_share(self) -> float:
        """Share of the layers that have attention, or a recurrence in its place."""
        further = sum(one.layers for one in self.instead if one.part == "attention" and one.used)
        return (self.attention_layers + further) / self.layers

    @cached_property
    def mixing_matrix(self) -> float:
        """Matrix parameters of a layer's attention and the additional parts, the mean over the layers."""
        parts = (*(one for one in self.instead if one.part == "attention"), *self.beside)
        return (self.attention_layers * self.attention_matrix + sum(one.used for one in parts)) / self.layers

    @cached_property
    def mlp_matrix(self) -> float:
        """Matrix parameters of the MLP, the mean over the layers without routed experts."""
        further = sum(one.used for one in self.instead if one.part == "mlp")
        return (self.dense_layers * self.dense_mlp_matrix + further) / max(1, self.layers - self.moe_layers)

    @property
    def mlp_matrices(self) -> int:
        """Matrices of an MLP: 3 with a gate, else 2."""
        return 3 if self.gated else 2

    @property
    def dense_mlp_matrix(self) -> int:
        """Matrix parameters of a dense MLP."""
        return self.mlp_matrices * self.width * self.ffn

    @property
    def expert_width(self) -> int:
        """Elements of a token in the input and output of a routed expert."""
        return self.narrowed or self.width

    @property
    def expert_matrix(self) -> int:
        """Matrix parameters of one routed expert."""
        return self.mlp_matrices * self.expert_width * self.expert_ffn

    @property
    def shared_matrix(self) -> int:
        """Matrix parameters of the shared experts of a layer."""
        return self.mlp_matrices * self.width * self.shared_ffn + self.shared_gate

    @property
    def router_matrix(self) -> int:
        """Matrix parameters of the router of a layer."""
        return self.width * self.experts

    @property
    def token_width(self) -> int:
        """Width of the token embedding and of the output head."""
        return self.embedding_width or self.width

    @property
    def token_matrix(self) -> int:
        """Parameters of the token embedding, and of an untied head."""
        return self.vocabulary * self.token_width

    @property
    def embedding(self) -> int:
        """Embeddings of tokens, learned positions and token types, and the projection to the width of the layers."""
        tokens = self.token_matrix + self.per_layer_embedding + (self.source.embedding if self.source else 0)
        return tokens + (self.learned_positions + self.token_types) * self.width + self.input_matrix

    @property
    def head(self) -> int:
        """Parameters of an untied output head (0 when tied) and of the projection before it."""
        return (0 if self.tied else self.token_matrix) + self.output_matrix

    @cached_property
    def experts_total(self) -> int:
        """Parameters of all routed experts of all layers."""
        own = self.moe_layers * self.experts * (self.expert_matrix + self.expert_vector)
        return own + (self.source.experts_total if self.source else 0)

    @cached_property
    def experts_used(self) -> int:
        """Parameters of the routed experts that one token passes, in both stacks."""
        own = self.moe_layers * self.experts_per_token * (self.expert_matrix + self.expert_vector)
        return own + (self.source.experts_used if self.source else 0)

    @cached_property
    def layers_shared(self) -> int:
        """Parameters of all layers outside their routed experts."""
        attention = self.attention_layers * (self.attention_matrix + self.attention_vector)
        dense = self.dense_layers * (self.dense_mlp_matrix + self.mlp_vector)
        moe = self.moe_layers * (self.router_matrix + self.router_vector + self.shared_matrix)
        further = sum(one.parameters for one in self._further) + (self.source.layers_shared if self.source else 0)
        return attention + dense + moe + self.layers * self.norm_vector + further

    @property
    def _further(self) -> tuple[Sublayer, ...]:
        return (*self.instead, *self.beside)

    @cached_property
    def total(self) -> int:
        """All parameters; a tied head counts once."""
        return self.embedding + self.head + self.layers_shared + self.experts_total + self.final_vector

    @cached_property
    def active(self) -> int:
        """Parameters that one token of text uses: all but towers, and the experts it is not routed to."""
        return self.total - self.towers - self.experts_total + self.experts_used

    @cached_property
    def active_matrix(self) -> float:
        """Matrix parameters of the decoder used by one token, including the head (tied or not), without the input embedding."""
        attention = self.attention_layers * self.attention_matrix
        dense = self.dense_layers * self.dense_mlp_matrix
        routed = self.experts_per_token * self.expert_matrix + self.shared_matrix + self.router_matrix
        ends = self.token_matrix + self.input_matrix + self.output_matrix
        return attention + dense + sum(one.used for one in self._further) + self.moe_layers * routed + ends

    @property
    def mtp_parameters(self) -> int:
        """Parameters of the layers that predict further tokens, with copies of embedding and head where the checkpoint has them.

        Each is a layer, a projection of two hidden states to one, and norms of both and of its head (README_WEIGHTS.md of
        DeepSeek-V3).
        """
        own = 2 * self.width * self.width + 3 * self.width
        vectors = self.attention_vector + self.norm_vector + self.router_vector
        experts = self.experts * (self.expert_matrix + self.expert_vector)
        mlp = self.router_matrix + self.shared_matrix + experts if self.experts else self.dense_mlp_matrix + self.mlp_vector
        return self.mtp_layers * (own + self.attention_matrix + vectors + mlp + 2 * self.token_matrix * self.mtp_copies)


class Models(NamedTuple):
    """Architectures of the models of one workload."""

    main: Architecture
    companions: tuple[Architecture, ...] = ()
    """Further models on the same GPUs, in the workload's order."""
