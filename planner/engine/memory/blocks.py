"""What a block of each family does that its sizes do not say, as PyTorch code of that family computes it (transformers 5.23)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.workload.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Block:
    """Facts of one family's block that decide which tensors autograd keeps."""

    wide_norms: bool = False
    """RMSNorm multiplies by its weight in FP32, so that its normalised input is kept in FP32 too."""
    branch_norms: bool = False
    """A norm stands after attention and after the MLP, whose input is not the residual stream."""
    plain_input: bool = False
    """The projections read the residual stream itself: there is no norm before them."""
    parallel: bool = False
    """Attention and MLP read the same input."""
    activation: str = "gelu"
    """Of an MLP without gate: 'gelu' (one kernel), 'gelu-new' (written out: five tensors), 'relu' (keeps its result alone)."""
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
    capped_scores: bool = False
    capped_logits: bool = False
    """A soft cap (tanh) keeps its result."""


BLOCKS: dict[str, Block] = {
    "gpt2": Block(activation="gelu-new", narrow_softmax=True, attention_dropout=True),
    "bert": Block(attention_dropout=True),
    "gptj": Block(activation="gelu-new", parallel=True, joined_rotary=True, wide_scores=True),
    "phi": Block(activation="gelu-new", parallel=True, joined_rotary=True),
    "gpt_neox": Block(parallel=True, joined_rotary=True),
    "falcon": Block(parallel=True, narrow_softmax=True),
    "gpt_oss": Block(wide_norms=True, joined_rotary=True, narrow_softmax=True, sinks=True, clamped_gate=True),
    "deepseek_v2": Block(wide_router=True),
    "deepseek_v3": Block(wide_router=True),
    "opt": Block(activation="relu"),
    "phi3": Block(joined_rotary=True, fused_gate=True),
    "gemma2": Block(wide_norms=True, branch_norms=True, capped_scores=True, capped_logits=True),
    "gemma3": Block(wide_norms=True, branch_norms=True),
    "gemma3_text": Block(wide_norms=True, branch_norms=True),
    "olmo2": Block(wide_norms=True, branch_norms=True, plain_input=True),
}
"""Family -> its facts; a family that is not here is as Llama (or, with LayerNorms, as BERT)."""


def block_of(architecture: Architecture) -> Block:
    """The facts of a model's block."""
    return BLOCKS.get(architecture.family, Block())
