"""Terms of further models on the same GPUs; they are spread as the workload's own model is."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.memory.stages import zero_ranks
from planner.engine.memory.terms import Term

_ALIKE = "spread over the same ranks as the model itself; their passes come one after the other, so activations do not add up"


def draft_cache_per_sequence(t: Table) -> Floats:
    """Bytes on one GPU that a draft model caches of one sequence at its end."""
    j, s = t.job, t.layout
    return j.draft_cached * (j.input_tokens + j.output_tokens) * j.kv_bytes / (s.tp * s.pp)


def companion_terms(t: Table) -> list[Term]:
    """Weights of frozen models and adapters, states of trained ones, the cache of drafts; nothing where there are none."""
    j, s = t.job, t.layout
    if not np.any(j.frozen_bytes + j.trained_beside + j.adapter_bytes):
        return []
    split = s.tp * s.pp
    over_weights = zero_ranks(t, 3)
    tokens = j.input_tokens + j.output_tokens
    trained = j.trained_beside / split
    return [
        Term(
            "weights",
            "further models, frozen",
            j.frozen_bytes / split / over_weights,
            "{frozen:bytes} ÷ {split} ranks ÷ {ranks} ranks",
            {"frozen": j.frozen_bytes, "split": split, "ranks": over_weights},
            _ALIKE,
        ),
        Term(
            "weights",
            "adapters loaded",
            j.adapter_bytes / split,
            "{adapters:bytes} ÷ {split} ranks",
            {"adapters": j.adapter_bytes, "split": split},
            "rank · (inputs + outputs) of every adapted matrix, in 16 bit",
        ),
        _states("weights", "critic", trained, j.other_bytes, over_weights),
        _states("gradients", "gradients of the critic", trained, j.gradient_bytes, zero_ranks(t, 2)),
        _states("optimizer", "optimizer states of the critic", trained, j.state_bytes + j.master_bytes, zero_ranks(t, 1)),
        Term(
            "kv_cache",
            "keys and values of the draft model",
            draft_cache_per_sequence(t) * s.sequences,
            "{sequences} sequences · {tokens} tokens · {elements} elements · {kv_bytes} B ÷ {split} ranks",
            {"elements": j.draft_cached, "tokens": tokens, "kv_bytes": j.kv_bytes, "sequences": s.sequences, "split": split},
            "all layers of the draft cache what the model itself caches",
        ),
    ]


def _states(component: str, name: str, trained: Floats, size: Floats, ranks: Floats) -> Term:
    values = {"trained": trained, "size": size, "ranks": ranks}
    return Term(component, name, trained * size / ranks, "{trained} parameters · {size} B ÷ {ranks} ranks", values, _ALIKE)
