"""Storage formats of weights: the bytes of each, with block scales and zero points, and the parts left in 16 bits."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from planner.paths import read_shipped_part
from planner.workload.architecture import Architecture
from planner.workload.checkpoints import gguf
from planner.workload.matrices import Matrix, matrices
from planner.workload.sublayers import HEAD, StoredPart


class StoredWeights(msgspec.Struct, frozen=True):
    """Bytes of one architecture's weights in one format."""

    dense_bytes: float
    """All layers without their routed experts: attention, MLPs, shared experts, routers, norms and biases."""
    expert_bytes: float
    """All routed experts."""
    embedding_bytes: float
    """Embeddings; a tied head is the same tensor."""
    head_bytes: float
    """Bytes of an untied head; 0 when tied."""
    final_bytes: float
    """Vectors outside the layers."""
    architecture: Architecture
    mixing: float
    """Mean bytes per parameter of the matrices of attention and additional parts."""
    mlp: float
    """Mean bytes per parameter of the matrices of MLPs and shared experts."""

    @property
    def total_bytes(self) -> float:
        """Bytes of all weights."""
        return self.dense_bytes + self.expert_bytes + self.embedding_bytes + self.head_bytes + self.final_bytes

    @property
    def dense(self) -> float:
        """Mean bytes per parameter of the layers without their routed experts."""
        return self.dense_bytes / self.architecture.layers_shared

    @property
    def expert(self) -> float:
        """Mean bytes per parameter of the routed experts, else of the layers."""
        return self.expert_bytes / self.architecture.experts_total if self.architecture.experts_total else self.dense

    @property
    def linear(self) -> float:
        """Mean bytes per parameter of all layers, experts included."""
        return (self.dense_bytes + self.expert_bytes) / (self.architecture.layers_shared + self.architecture.experts_total)

    @property
    def embedding(self) -> float:
        """Mean bytes per parameter of the embeddings."""
        return self.embedding_bytes / self.architecture.embedding

    @property
    def head(self) -> float:
        """Mean bytes per parameter of the head, which reads the embedding when tied."""
        return self.head_bytes / self.architecture.head if self.architecture.head else self.embedding

    @property
    def other(self) -> float:
        """Mean bytes per parameter of everything outside the layers."""
        a = self.architecture
        return (self.embedding_bytes + self.head_bytes + self.final_bytes) / (a.embedding + a.head + a.final_vector)


class WeightFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A storage format of linear layers; unquantised weights (embedding, head, norms, biases, routers) have `kept_bits`."""

    name: str
    bits: float
    """Bits per parameter of a linear layer, including scales and zero points; for a GGUF mix: mean over the whole of Llama 3.1 8B."""
    source: str = ""
    kept_bits: float = 16
    row_bits: float = 0
    """Further bits per output of a matrix."""
    column_bits: float = 0
    """Further bits per input of a matrix."""
    experts_only: bool = False
    """True if only experts are quantised in a model that has some."""
    others_bits: float = 0
    """Bits per parameter of a linear layer outside the experts, where only experts have `bits`; 0: `kept_bits`."""
    mix: gguf.Mix | None = None

    def stored(self, architecture: Architecture) -> StoredWeights:
        """Bytes of the weights of `architecture` in this format."""
        a = architecture
        apart = a.stored_parts if self.name == a.stored_as else ()
        bits: dict[str, float] = defaultdict(float)
        held: dict[str, int] = defaultdict(int)
        for matrix in matrices(a):
            bits[matrix.part] += self._mixed_bits(matrix, a, apart)
            held[matrix.part] += matrix.parameters
        expert_vectors = sum(one.moe_layers * one.experts * one.expert_vector for one in (a, a.source) if one)
        vectors = a.layers_shared + a.experts_total - expert_vectors - sum(held.values())
        embedding = a.token_matrix * self._embedding_bits(a) + (a.embedding - a.token_matrix) * self.kept_bits
        of_head = next((FORMATS[one.format].bits for one in apart if one.part == HEAD), self._head_bits(a))
        head = (a.head - a.output_matrix) * of_head + a.output_matrix * self.kept_bits
        experts = bits.pop("experts", 0.0)
        dense_bytes = (sum(bits.values()) + vectors * self.kept_bits) / 8

        def mean(*parts: str) -> float:
            parameters = sum(held[part] for part in parts)
            return sum(bits[part] for part in parts) / 8 / parameters if parameters else dense_bytes / a.layers_shared

        return StoredWeights(
            dense_bytes=dense_bytes,
            expert_bytes=(experts + expert_vectors * self.kept_bits) / 8,
            mixing=mean("attention"),
            mlp=mean("mlp", "shared"),
            embedding_bytes=embedding / 8,
            head_bytes=head / 8,
            final_bytes=((a.final_vector - a.towers) * self.kept_bits + a.towers * self._tower_bits()) / 8,
            architecture=a,
        )

    def _mixed_bits(self, matrix: Matrix, a: Architecture, apart: tuple[StoredPart, ...]) -> float:
        """Bits of all weights of `matrix`, of which shares may be in the formats of `apart`."""
        use = (matrix.part, matrix.role, matrix.inputs, matrix.outputs)
        others = [one for one in apart if (one.part, one.role, one.inputs, one.outputs) == use]
        own = 1.0 - sum(one.share for one in others)
        return own * self._bits(matrix, a) + sum(one.share * FORMATS[one.format].whole_bits(matrix) for one in others)

    def whole_bits(self, matrix: Matrix) -> float:
        """Bits of all weights of `matrix` in this format, whatever it leaves in 16 bit elsewhere."""
        scales = self.row_bits * matrix.outputs + self.column_bits * matrix.inputs
        return matrix.parameters * self.bits + scales * matrix.kept

    def _bits(self, matrix: Matrix, a: Architecture) -> float:
        """Bits of all weights of `matrix`."""
        if self.mix is not None:
            return gguf.stored_bits(self.mix, matrix, a)
        if matrix.part == "router":
            return matrix.parameters * self.kept_bits
        if self.experts_only and a.experts and matrix.part != "experts":
            return matrix.parameters * (self.others_bits or self.kept_bits)
        return self.whole_bits(matrix)

    def _embedding_bits(self, a: Architecture) -> float:
        return gguf.embedding_bits(self.mix, a) if self.mix is not None else self.kept_bits

    def _tower_bits(self) -> float:
        return gguf.TOWER_BITS if self.mix is not None else self.kept_bits

    def _head_bits(self, a: Architecture) -> float:
        return gguf.head_bits(self.mix, a) if self.mix is not None else self.kept_bits


def _of_gguf(name: str, mix: gguf.Mix) -> WeightFormat:
    source = "llama.cpp: block layouts of ggml-common.h, tensor types of src/llama-quant.cpp"
    return WeightFormat(name=name, bits=mix.bits, kept_bits=gguf.KEPT_BITS, mix=mix, source=source)


FORMATS = {one.name: one for one in read_shipped_part(tuple[WeightFormat, ...], "formats", "formats", "weights.toml")}
FORMATS |= {name: _of_gguf(name, mix) for name, mix in gguf.MIXES.items()}
"""Name -> format. bitsandbytes, GPTQ, AWQ, FP8 and NVFP4 leave embedding and head in 16 bit; GGUF has types for both."""

DTYPE_BYTES: dict[str, float] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}
"""Bytes of one element of a compute or cache dtype."""
