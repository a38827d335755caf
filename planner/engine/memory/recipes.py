"""Training recipes: the bytes each keeps per parameter, and the types it computes in."""

from __future__ import annotations

import msgspec


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
        """Weights are FP32, products are computed in 16 bit."""
        return self.cast_bytes > 0


RECIPES = {
    "fp32": Recipe(weight_bytes=4, gradient_bytes=4, product_bytes=4, residual_bytes=4),
    "amp": Recipe(weight_bytes=4, gradient_bytes=4, cast_bytes=2, residual_bytes=4),
    "mixed": Recipe(weight_bytes=2, gradient_bytes=4, master_bytes=4),
    "bf16": Recipe(weight_bytes=2, gradient_bytes=2, state_bytes=2),
}
"""Name of a recipe -> its bytes: everything FP32; FP32 under autocast; 16-bit weights with an FP32 master copy; everything 16 bit."""
