"""How weights are stored: bits per parameter of each format, block scales and zero points included."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Storage of the linear layers' weights; embeddings, norms and (for most formats) the head stay in 16 bit."""

    name: str
    bits: float
    """Per parameter of a linear layer, scales and zero points included."""
    quantised_head: bool = False
    """Embedding and head are stored in this format too."""
    source: str = ""

    @property
    def bytes_per_parameter(self) -> float:
        """Bytes per parameter of a linear layer."""
        return self.bits / 8


_GGML = "llama.cpp block layouts (ggml-common.h): bytes of a super-block ÷ its 256 (or 32) weights"


def _gguf(name: str, block_bytes: int, weights: int) -> WeightFormat:
    return WeightFormat(name, 8 * block_bytes / weights, quantised_head=True, source=_GGML)


FORMATS: dict[str, WeightFormat] = {
    item.name: item
    for item in (
        WeightFormat("fp32", 32, quantised_head=True),
        WeightFormat("tf32", 32, quantised_head=True),
        WeightFormat("fp16", 16, quantised_head=True),
        WeightFormat("bf16", 16, quantised_head=True),
        WeightFormat("fp8", 8, source="one scale a tensor or a channel: below 0.01 bit"),
        WeightFormat("int8", 8, source="bitsandbytes LLM.int8: a scale a row"),
        WeightFormat("fp4", 4.5, source="bitsandbytes FP4: an FP32 absmax a block of 64"),
        WeightFormat("nf4", 4.5, source="QLoRA (arXiv:2305.14314): an FP32 absmax a block of 64"),
        WeightFormat("nf4-dq", 4.127, source="QLoRA (arXiv:2305.14314) §3: double quantisation, 0.127 bit"),
        WeightFormat("int4", 4.25, source="group of 128: a 16-bit scale and a 16-bit zero"),
        WeightFormat("awq", 4.156, source="group of 128: a 16-bit scale and a 4-bit zero"),
        WeightFormat("gptq-int4", 4.156, source="group of 128: a 16-bit scale and a 4-bit zero"),
        WeightFormat("gptq-int8", 8.188, source="group of 128: a 16-bit scale and an 8-bit zero"),
        WeightFormat("mxfp4", 4.25, source="OCP Microscaling 1.0: an 8-bit scale a block of 32"),
        WeightFormat("nvfp4", 4.5, source="an FP8 scale a block of 16"),
        _gguf("q8_0", 34, 32),
        _gguf("q6_k", 210, 256),
        _gguf("q5_k_m", 182, 256),
        _gguf("q5_k_s", 176, 256),
        _gguf("q4_k_m", 155, 256),
        _gguf("q4_k_s", 148, 256),
        _gguf("q4_0", 18, 32),
        _gguf("q3_k_m", 125, 256),
        _gguf("q2_k", 107, 256),
    )
}
"""Name -> format. The `_m` mixes of GGUF keep some tensors in a larger type; their bits are those of a whole Llama file."""

DTYPE_BYTES: dict[str, float] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}
"""Bytes of one element of a compute or cache dtype."""
