"""Recipes of training, and the footprint of one training job, whatever hardware it is spread over."""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict, replace

from planner.engine.memory.layers.activations import activation_bytes, source_bytes
from planner.engine.memory.layers.layer_execution import LayerExecution
from planner.engine.memory.layers.recomputation import stored_activations
from planner.engine.records.footprint import Footprint
from planner.workload.architecture import Architecture
from planner.workload.matrices import matrices
from planner.workload.optimizers import Optimizer


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes per parameter (weights to states), and per element of activations (the last two)."""

    weight_bytes: float
    gradient_bytes: float
    master_bytes: float = 0.0
    """A second copy of the weights in FP32, which the optimizer updates."""
    cast_bytes: float = 0.0
    """Autocast's copies of linear weights."""
    state_bytes: float = 4.0
    """One full state of the optimizer."""
    product_bytes: float = 2.0
    """An element of inputs and outputs of matrix products, and of the gradients that they make."""
    residual_bytes: float = 2.0
    """An element of the residual stream."""

    @property
    def autocast(self) -> bool:
        """True if weights are FP32 and products are computed in 16 bit."""
        return self.cast_bytes > 0


RECIPES = {
    "fp32": Recipe(weight_bytes=4, gradient_bytes=4, product_bytes=4, residual_bytes=4),
    "amp": Recipe(weight_bytes=4, gradient_bytes=4, cast_bytes=2, residual_bytes=4),
    "mixed": Recipe(weight_bytes=2, gradient_bytes=4, master_bytes=4),
    "bf16": Recipe(weight_bytes=2, gradient_bytes=2, state_bytes=2),
}
"""Name of a recipe -> its bytes: everything FP32; FP32 under autocast; 16-bit weights with an FP32 master copy; everything 16 bit."""

CHUNKS = 8
"""Number of pieces into which a chunked loss divides the tokens (torchtune's default)."""
LOSS_TRAFFIC, FUSED_LOSS_TRAFFIC = 24.0, 8.0
"""Bytes per token and vocabulary entry. Operator by operator: 16-bit logits read, FP32 copy and log-softmax written forward; both read, two
FP32 gradients and a 16-bit one written backward. In fused kernels (torch.compile; Liger, arXiv:2410.10989 §3.2): 16-bit logits read for the
maximum and for the sum, and read and their gradient written backward."""


def footprint(
    a: Architecture, how: LayerExecution, *, recipe: Recipe, optimizer: Optimizer, loss: str, other_loss: str | None = None
) -> Footprint[float]:
    """Bytes per token and per parameter of training `a`; `loss`: "full", "compiled", "chunked", "fused" or "none"; `other_loss`: what it may be instead."""
    one = activation_bytes(a, how)
    again = activation_bytes(a, replace(how, eager=False, recomputed=True)) if how.eager else one
    cast = recipe.gradient_bytes if recipe.autocast else 0.0  # the FP32 gradient that a 16-bit product is cast to
    product = recipe.product_bytes * how.trained * optimizer.updates
    kept = stored_activations(a, how)
    largest = max((matrix.inputs * matrix.outputs for matrix in matrices(a)), default=0)
    step_matrix = recipe.state_bytes * optimizer.matrix_temporaries * max(largest, a.token_matrix)
    return Footprint(
        **asdict(one),
        recomputed_products=kept.products_again,
        recomputed_exchange=kept.exchange_again,
        attention_recomputed=again.attention,
        head_gradient=product + cast * how.trained * optimizer.updates,
        head_product=product,
        early_gradient=product * (loss != "full"),
        arriving_gradient=(cast or recipe.product_bytes) * how.trained,
        step=optimizer.temporary_bytes(recipe.state_bytes, a),
        step_matrix=step_matrix * how.trained,
        layer_matrix=float(largest),
        **_source(a, how),
        **_logits(a, how, loss),
        logits_otherwise=0.0 if other_loss is None else _most_logits(a, how, other_loss) - _most_logits(a, how, loss),
    )


def _source(a: Architecture, how: LayerExecution) -> dict[str, float]:
    """Bytes per token that an encoder reads: in its layers, its output, and its keys and values in every layer of the decoder."""
    if a.source is None:
        return {}
    encoder, reading = a.source, replace(how, sequence=how.source)
    one = activation_bytes(encoder, reading)
    again = activation_bytes(encoder, replace(reading, eager=False, recomputed=True)) if how.eager else one
    crossing = source_bytes(a, how)
    outside = a.layers * crossing + one.head
    plain = one.norms + one.mlp + one.dropout
    layer = plain + one.attention + one.scores
    return {
        "source": encoder.layers * layer + outside,
        "source_recomputed": encoder.layers * (plain + min(again.attention, one.attention + one.scores)) + outside,
        "source_boundary": encoder.layers * one.boundary + one.head,
        "source_layer": layer,
        "source_crossing": crossing,
        "source_backward": one.backward,
    }


def _most_logits(a: Architecture, how: LayerExecution, loss: str) -> float:
    """Bytes per token and vocabulary entry at the moment of the most: when `loss` has been computed, or as backward starts."""
    found = _logits(a, how, loss)
    return found.get("logits_alive", 0.0) + max(found.get("logits_forward", 0.0), found["logits_backward"])


def _logits(a: Architecture, how: LayerExecution, loss: str) -> dict[str, float]:
    """Bytes per token and vocabulary entry: logits; their FP32 copy and log-softmax for the loss; as backward starts, both gradients.

    A compiled loss keeps the logits as they were computed and their gradient, as PyTorch partitions it since 2.5 (pytorch/pytorch#129043; 4
    bytes more before). A chunked loss makes the logits of an eighth of the tokens at a time, a fused one those of as many tokens as the width.
    """
    if loss == "none":
        return {}
    w = how.product_bytes
    if a.block.wide_logits and how.autocast:
        w = 4.0
    traffic = FUSED_LOSS_TRAFFIC if how.fused_loss or loss in {"compiled", "fused"} else LOSS_TRAFFIC
    copy = 0.0 if w == 4 else 4.0
    if loss == "full" and a.block.narrow_loss and not how.autocast:
        return {"logits_alive": w, "logits_forward": w, "logits_backward": 3 * w, "logits_gradient": w}
    if loss == "full":
        capped = w * a.block.capped_logits
        return {
            "logits_alive": w,
            "logits_forward": 4.0 + copy + capped,
            "logits_backward": 12.0 + capped,
            "logits_gradient": w,
            "loss_traffic": traffic,
        }
    if loss == "compiled":
        return {"logits_alive": w, "logits_backward": w, "logits_gradient": w, "loss_traffic": traffic}
    share = 1 / CHUNKS if loss == "chunked" else min(1.0, a.token_width / a.vocabulary)
    return {"logits_backward": 12.0 * share + how.residual_bytes * a.token_width / a.vocabulary, "loss_traffic": traffic}
