"""Training sequences as the GPU computes them: filled with documents, or with one document and padding.

Symbols: S tokens of a sequence · l tokens kept of a document · n sequences that are padded to the longest of them, whose length has the
mean ∫ (1 - P(l ≤ x)^n) dx from 0 to S.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import micro_batches

_DEVIATIONS = np.linspace(-6.0, 6.0, 65)[:, None]
"""Standard deviations of the logarithm of a length at which integrals over lengths are evaluated."""
_BELOW = np.array(
    [[math.erfc(-(low + high) / 2 / math.sqrt(2)) / 2] for low, high in zip(_DEVIATIONS[:-1, 0], _DEVIATIONS[1:, 0], strict=True)]
)
"""Share of a normal distribution below the middle of each step."""


class Sequences(msgspec.Struct, frozen=True):
    """Mean training sequence of a micro batch; each broadcasts to [rows]."""

    computed: Floats
    """Computed tokens, including padding, on the rank that the others wait for."""
    useful: Floats
    """Tokens of documents among them, the mean over ranks."""
    context: Floats
    """Mean number of tokens that a computed token attends to."""
    own_context: Floats
    """Mean number of tokens that a document's token attends to: without padding, and in its own document unless documents are joined."""


def sequences_of(t: Table) -> Sequences:
    """Sequences of every candidate; whole ones without padding where the workload states no documents."""
    j = t.job
    half = j.sequence / 2
    own = np.where(j.document_tokens > 0, j.document_context, half)
    computed, context = _longest(t) if np.any(j.to_longest) else (j.sequence, half)
    padded = j.one_document > 0
    apart = (j.separate_documents > 0) & (j.eager_attention == 0)  # stored scores are masked, not left out
    return Sequences(
        computed=computed,
        useful=np.where(padded, np.minimum(j.document_tokens, computed), computed),
        context=np.where(apart, own, context),
        own_context=np.where(padded | (j.separate_documents > 0), own, half),
    )


def _longest(t: Table) -> tuple[Floats, Floats]:
    """(tokens, context) of sequences that are as long as the longest of their micro batch.

    Ranks that exchange weights or gradients in every micro batch wait for the longest of all of them. Other ranks wait once in a step of M
    micro batches, over which their sums differ less, by the root of M.
    """
    j, s = t.job, t.layout
    rounds = np.where(s.zero >= 2, 1.0, np.sqrt(micro_batches(t)))
    (own, square), (of_all, square_of_all) = _largest(t, s.micro_batch), _largest(t, s.micro_batch * s.dp)
    tokens, square = own + (of_all - own) / rounds, square + (square_of_all - square) / rounds
    longest = j.to_longest > 0
    return np.where(longest, tokens, j.sequence), np.where(longest, square / (2 * tokens), j.sequence / 2)


def _largest(t: Table, count: Floats) -> tuple[Floats, Floats]:
    j = t.job
    return longest_of(count, j.document_log_mean, j.document_log_spread, j.sequence)


def longest_of(count: Floats, log_mean: Floats, log_spread: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Means of the longest of `count` log-normal lengths cut at `most`, and of its square: sums over steps, whose low ends 1 - P^n pass."""
    lengths = np.minimum(np.exp(log_mean + log_spread * _DEVIATIONS), most)
    longer = 1 - _BELOW ** np.maximum(count, 1.0)
    mean, square = (powers[0] + np.sum(longer * np.diff(powers, axis=0), axis=0) for powers in (lengths, lengths**2))
    return mean, square
