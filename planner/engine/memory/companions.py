"""Memory in addition to the model's: further models on the same GPUs, spread in the same way, and generation of answers between updates.

Symbols: C answers of one copy at once · A answers of one copy in a rollout.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Table, added
from planner.engine.memory.inference import kv_bytes_per_sequence
from planner.engine.memory.stages import micro_batches, stage_adapters, stage_parameters, trained_ranks, zero_ranks
from planner.engine.memory.terms import Term

_ALIKE = "spread over the same ranks as the model itself; their passes come one after the other, so activations do not add up"
POOL = "pool of the generating engine"
AWAKE = "the generating engine with one answer, beyond what the update needs"


def draft_cache_per_sequence(t: Table) -> Floats:
    """Bytes on one GPU that a draft model caches for one sequence at its end."""
    j, s = t.job, t.layout
    return j.draft_cached * (j.input_tokens + j.output_tokens) * j.kv_bytes / (s.tp * s.pp)


def companion_terms(t: Table) -> list[Term]:
    """Weights of frozen models and adapters, states of trained ones, the cache of drafts; empty if there are none."""
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


def generating_table(t: Table) -> Table:
    """Candidates while they generate: copies of the model over `rollout_tp` GPUs each, with C answers at once."""
    assert t.rollout_job is not None
    assert t.rollout_engine is not None
    s, j = t.layout, t.job
    one, none = np.ones(1), np.zeros(1)
    ranks = np.minimum(np.where(j.rollout_tp > 0, j.rollout_tp, s.tp), np.where(j.rollout_gpus > 0, j.rollout_gpus, s.gpus))
    copies = np.maximum(1.0, np.floor(np.where(j.rollout_gpus > 0, j.rollout_gpus, s.gpus) / ranks))
    layout = replace(s, tp=ranks, pp=one, cp=one, ep=one, dp=copies, gpus=ranks * copies, zero=none, shard=one, sequences=one)
    alone = replace(
        t, job=t.rollout_job, engine=t.rollout_engine, layout=layout, rollout_job=None, rollout_engine=None, source=None, tower=None
    )
    of_copy = answers_of_copy(t, copies)
    most = np.minimum(of_copy, np.where(alone.engine.most_sequences > 0, alone.engine.most_sequences, of_copy))
    fitting = np.floor(_room(t, alone) / cache_of_answer(alone))
    return replace(alone, layout=replace(layout, sequences=np.clip(fitting, 1.0, np.maximum(most, 1.0))))


def answers_of_copy(t: Table, copies: Floats) -> Floats:
    """A: the sequences of all optimizer steps on one rollout, divided among the copies."""
    every = t.layout.micro_batch * t.layout.dp * micro_batches(t) * t.job.rollout_steps
    return np.ceil(every / copies)


def cache_of_answer(g: Table) -> Floats:
    """Bytes of the cache of one answer with its prompt, at its end."""
    return np.maximum(kv_bytes_per_sequence(g, g.job.input_tokens + g.job.output_tokens), 1.0)


def rollout_terms(t: Table, terms: list[Term]) -> list[Term]:
    """Memory of generation beyond the `terms` of the update: the pool that an engine keeps, or what an engine that slept needs in addition."""
    if t.rollout_job is None:
        return []
    g = generating_table(t)
    together = (t.job.rolls > 0) & (t.job.rollout_gpus == 0)
    pool = np.where(together, t.job.rollout_share * t.chip.capacity_bytes, 0.0)
    update = added(term.bytes for term in terms)
    needed = _resident(t) + _engine_bytes(g) + cache_of_answer(g)
    awake = np.where(together & (t.job.rollout_share == 0), np.maximum(0.0, needed - update), 0.0)
    share = {"share": t.job.rollout_share, "capacity": t.chip.capacity_bytes}
    values = {"resident": _resident(t), "engine": _engine_bytes(g), "cache": cache_of_answer(g), "update": update}
    return [
        Term(
            "kv_cache", POOL, pool, "{share:percent} · {capacity:bytes}", share, "gpu_memory_utilization of vLLM beside a trainer"
        ),
        Term(
            "kv_cache",
            AWAKE,
            awake,
            "{resident:bytes} of states + {engine:bytes} of the engine + {cache:bytes} of cache - {update:bytes}",
            values,
            "sleep mode of vLLM: weights and cache are given back during updates",
        ),
    ]


def _room(t: Table, g: Table) -> Floats:
    """Bytes of a GPU for caches while it generates."""
    usable = t.chip.capacity_bytes * (1 - t.job.headroom)
    kept = np.where(t.job.rollout_gpus > 0, usable, usable - _resident(t))
    kept = np.where(t.job.rollout_share > 0, t.job.rollout_share * t.chip.capacity_bytes, kept)
    return kept - _engine_bytes(g)


def _resident(t: Table) -> Floats:
    """Weights and optimizer states of the model and its companions, which stay in memory between updates; gradients are freed."""
    j, stage = t.job, stage_parameters(t)
    weights = (stage.linear * j.linear_bytes + stage.other * j.other_bytes) / zero_ranks(t, 3)
    trained = np.where(j.adapters > 0, stage_adapters(t), stage.linear + stage.other)
    states = trained * (j.state_bytes + j.master_bytes) / trained_ranks(t, 1) * (1 - j.offload_optimizer)
    beside = [term.bytes for term in companion_terms(t) if term.component in {"weights", "optimizer"}]
    return added([weights, states, *beside]) + t.engine.context_bytes


def _engine_bytes(g: Table) -> Floats:
    """Weights of a copy on one GPU, and the other memory of the engine's process."""
    stage = stage_parameters(g)
    return stage.linear * g.job.linear_bytes + stage.other * g.job.other_bytes + g.engine.context_bytes
