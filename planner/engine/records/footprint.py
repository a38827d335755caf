"""Bytes that a training job keeps per token and per parameter, whatever hardware it is spread over."""

from __future__ import annotations

from typing import Generic

import msgspec

from planner.engine.records.fields import N, default


class ActivationBytes(msgspec.Struct, Generic[N], frozen=True, kw_only=True):
    """Bytes one token leaves behind for backward, the mean over the layers; see `memory.activations`."""

    norms: N = default(0.0)
    attention: N = default(0.0)
    """Attention without stored scores."""
    scores: N = default(0.0)
    """Stored attention scores, which selective recomputation does not keep."""
    mlp: N = default(0.0)
    """MLP, or router and experts."""
    dropout: N = default(0.0)
    boundary: N = default(0.0)
    """Input of a layer: all that full checkpointing keeps."""
    by_operators: N = default(0.0)
    """Bytes of a layer that checkpointing by operators keeps."""
    not_taken_back: N = default(0.0)
    """Part of it that computing the layer again does not use: input, and output of its last product."""
    backward: N = default(0.0)
    """Largest temporaries of a layer's backward beyond what it has freed by then."""
    head: N = default(0.0)
    """After the last layer: final norm and the head's input, logits apart."""


class Footprint(ActivationBytes[N], frozen=True, kw_only=True):
    """Bytes of one training job, or columns of many; 0 in every field for inference."""

    recomputed_products: N = default(0.0)
    """Share of the layers' products that checkpointing by operators computes again."""
    recomputed_exchange: N = default(0.0)
    """Share of a forward pass's exchange between GPUs that checkpointing by operators repeats."""
    attention_recomputed: N = default(0.0)
    """`attention` where the scores are computed again in backward."""
    source: N = default(0.0)
    """Bytes that a token an encoder reads leaves in all of its layers, in its output, and in the layers of the decoder that attend to it."""
    source_recomputed: N = default(0.0)
    """The same without stored scores, which are computed again in backward."""
    source_boundary: N = default(0.0)
    """The same where whole layers of both stacks are computed again in backward."""
    source_layer: N = default(0.0)
    """Bytes that it leaves in one layer of the encoder."""
    source_crossing: N = default(0.0)
    """Bytes that its keys and values take in one layer of the decoder."""
    source_backward: N = default(0.0)
    """Largest temporaries of the backward pass of an encoder's layer, as `backward`."""
    logits_alive: N = default(0.0)
    """Bytes per token and vocabulary entry that the training loop holds until its backward pass is over."""
    logits_forward: N = default(0.0)
    """Further bytes per token and vocabulary entry when the loss has just been computed."""
    logits_backward: N = default(0.0)
    """Further bytes per token and vocabulary entry when backward starts."""
    logits_gradient: N = default(0.0)
    """Further bytes per token and vocabulary entry while the head's gradient is computed."""
    logits_otherwise: N = default(0.0)
    """Bytes per token and vocabulary entry that the loss takes more if torch.compile treats it otherwise than assumed, less if negative; 0 if that is known."""
    loss_traffic: N = default(0.0)
    """Bytes per token and vocabulary entry that the loss reads and writes, forward and backward."""
    head_gradient: N = default(0.0)
    """Bytes per parameter of the head that its gradient takes while it is made."""
    head_product: N = default(0.0)
    """Part of `head_gradient` that the product makes before it is cast."""
    early_gradient: N = default(0.0)
    """`head_product` of a loss that comes in pieces: it is made while the loss still stands."""
    arriving_gradient: N = default(0.0)
    """Bytes per parameter of a gradient before it is added to the one that is kept."""
    step: N = default(0.0)
    """Bytes per trained parameter of the optimizer's temporaries."""
    step_matrix: N = default(0.0)
    """Bytes of the optimizer's temporaries for the largest matrix."""
    layer_matrix: N = default(0.0)
    """Parameters of a layer's largest matrix."""
