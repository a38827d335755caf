"""Facts of a block's code that its sizes do not say, as PyTorch computes it in transformers 5.23."""

from __future__ import annotations

import msgspec


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about the code of one family's block that decide which tensors autograd keeps; the defaults are those of Llama."""

    wide_norms: bool = False
    """RMSNorm multiplies by its weight in FP32 and so keeps its normalised input in FP32; LayerNorm reads a copy in FP32."""
    written_norms: bool = False
    """LayerNorm is written out in FP32 and keeps the centred input twice (square, product) and the normalised one."""
    branch_norms: bool = False
    """A norm stands after attention and after the MLP, whose input is not the residual stream."""
    plain_input: bool = False
    """The projections read the residual stream itself: there is no norm before them."""
    parallel: bool = False
    """Attention and MLP read the same input."""
    repeated_keys: bool = False
    """Keys and values are copied for each query head before the attention kernel."""
    activation: str = "gelu"
    """Activation of an MLP without gate, or of the gate where it is 'gelu-new': 'gelu' (one kernel), 'gelu-new' (written out: five tensors), 'relu' (keeps its result alone), 'relu2' (its square beside it), 'xielu' (a mask and four tensors more)."""
    joined_rotary: bool = False
    """Rotated and other parts of a head are joined, so that the attention's output has to be copied for the next product."""
    fused_gate: bool = False
    """Gate and up are one matrix."""
    narrow_softmax: bool = False
    """Stored scores are not widened to FP32 for their softmax, except by autocast."""
    wide_scores: bool = False
    """Query and key are widened to FP32 before stored scores are made of them."""
    sinks: bool = False
    """Scores have one more column, a learned logit a head, and the largest of a row is subtracted."""
    wide_router: bool = False
    """The router's product is made in FP32."""
    clamped_gate: bool = False
    """An expert's gate and up are clamped, the gate's sigmoid written out, and one added to up."""
    attention_dropout: bool = False
    inner_dropout: bool = False
    """Dropout stands before the MLP's last product."""
    narrow_norm_input: bool = False
    """RMSNorm multiplies its unwidened input, which is kept beside the widened copy (T5)."""
    capped_scores: bool = False
    narrow_loss: bool = False
    """The loss is computed of the logits as they are, without a copy in FP32."""
    wide_logits: bool = False
    """A bias in FP32 is added to the logits, which widens them under autocast."""
    capped_logits: bool = False
    """A soft cap (tanh) keeps its result."""
