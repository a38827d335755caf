"""What sequence parallelism gathers whole for the products of tensor-parallel ranks."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.step_phases import Phase
from planner.engine.memory.terms import Term


def gathered_tokens(t: Table, at: Phase, tokens: Floats) -> Term:
    """Whole tokens that sequence parallelism gathers for a product over ranks of tensor parallelism, beyond the share that is kept.

    A layer's backward holds the input, gathered again for the gradient of the weights, and the input's gradient before it is reduced and
    scattered; the head holds its input. Frozen weights need no input.
    """
    s = t.layout
    element = np.minimum(t.job.activation_bytes, 2.0)
    tensors = at.backward * (1.0 + (t.job.adapters == 0)) + at.head
    size = (s.tp - 1) * tensors * element * t.model.width * (t.engine.whole_between == 0)
    return Term(
        "activations",
        "gathered for tensor parallelism",
        tokens * size,
        "{tokens} tokens · {bytes} B each",
        {"tokens": tokens, "bytes": size},
        "sequence parallelism (arXiv:2205.05198 §4.2.2): all-gathered before a product, reduce-scattered after it",
    )
