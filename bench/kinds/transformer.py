"""Shape of a Qwen3 decoder and the arithmetic of one training step, counted by formula (no torch needed).

FLOPs are those of the model: a multiply-add counts two, attention counts its full square (no halving for causality, as
PaLM, nanoGPT and torchtitan do), the backward pass counts twice the forward pass, and nothing recomputed counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Shape:
    """Sizes of one decoder; query and key heads are normalised, no projection has a bias."""

    name: str
    """The model's name in the planner's catalogue."""
    width: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    tied: bool = True

    @property
    def facts(self) -> dict[str, Any]:
        """Parameters of a point that state which model it measures."""
        return {
            "model": self.name,
            "width": self.width,
            "depth": self.depth,
            "vocabulary": self.vocabulary,
            "parameters": self.parameters,
        }

    @property
    def layer_matrix_parameters(self) -> int:
        """Number of weights in one layer's matrices."""
        attention = 2 * self.width * self.heads * self.head_dim + 2 * self.width * self.kv_heads * self.head_dim
        return attention + 3 * self.width * self.ffn

    @property
    def embedding_parameters(self) -> int:
        """Number of weights in the token embedding, and in an untied output head."""
        return self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Number of trained parameters, norms included."""
        norms = self.depth * (2 * self.width + 2 * self.head_dim) + self.width
        return self.depth * self.layer_matrix_parameters + norms + self.embedding_parameters

    def forward_flop(self, batch: int, sequence: int) -> float:
        """FLOP of one pass over `batch` sequences of `sequence` tokens."""
        matrices = 2 * (self.depth * self.layer_matrix_parameters + self.vocabulary * self.width)
        attention = 4 * self.heads * self.head_dim * sequence * self.depth
        return float(batch * sequence * (matrices + attention))

    def step_flop(self, batch: int, sequence: int) -> float:
        """FLOP of one forward and backward pass, without the optimizer's few operations for each parameter."""
        return 3 * self.forward_flop(batch, sequence)

    def causal_step_flop(self, batch: int, sequence: int) -> float:
        """`step_flop` with attention counted for the half that a causal mask leaves (as Megatron-LM counts)."""
        attention = 3 * batch * sequence * 4 * self.heads * self.head_dim * sequence * self.depth
        return self.step_flop(batch, sequence) - attention / 2


CATALOGUED = ((256, 4, 32768), (1024, 5, 151936))
"""Width, depth and vocabulary of the study's models that the planner's catalogue lists by name."""


def study_shape(width: int, depth: int, vocabulary: int) -> Qwen3Shape:
    """Family of the width study: heads of 128, half as many key heads, feed-forward of three widths, tied."""
    heads = max(2, width // 128)
    plain = (width, depth, vocabulary) in CATALOGUED
    return Qwen3Shape(
        name=f"qwen3-study-w{width}" if plain else f"qwen3-study-w{width}-d{depth}-v{vocabulary}",
        width=width,
        depth=depth,
        heads=heads,
        kv_heads=heads // 2,
        head_dim=128,
        ffn=3 * width,
        vocabulary=vocabulary,
    )


CPU_SHAPE = study_shape(width=256, depth=4, vocabulary=32768)
GPU_SHAPE = study_shape(width=1024, depth=5, vocabulary=151936)
SMOKE_SHAPE = Qwen3Shape(name="qwen3-smoke", width=64, depth=2, heads=2, kv_heads=1, head_dim=32, ffn=192, vocabulary=512)
QWEN3_06B = Qwen3Shape(name="qwen3-0.6b", width=1024, depth=28, heads=16, kv_heads=8, head_dim=128, ffn=3072, vocabulary=151936)
QWEN3_8B = Qwen3Shape(
    name="qwen3-8b", width=4096, depth=36, heads=32, kv_heads=8, head_dim=128, ffn=12288, vocabulary=151936, tied=False
)
BATCH, SEQUENCE = 4, 256
"""Sequences and tokens of a step: 1024 tokens, as in the study of compute per dollar that this suite repeats."""
