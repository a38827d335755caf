"""Training steps of the study of compute per dollar, the most informative first.

Along the axis of width the model grows at 1024 tokens a step; along the axis of batch the model stays and the tokens grow.
The ends and the middle come first, so that a run that is cut short has covered the whole range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.kinds.transformer import BATCH, SEQUENCE, Qwen3Shape, study_shape

AXES = ("width", "batch")
DEPTH_LAWS = ("printed", "log2")
GPU_WIDTHS = (1024, 256, 4096, 2048, 512, 6144, 1536, 3072, 768, 5120, 1280, 2560)
CPU_WIDTHS = (256, 1024, 512, 768)
"""Widths on a CPU, the smallest first: at its speed the others may take longer than the limit of a point, and are then refused."""
GPU_BATCHES = (4, 1, 64, 16, 256, 2, 8, 32, 128, 512)
CPU_BATCHES = (4, 1, 16, 2, 8)
GPU_VOCABULARY, CPU_VOCABULARY = 151936, 32768
GPU_WIDTH, CPU_WIDTH = 1024, 256
"""Width of the model along the axis of batch."""
CAP_S = 6.0
STATE_BYTES = 18
"""Bytes for each parameter: weights, gradients and two moments in FP32, and the 16-bit copies that autocast keeps."""
LOGIT_BYTES = 16
"""Bytes for each token and vocabulary entry: 16-bit logits and their gradient, FP32 copy, log-softmax and gradient."""
LAYER_BYTES = 60
"""Bytes for each token, layer and unit of width that the backward pass needs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Options of the study; None: chosen for the device."""

    axis: str = "width"
    depth_law: str = "printed"
    vocabulary: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One training step to measure."""

    shape: Qwen3Shape
    batch: int
    sequence: int

    @property
    def needs_bytes(self) -> float:
        """Approximate memory; steps larger than one that ran out of memory are not tried."""
        tokens, shape = self.batch * self.sequence, self.shape
        activations = LOGIT_BYTES * shape.vocabulary + LAYER_BYTES * shape.width * shape.depth
        return float(STATE_BYTES * shape.parameters + tokens * activations)


def depth_of(width: int, law: str) -> int:
    """Layers at `width`: 0.77·log2(width) - 2.5 as 'printed', the same read as 'log2' of the depth, or the number given."""
    if law not in DEPTH_LAWS:
        return max(1, int(law))
    right = 0.77 * math.log2(width) - 2.5
    return max(1, round(2**right if law == "log2" else right))


def steps(options: StudyOptions, *, on_cpu: bool, memory_bytes: float) -> list[Step]:
    """Steps that may fit `memory_bytes`, in order."""
    vocabulary = options.vocabulary or (CPU_VOCABULARY if on_cpu else GPU_VOCABULARY)

    def shape(width: int) -> Qwen3Shape:
        return study_shape(width, depth_of(width, options.depth_law), vocabulary)

    if options.axis == "batch":
        model = shape(CPU_WIDTH if on_cpu else GPU_WIDTH)
        found = [Step(model, batch, SEQUENCE) for batch in (CPU_BATCHES if on_cpu else GPU_BATCHES)]
    else:
        found = [Step(shape(width), BATCH, SEQUENCE) for width in (CPU_WIDTHS if on_cpu else GPU_WIDTHS)]
    return [step for step in found if step.needs_bytes <= memory_bytes]
