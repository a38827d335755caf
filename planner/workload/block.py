"""Facts about a block's code that do not follow from its sizes, as PyTorch computes it in transformers 5.23."""

import msgspec


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about the code of one family's block that decide which tensors autograd keeps; the defaults are those of Llama."""

    wide_norms: bool = False
    """True if RMSNorm multiplies by its weight in FP32 and so keeps its normalised input in FP32; LayerNorm reads a copy in FP32."""
    written_norms: bool = False
    """True if LayerNorm is computed by separate operators in FP32, which keep the centred input twice (square, product) and the normalised one."""
    branch_norms: bool = False
    """True if a norm follows attention and the MLP, whose input is then not the residual stream."""
    plain_input: bool = False
    """True if the projections read the residual stream itself, without a norm before them."""
    parallel: bool = False
    """True if attention and MLP read the same input."""
    repeated_keys: bool = False
    """True if keys and values are copied for each query head before the attention kernel."""
    activation: str = "gelu"
    """Activation of an MLP without gate, or of the gate where it is 'gelu-new': 'gelu' (one kernel), 'gelu-new' (separate operators: five
    tensors), 'relu' (keeps only its result), 'relu2' (its square, too), 'xielu' (a mask and four more tensors)."""
    joined_rotary: bool = False
    """True if rotated and other parts of a head are joined, so that the attention's output has to be copied for the next product."""
    fused_gate: bool = False
    """True if gate and up are one matrix."""
    narrow_softmax: bool = False
    """True if stored scores stay in 16 bit for their softmax, except under autocast."""
    wide_scores: bool = False
    """True if query and key are widened to FP32 before stored scores are computed."""
    sinks: bool = False
    """True if scores have one more column, a learned logit per head, and the largest of a row is subtracted."""
    wide_router: bool = False
    """True if the router's product is computed in FP32."""
    clamped_gate: bool = False
    """True if an expert's gate and up are clamped, with the gate's sigmoid as a separate operator, and one added to up."""
    attention_dropout: bool = False
    inner_dropout: bool = False
    """True if a dropout precedes the MLP's last product."""
    narrow_norm_input: bool = False
    """True if RMSNorm multiplies its 16-bit input, which is kept in addition to the widened copy (T5)."""
    capped_scores: bool = False
    narrow_loss: bool = False
    """True if the loss is computed from the logits without a copy in FP32."""
    wide_logits: bool = False
    """True if a bias in FP32 is added to the logits, which widens them under autocast."""
    capped_logits: bool = False
    """True if a soft cap (tanh) keeps its result."""
