"""What one resolved training job holds, per token and per parameter, whatever hardware it is spread over."""

from __future__ import annotations

from dataclasses import replace

from planner.engine.memory.activations import Manner, kept_by
from planner.engine.records.footprint import Footprint
from planner.workload.architecture import Architecture
from planner.workload.matrices import matrices
from planner.workload.optimizers import Optimizer

CHUNKS = 8
"""Pieces a chunked loss cuts the tokens into (torchtune's default)."""


def footprint(a: Architecture, manner: Manner, *, recipe: str, optimizer: Optimizer, loss: str) -> Footprint[float]:
    """Of training `a` in the words of a workload."""
    one = kept_by(a, manner)
    again = kept_by(a, replace(manner, eager=False, recomputed=True)) if manner.eager else one
    gradient = {"fp32": 4.0, "amp": 4.0, "mixed": 4.0, "bf16": 2.0}[recipe] * manner.trained
    made = gradient + 2.0 * (recipe == "amp") * manner.trained - 2.0 * (recipe == "mixed") * manner.trained
    largest = max((matrix.inputs * matrix.outputs for matrix in matrices(a)), default=0)
    product = (2.0 * manner.trained if recipe == "amp" else made) if optimizer.updates else 0.0
    width_bytes = 2.0 if recipe == "bf16" else 4.0
    return Footprint(
        norms=one.norms,
        attention=one.attention,
        attention_recomputed=again.attention,
        scores=one.scores,
        mlp=one.mlp,
        dropout=one.dropout,
        boundary=one.boundary,
        backward=one.backward,
        head=one.head,
        head_gradient=made if optimizer.updates else 0.0,
        head_product=product,
        early_gradient=product * (loss != "full"),
        arriving_gradient=2.0 * manner.trained if recipe == "mixed" else gradient,
        step=optimizer.temporary_bytes(width_bytes, a),
        step_matrix=width_bytes * optimizer.matrix_temporaries * max(largest, a.vocabulary * a.width) * manner.trained,
        layer_matrix=float(largest),
        **_logits(a, manner, loss),
    )


def _logits(a: Architecture, manner: Manner, loss: str) -> dict[str, float]:
    """Logits in w bytes; in FP32 for the loss, their log-softmax, and as backward starts its gradient and theirs."""
    w = manner.wide
    copy = 0.0 if w == 4 else 4.0
    if loss == "full":
        capped = w * a.block.capped_logits
        return {
            "logits_alive": w,
            "logits_forward": 4.0 + copy + capped,
            "logits_backward": 12.0 + capped,
            "logits_gradient": w,
        }
    share = 1 / CHUNKS if loss == "chunked" else min(1.0, a.width / a.vocabulary)  # fused: as many tokens as make a width
    around = manner.residual * a.width / a.vocabulary
    return {"logits_alive": 0.0, "logits_forward": 0.0, "logits_backward": 12.0 * share + around, "logits_gradient": 0.0}
