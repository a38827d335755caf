"""A layer's execution in training, to the extent that it decides what is kept for its backward pass.

Symbols: w bytes of an element that products compute in · r bytes of an element of the residual stream.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

STATISTIC = 4.0
"""Bytes of one FP32 number per row: the root mean square of a norm, the logarithm of a softmax's sum."""


class LayerExecution(msgspec.Struct, frozen=True, kw_only=True):
    """Ways of computing a layer that decide what is kept for backward."""

    product_bytes: float
    """w: bytes of an element that products compute in."""
    residual_bytes: float
    """r: bytes of an element of the residual stream."""
    autocast: bool = False
    fused: bool = False
    """True if norms, rotary embedding and activation are fused kernels that keep only their inputs."""
    compiled: bool = False
    """True if layers are compiled by torch.compile, whose partitioner keeps only what backward reads."""
    fused_loss: bool = False
    """True if the operators of the loss are fused into kernels that read the logits and write their gradient."""
    eager: bool = False
    recomputed: bool = False
    """True if scores are recomputed in backward, from the attention's inputs."""
    sequence: float = 0.0
    """Keys that a query attends to, where scores are stored."""
    source: float = 0.0
    """Tokens of an encoder's output that a query attends to."""
    adapted: frozenset[str] | None = None
    """Projections with adapters on frozen weights; None: every weight is trained."""
    all_inputs: bool = False
    """True if products of frozen weights keep their inputs too."""
    drops_inputs: bool = False
    """True if inputs of adapters pass a dropout of their own."""
    input_bytes: float = 0.0
    """Bytes of an element of a product's input as it is kept, where they are fewer than `product_bytes`; 0: as in the computation."""
    weighs_inside: bool = False
    """True if the router's weights are applied to experts inside their activation; else after their last product, whose output is kept."""
    by_modules: bool = False
    """True if checkpointing by operators follows Megatron's modules; else torchtitan's operators (`memory.recomputation`)."""
    rank: float = 0.0
    adapter_bytes: float = 2.0
    """Bytes of an adapter's weight."""

    @property
    def trained(self) -> bool:
        """True if the weights of the model itself are trained."""
        return self.adapted is None

    def keeps(self, name: str) -> bool:
        """True if the projection `name` needs its input in backward."""
        return self.adapted is None or name in self.adapted

    def inputs(self, names: Iterable[str], size: float, *, wide: bool, kept: bool = False) -> float:
        """Bytes that the projections `names` keep of one common input of `size` elements.

        `wide`: the input is as wide as the residual stream (autocast casts it for every projection); `kept`: another operator keeps it already.
        """
        count = len(list(names)) if self.adapted is None else sum(1 for name in names if name in self.adapted)
        if self.input_bytes and count and self.trained:  # a separate copy, whatever else keeps the input
            return self.input_bytes * size
        base = self.product_bytes * size if self.all_inputs and not kept else 0.0
        if not count:
            return base
        inner = 0.0 if self.trained else count * self.rank * (self.product_bytes if self.autocast else self.adapter_bytes)
        if self.drops_inputs:  # a mask of one byte per element, and a result that nothing else keeps
            return base + count * (1 + (2.0 if self.autocast else self.adapter_bytes)) * size + inner
        if self.autocast and (wide or not self.trained):
            return base + count * 2.0 * size + inner
        if not self.trained and self.adapter_bytes != self.product_bytes:
            return count * self.adapter_bytes * size + inner
        return (0.0 if kept else self.product_bytes * size) + inner
