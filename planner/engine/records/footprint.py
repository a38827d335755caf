"""What a training job keeps per token and per parameter, whatever hardware it is spread over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from planner.engine.records.fields import N, default


@dataclass(frozen=True, kw_only=True)
class Footprint(Generic[N]):
    """Bytes of one training job, or columns of many; zero in every field for inference. Symbols: see `memory.activations`."""

    norms: N = default(0.0)
    """Bytes a token leaves in a layer, as the next five."""
    attention: N = default(0.0)
    attention_recomputed: N = default(0.0)
    """Where the scores are computed again in backward."""
    scores: N = default(0.0)
    mlp: N = default(0.0)
    dropout: N = default(0.0)
    boundary: N = default(0.0)
    """Bytes of a token's input to a layer."""
    backward: N = default(0.0)
    """Bytes a token's gradients take at most inside a layer's backward."""
    head: N = default(0.0)
    """Bytes a token leaves after the last layer, logits apart."""
    logits_alive: N = default(0.0)
    """Bytes a token and vocabulary entry that the training loop holds until its backward pass is over."""
    logits_forward: N = default(0.0)
    """Further ones as the loss has just been computed."""
    logits_backward: N = default(0.0)
    """Further ones as backward starts."""
    logits_gradient: N = default(0.0)
    """Further ones as the head's gradient is computed."""
    head_gradient: N = default(0.0)
    """Bytes a parameter of the head of what its gradient takes while it is made."""
    head_product: N = default(0.0)
    """Of it, what the product makes before it is cast."""
    early_gradient: N = default(0.0)
    """The same while the loss still stands, where it comes in pieces."""
    arriving_gradient: N = default(0.0)
    """Bytes a parameter of a gradient on its way to the one it is added to."""
    step: N = default(0.0)
    """Bytes a trained parameter of the optimizer's temporaries."""
    step_matrix: N = default(0.0)
    """Bytes of its temporaries for the largest matrix."""
    layer_matrix: N = default(0.0)
    """Parameters of a layer's largest matrix."""
