"""Shapes of the matrix products of a model for the benchmark: (m, n, k) = tokens, outputs, inputs."""

from __future__ import annotations

from planner.workload.architecture import Architecture

DECODING_TOKENS, PROMPT_TOKENS = 16, 2048
"""Values of m: a small decoding batch, and a chunk of prompts or a micro batch of training."""


def product_shapes(a: Architecture) -> tuple[tuple[int, int, int], ...]:
    """The distinct products of one layer and the head, those of many tokens first; one expert stands for all."""
    matrices = [(a.query, a.width), (a.key, a.width), (a.width, a.query)]
    if a.dense_layers or not a.experts:
        matrices += [(a.ffn, a.width), (a.width, a.ffn)]
    if a.experts:
        matrices += [(a.expert_ffn, a.expert_width), (a.expert_width, a.expert_ffn)]
    matrices.append((a.vocabulary, a.width))
    sized = dict.fromkeys((outputs, inputs) for outputs, inputs in matrices if outputs > 0 and inputs > 0)
    return tuple((m, n, k) for m in (PROMPT_TOKENS, DECODING_TOKENS) for n, k in sized)
