"""Routed experts of a layer: how many a pass touches, and what their products take beside arithmetic and the reading of weights.

Symbols: r tokens of one rank · E experts · e experts a token is routed to · h width · f inner width of an expert.
"""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table

EXPERTS_S = 29e-6
"""Seconds of a layer's experts beside rates: choosing, sorting and gathering tokens, two grouped products, the activation, the weighted sum."""
ROUTED_TRAFFIC = {"16 bit": 3.8, "8 bit blocks": 6.1, "8 bit": 4.8, "4 bit": 2.2, "packed": 9.0}
"""Multiples of 2h + 3f elements a routed token by which that time grows with tokens: permutation, activation, rounding, and tiles that the tokens
of one expert do not fill. By what products compute in; "8 bit blocks": services, as mixtures are published with scales of blocks (3.9 with one scale a tensor); "8 bit": both
together, for training, whose recipes have either; "packed": weights that are unpacked to 16 bit, as those of 8 bit are where products compute in 16."""
TILES_SINCE, TILES_BEFORE = 10.0, 11.0
"""Compute capabilities of the Blackwell parts for which grouped products exist that activate and round their own outputs: each element is moved once."""
ALIKE = 0.88
"""Exponent of the tokens of a pass that choose experts unlike each other: by hand from the times of 256 experts of which 8 are chosen by a power law
of exponent 1.01 over those of all of them, 8 to 128 tokens (TensorRT-LLM 1.3 on an H200, tables as below)."""
NARROW_READ = 1.3
"""Rate at which grouped products read 4-bit weights that they compute in, over that of single ones.

All three: scripts/calibration/fit_experts.py on the timings of aiconfigurator-core 0.12.0 (2026-11-22): fused experts of vLLM 0.24, SGLang 0.5.14
and TensorRT-LLM 1.3 on Hopper, Blackwell and Ada, 1 to 16,384 tokens, balanced; median error 14 to 29 %;
one engine left out is met with a bias of 1 to 15 % in 16 and 8 bit, up to 37 % in 4 bit, and packed weights of TensorRT-LLM take twice as long.
Those of blocks apart (2026-11-26): 5.8 to 6.3 without one engine, which is then met with a bias of 2 to 5 %."""


def distinct_experts(t: Table, rows: Floats) -> Floats:
    """Experts of a layer that `rows` tokens of each rank touch: E·(1 - (1 - e/E)^r), r those of all ranks that share them, if routing were uniform.

    While serving, tokens prefer the same experts: as many are touched as by r^0.88 tokens.
    """
    experts, together = np.where(t.model.experts > 0, t.model.experts, 1.0), rows * t.layout.expert_streams
    together = np.where(t.job.train > 0, together, np.maximum(together, 1.0) ** ALIKE)
    touched: Floats = experts * (1 - (1 - np.minimum(1.0, t.model.experts_per_token / experts)) ** np.minimum(together, 1e6))
    return touched


def expert_split(t: Table) -> Floats:
    """Tensor-parallel ranks that share each expert."""
    return t.layout.expert_gpus / t.layout.ep


def imbalance(t: Table) -> Floats:
    """Tokens of the busiest of the ranks among which the experts are divided, over their mean.

    Training balances experts by its loss; while serving, tokens choose them by a power law: 1.2, 1.4, 1.7, 2.0 on 2, 4, 8, 16 ranks are the
    times over those of balanced experts at 16,384 tokens of an exponent of 1.01 (tables as above), without redundant experts.
    """
    usual = np.where(t.job.train > 0, 1.0, t.layout.ep**0.25)
    found: Floats = np.where(t.layout.ep > 1, np.where(t.job.expert_imbalance > 0, t.job.expert_imbalance, usual), 1.0)
    return found


def lock_step(t: Table, prompts: Floats) -> Floats:
    """Time of prompts where ranks that share experts pass the layers together, over that of prompts which all of them read at once.

    Of R ranks with a Poisson number of mean n = `prompts` in each step the busiest has about n + sqrt(2 n ln R), and all wait for it, if each
    rank takes its prompts when they come. Schedulers hold most of them back for the others: the fourth root of that, by hand. With the square root
    prompts of 8,192 tokens are 23 to 26 % too slow on TensorRT-LLM's page of 1.1 and 7 to 20 % in InferenceX (DeepSeek R1, 4 and 8 ranks), without it
    2 to 12 % too fast.
    """
    ranks = np.where(t.layout.expert_streams > 1, t.layout.expert_streams, 1.0)
    alone = np.minimum(ranks, 1 + np.sqrt(2 * np.log(ranks) / np.maximum(prompts, 1e-9)))
    factor: Floats = alone**0.25
    return factor


def routed_traffic_bytes(t: Table, rows: Floats) -> Floats:
    """Bytes whose movement takes as long as the experts of a layer beside their products, on one GPU."""
    m, j, s = t.model, t.job, t.layout
    four = (j.narrow_bytes > 0) & (j.expert_bytes < 1)
    unpacked = (j.weight_bits_packed > 0) | ((j.narrow_bytes == 0) & (j.expert_bytes < j.activation_bytes))
    wide = np.where(unpacked, ROUTED_TRAFFIC["packed"], ROUTED_TRAFFIC["16 bit"])
    eight = np.where(j.train > 0, ROUTED_TRAFFIC["8 bit"], ROUTED_TRAFFIC["8 bit blocks"])
    multiple = np.where(j.narrow_bytes > 0, np.where(four, ROUTED_TRAFFIC["4 bit"], eight), wide)
    tiles = (t.chip.compute_capability >= TILES_SINCE) & (t.chip.compute_capability < TILES_BEFORE)
    multiple = np.where((t.engine.fuses_experts > 0) & tiles & (j.narrow_bytes == 1), 1.0, multiple)
    routed = rows * s.expert_streams * m.experts_per_token / s.ep * imbalance(t)
    return multiple * routed * (2 * m.expert_width + 3 * m.expert_ffn / expert_split(t)) * j.activation_bytes
