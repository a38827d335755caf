"""Memory of a candidate: its terms added up, and compared with the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from planner.engine.answers.memory import MEMORY_COMPONENTS, MemoryParts
from planner.engine.columns import Flags, Floats, Rows, Table, added
from planner.engine.columns.limits import chunk_tokens, most_sequences
from planner.engine.memory.companions import companion_terms, draft_cache_per_sequence, rollout_terms
from planner.engine.memory.host import host_bytes
from planner.engine.memory.inference import (
    WEIGHTS,
    cached_prefix_bytes,
    inference_terms,
    pool_bytes_per_sequence,
    prefix_bytes,
    prompt_pass,
)
from planner.engine.memory.overhead import overhead_terms
from planner.engine.memory.stages import linear_weights_bytes, logit_entries, micro_batches, stage_parameters, zero_ranks
from planner.engine.memory.terms import Term, component_bytes
from planner.engine.memory.training import training_terms
from planner.engine.records.chip import ChipNumbers
from planner.engine.records.engine import EngineNumbers
from planner.engine.records.job import JobNumbers
from planner.workload.published.spreads import ENGINE_OPEN, PROGRAM_OPEN, published_spreads

N = TypeVar("N", float, Floats)
COMING_AND_GOING = ("activations", "logits", "buffers", "overhead")
TRANSIENT = "share of the memory that comes and goes"
MAY_DIVIDE = "optimizer states that replicas may divide, gradients that may be 16 bit, or a loss that may be compiled"
"""Fact that lowers the low end of a range; its amount is the logarithm of the total over the total without these states."""
SEVERAL_THAT_TRAIN = "training over several GPUs"
"""Fact that widens ranges of training over several GPUs, whose engines shard and gather differently; weights of inference are divided exactly."""
MAY_KEEP = "gradients that FSDP may keep, weights and states in FP32, or whole logits"
"""Fact that raises the high end of a range; its amount is the logarithm of the total with these bytes over the total."""
GROWING = "cache that grows token by token"
"""Fact that raises the high end of a range; its amount is the logarithm of the total with a second cache over the total. Blocks of earlier
sizes of a growing tensor may stay reserved, or not: for one model, engine and GPU, batches of 4, 8 and 16 were published with 17, 65 and 26
GB. Of 0, 1, 2, 4 and 8 caches 0 and 1 have the same interval score, each source left out (0.74), and 1 covers 89 % instead of 86 %
(published folder, 2026-11-26)."""


STEEP, MEETING_STEPS = 0.9, 4
"""Share of the sequences that fit alone below which what grows with them counts, and steps towards the number that fits with it."""


class MemoryColumns(MemoryParts[Floats], frozen=True, dict=True):
    """Memory of candidates, shape [rows]; the components add up to `total`."""

    total: Floats
    above: Floats
    """Logarithm of the upper end of the range (90 %) ÷ `total`."""
    below: Floats
    """Logarithm of `total` ÷ the lower end."""
    may_divide: Floats
    """Optimizer states that every replica keeps whole in this layout but the program may divide, half of gradients in FP32, and logits of a
    loss that may be compiled: the low end of the range is without them."""
    may_keep: Floats
    """Bytes that a program may keep under FSDP or tensor parallelism if it is not named (`_may_flatten`, `_may_widen`, `_may_hold`,
    `_may_gather`), logits of a loss that may not be compiled, or a cache that grew (`GROWING`): included in `above`."""
    usable: Floats
    """Bytes that the job may use; see `usable_bytes`."""
    kv_per_sequence: Floats
    """Cache of one sequence of full length, without what it shares."""
    kv_shared: Floats
    """Prefixes that sequences share, included in `kv_cache`."""
    host: Floats
    """Memory of the host per GPU; 0 if nothing is offloaded."""

    @cached_property
    def fits(self) -> Flags:
        """True if the job needs no more than it may use."""
        return self.total <= self.usable

    @cached_property
    def max_sequences(self) -> Floats:
        """Whole sequences whose cache fits with everything else; NaN if none is kept (training)."""
        return _whole_sequences(self.usable, self.total - self.kv_cache, self.kv_per_sequence, self.kv_shared)

    def at(self, index: Rows, usable: Floats) -> MemoryColumns:
        """Memory of candidates, each with the need of row `index` and the limit `usable`."""
        return replace(MemoryColumns(*(getattr(self, name)[index] for name in self.__struct_fields__)), usable=usable)


def sequences_that_fit(t: Table) -> Floats:
    """Sequences that fit at once, whole and at least one, with all that grows with them; infinite if no cache is kept.

    The memory that is free for caches falls nearly linearly with the sequences in flight. Where it hardly falls, the answer is computed
    from what is left at the number that fits alone. Where it falls steeply, the answer is where both numbers meet, by the rule of false position.
    """
    each, shared = _cache_of_sequence(t)

    def beside(sequences: Floats) -> Floats:
        parts, total = _parts_of(terms_of(replace(t, layout=replace(t.layout, sequences=sequences))), t.rows)
        taken = total - parts["kv_cache"]
        return _whole_sequences(usable_bytes(t, taken), taken, each, shared)

    alone = np.broadcast_to(beside(np.ones(t.rows)), (t.rows,))
    known = np.isfinite(alone)
    alone = np.where(known, np.maximum(alone, 1.0), 1.0)
    tried, left = alone, np.maximum(np.where(known, beside(alone), 1.0), 1.0)
    steep = left < STEEP * alone
    found = left
    for _ in range(MEETING_STEPS):
        apart = steep & (left < tried)
        if not apart.any():
            break
        slope = (left - alone) / np.maximum(tried - 1.0, 1e-9)
        tried = np.where(apart, np.maximum(np.floor((alone - slope) / (1.0 - slope)), 1.0), tried)
        left = np.maximum(np.where(known, beside(tried), 1.0), 1.0)
        found = np.where(steep, np.minimum(tried, left), found)
    return np.where(known, found, np.inf)


def _whole_sequences(usable: Floats, beside: Floats, each: Floats, shared: Floats) -> Floats:
    """Sequences of `each` bytes of cache that fit with the `shared` ones and everything else; NaN if none is kept."""
    kept = each > 0
    free = usable - beside - shared
    return np.where(kept, np.maximum(0, np.floor(free / np.where(kept, each, 1))), np.nan)


def _cache_of_sequence(t: Table) -> tuple[Floats, Floats]:
    """(bytes of the cache of one sequence of full length without what it shares, bytes of the prefixes that sequences share)."""
    prefix = prefix_bytes(t)
    each = pool_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens) - prefix + draft_cache_per_sequence(t)
    return each, t.job.prefixes * prefix


def _parts_of(terms: list[Term], rows: int) -> tuple[dict[str, Floats], Floats]:
    """(component -> the bytes of its `terms`, their total), shape [rows]."""
    parts = {name: component_bytes(terms, name, rows) for name in MEMORY_COMPONENTS}
    return parts, added(parts.values())


def terms_of(t: Table) -> list[Term]:
    """All terms; either all rows train, or none does."""
    train = bool(t.job.train[0])
    terms = training_terms(t) if train else inference_terms(t)
    terms = terms + companion_terms(t) + overhead_terms(t, terms)
    terms += rollout_terms(t, terms)
    if np.any(t.engine.sampler_bytes) and not train:
        terms.append(_warm_up(t, terms))
    if train or not np.any(t.job.offload_parameters):
        return terms
    away = _excess_weights(t, terms)
    return [_less(term, away) if term.name == WEIGHTS else term for term in terms]


def _warm_up(t: Table, terms: list[Term]) -> Term:
    """Bytes that an engine allocates at its start for the largest pass and the most requests it admits, beyond the temporaries among `terms`.

    vLLM computes both before it gives the rest to the cache. Where its usual number of requests leaves no room and none is given, it is
    started with that of small GPUs ("Please try lowering `max_num_seqs`").
    """
    passing = added(term.bytes for term in terms if term.component in {"activations", "logits"})
    beside = added(term.bytes for term in terms if term.component != "kv_cache") - passing
    prompts = np.maximum(chunk_tokens(t) * prompt_pass(t).per_token, passing)
    logits = t.model.vocabulary * t.engine.sampler_bytes
    most = most_sequences(t)
    tried = np.maximum(most * logits, prompts)
    starts = beside + tried + sum(_cache_of_sequence(t)) <= usable_of(t.chip, t.job)
    chosen = (t.job.max_num_seqs == 0) & (t.engine.small_sequences > 0)
    fewest = np.where(chosen, np.minimum(most, t.engine.small_sequences), most)
    tried = np.where(starts, tried, np.maximum(fewest * logits, prompts))
    tried = np.where(t.engine.sampler_bytes > 0, tried, passing)
    return Term(
        "logits",
        "what the engine tries before it takes its cache",
        tried - passing,
        "{tried:bytes} - {passing:bytes} of the above",
        {"tried": tried, "passing": passing},
        "the most tokens at once, and sampling for the most requests: logits, their FP32 copy and what sorts them (vLLM: profile_run); as many requests as on small GPUs "
        "where its usual number leaves no room",
    )


def weights_on_host(t: Table) -> Floats:
    """Bytes of its layers' weights that a GPU keeps in the host's memory while generating: as many as do not fit, if offloading is on."""
    if t.job.train[0] or not np.any(t.job.offload_parameters):
        return np.zeros(1)
    terms = inference_terms(t)
    return _excess_weights(t, terms + companion_terms(t) + overhead_terms(t, terms))


def _excess_weights(t: Table, terms: list[Term]) -> Floats:
    """Bytes of weights of layers without which `terms` fit."""
    total = added(term.bytes for term in terms)
    taken = added(term.bytes for term in terms if term.component != "kv_cache")
    most = linear_weights_bytes(t)
    return np.clip(np.ceil(total - usable_bytes(t, taken)) + 1.0, 0.0, most) * t.job.offload_parameters


def _less(term: Term, away: Floats) -> Term:
    """The weights without those in the host's memory."""
    formula = f"{term.formula} - {{away:bytes}} in the host's memory"
    return replace(term, bytes=term.bytes - away, formula=formula, values={**term.values, "away": away})


def memory_of(t: Table) -> MemoryColumns:
    """Memory of every candidate."""
    parts, total = _parts_of(terms_of(t), t.rows)
    train, nothing = bool(t.job.train[0]), np.zeros(t.rows)
    otherwise = _loss_otherwise(t) if train else nothing
    may_keep = (
        _may_flatten(t) + _may_widen(t) + _may_hold(t) + _may_gather(t, parts["logits"]) + np.maximum(otherwise, 0.0)
        if train
        else t.engine.cache_grows * parts["kv_cache"]
    )
    spread, skew = _spread(t, parts, total)
    host = host_bytes(t) if train else weights_on_host(t) + t.job.host_prefixes * cached_prefix_bytes(t)
    each, shared = _cache_of_sequence(t)
    return MemoryColumns(
        **parts,
        total=total,
        above=spread * (1 + skew) + np.log1p(may_keep / total),
        below=spread * (1 - skew),
        may_divide=_may_divide(t, parts["optimizer"], parts["gradients"]) + np.maximum(-otherwise, 0.0) if train else nothing,
        may_keep=may_keep,
        usable=np.broadcast_to(usable_bytes(t, total - parts["kv_cache"]), (t.rows,)),
        kv_per_sequence=np.broadcast_to(each, (t.rows,)),
        kv_shared=np.broadcast_to(shared, (t.rows,)),
        host=np.broadcast_to(host, (t.rows,)),
    )


def _may_divide(t: Table, states: Floats, gradients: Floats) -> Floats:
    """Bytes of `states` and `gradients` that a program which is not named may not keep, because reports seldom state it.

    Most divide states among replicas (ZeRO 1). With master weights DeepSpeed, NeMo and Megatron-Bridge keep gradients in 16 bit, Megatron in FP32.
    """
    s, j = t.layout, t.job
    replicas = np.maximum(s.dp * s.cp, 1.0)
    divided = np.where((s.zero == 0) & (j.offload_optimizer == 0), states * (1 - 1 / replicas), 0.0)
    narrower = np.where((j.master_bytes > 0) & (j.adapters == 0) & (j.gradient_bytes >= 4), gradients / 2, 0.0)
    return np.broadcast_to(np.where(j.engine_open + j.program_open > 0, divided + narrower, 0.0), (t.rows,))


def _may_flatten(t: Table) -> Floats:
    """Bytes of gradients of frozen weights in 16 bit under FSDP, where the program is not named.

    FSDP's first version gives frozen and trained weights of a block one flat tensor, with use_orig_params too, "which leads to larger gradient memory"
    (docs.pytorch.org, FullyShardedDataParallel); LitGPT does so, torchtune and PEFT's wrap policy do not.
    """
    s, j, stage = t.layout, t.job, stage_parameters(t)
    sharded = (s.zero >= 3) & (s.shard > 1) & (j.adapters > 0) & (j.linear_bytes >= 2) & (t.engine.flat_gradients == 0)
    over = np.where(micro_batches(t) > 1, 1.0, zero_ranks(t, 2))
    kept = (stage.linear + stage.other) * np.minimum(j.gradient_bytes, j.linear_bytes) / over
    return np.broadcast_to(np.where(sharded & (j.engine_open + j.program_open > 0), kept, 0.0), (t.rows,))


def _may_widen(t: Table) -> Floats:
    """Bytes of weights, gradients and states stated as 16-bit that accelerate makes FP32 under FSDP, unless it runs without mixed precision.

    "Upcasted low precision parameters because mixed precision turned on in FSDP" (accelerate: Accelerator.prepare_model, fsdp2_prepare_model).
    """
    s, j, stage = t.layout, t.job, stage_parameters(t)
    narrow = (j.adapters == 0) & (j.linear_bytes == 2) & (j.master_bytes == 0)
    sharded = (s.zero >= 3) & (s.shard > 1) & narrow & (t.engine.accelerates > 0)
    states = j.state_bytes * (j.offload_optimizer == 0)
    doubled = (stage.linear + stage.other) * (j.linear_bytes + j.gradient_bytes + states) / zero_ranks(t, 3)
    return np.broadcast_to(np.where(sharded & (j.engine_open + j.program_open > 0), doubled, 0.0), (t.rows,))


def _may_hold(t: Table) -> Floats:
    """Bytes of whole gradients in 16 bit that the allocator may hold after FSDP's first version freed them; accelerate uses that version by default."""
    s, stage = t.layout, stage_parameters(t)
    freed = (s.zero >= 3) & (s.shard > 1) & (t.job.adapters == 0) & (t.engine.accelerates > 0) & (t.engine.stream_gradients == 0)
    whole = (stage.linear + stage.other) * np.minimum(t.job.gradient_bytes, 2.0) * (1 - 1 / zero_ranks(t, 2))
    return np.broadcast_to(np.where(freed & (t.job.engine_open + t.job.program_open > 0), whole, 0.0), (t.rows,))


def _may_gather(t: Table, logits: Floats) -> Floats:
    """Bytes of the other ranks' `logits` where the program is not named: PyTorch's tensor parallelism gathers them unless the loss is parallel.

    output_layouts=Replicate() (pytorch.org, TP_tutorial), "lm_head": "colwise_rep" (transformers' _tp_plan); Megatron's loss and
    torchtitan's are parallel.
    """
    asked = t.engine.gathers_logits * (t.job.engine_open + t.job.program_open > 0)
    return np.broadcast_to(logits * (t.layout.tp - 1) * asked, (t.rows,))


def _loss_otherwise(t: Table) -> Floats:
    """Bytes of logits that a compiled loop of PyTorch takes more if it leaves the loss outside of what it compiles, less (negative) if it does not.

    torchtitan compiled the loss with the layers until 2024-12 and again from 2025-04, and did not between (pytorch/torchtitan#755, #1033).
    """
    return np.broadcast_to(t.footprint.logits_otherwise * logit_entries(t), (t.rows,))


def usable_bytes(t: Table, taken: Floats) -> Floats:
    """Bytes that the job may use of each GPU; `taken` of them are for everything but its cache."""
    return usable_of(t.chip, t.job) + share_beside(t.job, t.engine) * taken


def usable_of(chip: ChipNumbers[N], job: JobNumbers[N]) -> N:
    """Bytes that `job` may use of `chip`: capacity · engine fraction · (1 - headroom), and more where the fraction is one of free memory."""
    return chip.capacity_bytes * job.memory_fraction * (1 - job.headroom)


def share_beside(job: JobNumbers[N], engine: EngineNumbers[N]) -> N:
    """Share of all but the cache that does not count for the engine's fraction, where that is one of the free memory."""
    return engine.pool_of_free * (1 - job.memory_fraction) * (1 - job.headroom)


def memory_facts(t: Table, parts: Mapping[str, Floats], total: Floats) -> dict[str, Floats]:
    """Cause of a wider range of `total` -> its amount in each row."""
    several: Floats = np.where((t.job.train > 0) & (t.layout.gpus > 1), 1.0, 0.0)
    mixture: Floats = np.where(t.model.experts > 0, 1.0, 0.0)
    transient = added(parts[name] for name in COMING_AND_GOING) / total
    packed: Floats = np.where(t.job.linear_bytes < 2, 1.0, 0.0)
    named = {ENGINE_OPEN: t.job.engine_open, PROGRAM_OPEN: t.job.program_open}
    return {
        TRANSIENT: transient,
        SEVERAL_THAT_TRAIN: several,
        "mixture of experts": mixture,
        "weights below 16 bit": packed,
        **named,
    }


def _spread(t: Table, parts: Mapping[str, Floats], total: Floats) -> tuple[Floats, float]:
    """Half width of the logarithm of `total`, from published peaks and this user's own, and how much further up it reaches than down."""
    kind, own = "inference memory", t.chip.own_inference_memory
    if t.job.train[0]:
        kind, own = "training memory", t.chip.own_training_memory
    published = published_spreads()
    return published.half_width(kind, memory_facts(t, parts, total)) * own, published.kinds[kind].skew
