"""Storage formats of weights: the bytes of each, with block scales and zero points, and the parts left in 16 bits."""

from __future__ import annotations

from collections import defaultdict

import msgspec

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


class WeightFormat(msgspec.Struct, frozen=True):
    """A storage format of linear layers; unquantised weights (embedding, head, norms, biases, routers) have `kept_bits`."""

    name: str
    bits: float
    """Bits per parameter of a linear layer, including scales and zero points; for a GGUF mix: mean over the whole of Llama 3.1 8B."""
    quantised_head: bool = False
    """Whether embedding and head are stored in this format too."""
    source: str = ""
    kept_bits: float = 16
    row_bits: float = 0
    """Further bits per output of a matrix."""
    column_bits: float = 0
    """Further bits per input of a matrix."""
    experts_only: bool = False
    """Whether only experts are quantised in a model that has some."""
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


def _plain(name: str, bits: float) -> WeightFormat:
    return WeightFormat(name, bits, quantised_head=True, kept_bits=bits)


def _grouped(name: str, bits: int, group: int, method: str, *, column_bits: float = 0) -> WeightFormat:
    """A format with a 16-bit scale and a zero point of `bits` bits per group."""
    source = f"{method}: a 16-bit scale and a {bits}-bit zero a group of {group}"
    return WeightFormat(name, bits + (16 + bits) / group, source=source, column_bits=column_bits)


def _scaled(name: str, bits: int, group: int, method: str, *, zero: bool = False, experts_only: bool = False) -> WeightFormat:
    """A format with a 16-bit scale, and perhaps a 16-bit zero point, per group."""
    source = f"{method}: a 16-bit scale {'and a 16-bit zero ' * zero}a group of {group}"
    return WeightFormat(name, bits + 16 * (1 + zero) / group, source=source, experts_only=experts_only)


def _gguf(name: str, mix: gguf.Mix) -> WeightFormat:
    return WeightFormat(
        name,
        mix.bits,
        quantised_head=True,
        kept_bits=gguf.KEPT_BITS,
        mix=mix,
        source="llama.cpp: block layouts of ggml-common.h, tensor types of src/llama-quant.cpp",
    )


_PACKED = "compressed-tensors, symmetric (pack-quantized)"
_NVFP4 = "NVIDIA ModelOpt: an FP8 scale a block of 16, an FP32 one a tensor"
_NF4 = "QLoRA (arXiv:2305.14314) and bitsandbytes"
_GROUPS = (("", 128), ("-g64", 64), ("-g32", 32))
"""(end of a format's name, weights of a group)."""

FORMATS: dict[str, WeightFormat] = {
    item.name: item
    for item in (
        _plain("fp32", 32),
        _plain("tf32", 32),
        _plain("fp16", 16),
        _plain("bf16", 16),
        WeightFormat("fp8", 8, source="an FP32 scale a tensor, an output or a block of 128 × 128 (DeepSeek-V3): below 0.01 bit"),
        WeightFormat("int8", 8, source="bitsandbytes LLM.int8 (arXiv:2208.07339): an FP32 scale an output", row_bits=32),
        WeightFormat("fp4", 4 + 32 / 64, source="bitsandbytes FP4: an FP32 absmax a block of 64"),
        WeightFormat("nf4", 4 + 32 / 64, source=f"{_NF4}: an FP32 absmax a block of 64"),
        WeightFormat("nf4-dq", 4 + 8 / 64 + 32 / (64 * 256), source=f"{_NF4}: an 8-bit absmax a block, an FP32 one 256 of them"),
        *(_scaled(f"int4{suffix}", 4, size, "torchao and HQQ", zero=True) for suffix, size in _GROUPS),
        *(_scaled(f"w4a16{suffix}", 4, size, _PACKED) for suffix, size in _GROUPS),
        _scaled("w4a16-experts", 4, 32, "compressed-tensors, as of Kimi K2 Thinking: routed experts only", experts_only=True),
        _scaled("w8a16", 8, 128, _PACKED),
        *(_grouped(f"awq{suffix}", 4, size, "AWQ") for suffix, size in _GROUPS),
        *(_grouped(f"gptq-int4{suffix}", 4, size, "GPTQ", column_bits=32) for suffix, size in _GROUPS),
        _grouped("gptq-int3", 3, 128, "GPTQ", column_bits=32),
        _grouped("gptq-int8", 8, 128, "GPTQ", column_bits=32),
        WeightFormat("mxfp8", 8 + 8 / 32, source="OCP Microscaling 1.0: an 8-bit scale a block of 32"),
        WeightFormat(
            "mxfp4",
            4 + 8 / 32,
            source="OCP Microscaling 1.0: an 8-bit scale a block of 32; gpt-oss: experts only",
            experts_only=True,
        ),
        WeightFormat(
            "mxfp4-fp8",
            4 + 8 / 32,
            source="config.json of DeepSeek-V4 (expert_dtype): experts in MXFP4, other layers in FP8",
            experts_only=True,
            others_bits=8,
        ),
        WeightFormat(
            "mxfp4_moe",
            4 + 8 / 32,
            quantised_head=True,
            kept_bits=8.5,
            source="llama.cpp's MXFP4_MOE: experts in MXFP4, all else in Q8_0",
            experts_only=True,
        ),
        WeightFormat("nvfp4", 4 + 8 / 16, source=_NVFP4),
        WeightFormat("nvfp4-a16", 4 + 8 / 16, source=f"{_NVFP4}; of weights alone, which are unpacked to multiply in 16 bit"),
        *(_gguf(name, mix) for name, mix in gguf.MIXES.items()),
    )
}
"""Name -> format. bitsandbytes, GPTQ, AWQ, FP8 and NVFP4 leave embedding and head in 16 bit; GGUF has types for both."""

DTYPE_BYTES: dict[str, float] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}
"""Bytes of one element of a compute or cache dtype."""
