"""Memory of a process beyond PyTorch's own peak: its context, the buffers of communicators, and unused blocks of the allocator."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.memory.inference import prompt_pass, unused_blocks
from planner.engine.memory.stages import stage_parameters, zero_ranks
from planner.engine.memory.terms import COMMUNICATOR_RECORD, CONTEXT_RECORD, SLACK_RECORD, Term
from planner.engine.records.engine import BARE_CONTEXT_BYTES
from planner.units import GIB

CPU_PROCESS_BYTES = 0.4 * GIB
"""An interpreter with torch loaded (0.22-0.3 GiB resident) and its thread pools."""
UNUSED = "reserved by the allocator and not used"


def overhead_terms(t: Table, terms: list[Term]) -> list[Term]:
    """Context, communicators and unused blocks in addition to `terms`."""
    s, e = t.layout, t.engine
    train = bool(t.job.train[0])
    ranks = s.gpus if train else s.expert_gpus * s.pp * s.cp
    return [
        _context(t),
        Term(
            "overhead",
            "communicators",
            e.communicator_bytes * (ranks > 1),
            "{communicator:bytes}",
            {"communicator": e.communicator_bytes},
            COMMUNICATOR_RECORD,
        ),
        training_slack(t, terms) if train else _inference_slack(t, terms),
    ]


def _context(t: Table) -> Term:
    """Context measured on the GPU and what the engine adds to a plain process; where it is not measured, the engine's record."""
    measured, on_cpu = t.chip.context_bytes, t.chip.is_cpu > 0
    unmeasured = np.isnan(measured)
    added_by_engine = np.where(on_cpu, 0.0, np.maximum(0.0, t.engine.context_bytes - BARE_CONTEXT_BYTES))
    recorded = np.where(on_cpu, CPU_PROCESS_BYTES, t.engine.context_bytes)
    total = np.where(unmeasured, recorded, measured) + np.where(unmeasured, 0.0, added_by_engine)
    formula = "{context:bytes} context + {graphs:bytes} graphs and libraries" if np.any(added_by_engine) else "{context:bytes}"
    values = {"context": total - added_by_engine, "graphs": added_by_engine}
    return Term("overhead", "context, libraries and graphs", total, formula, values, _source(measured, CONTEXT_RECORD))


def _source(measured: Floats, record: str) -> str:
    """Source of a figure that is `measured` on some GPUs (NaN: not) and in the engine's `record` for the others."""
    known = ~np.isnan(measured)
    if known.all():
        return "measured on this part"
    return f"measured where the part was, else {record}" if known.any() else record


def training_slack(t: Table, terms: list[Term]) -> Term:
    """Allocator's slack above everything that comes and goes: recomputed activations count one and a half times, and whole gradients too.

    It broadcasts like `terms`, which may be those of several phases.
    """
    dynamic = added(term.bytes for term in terms if term.component in {"activations", "logits", "gradients"})
    recomputed = added(term.bytes for term in terms if term.component == "activations")
    usual = np.where(np.isnan(t.chip.allocator_slack), t.engine.slack, t.chip.allocator_slack)
    held = _stream_gradients(t) + _freed_gradients(t, terms)
    dynamic = dynamic + 0.5 * recomputed * (t.layout.checkpointing > 1)
    return Term(
        "overhead",
        UNUSED,
        usual * dynamic + held,
        "{slack:percent} · {dynamic:bytes} + {held:bytes}",
        {"slack": usual, "dynamic": dynamic, "held": held},
        _source(t.chip.allocator_slack, SLACK_RECORD),
    )


def _stream_gradients(t: Table) -> Floats:
    """Blocks of whole gradients, less this rank's share, where FSDP frees them on another stream than the one that allocates them."""
    j, s = t.job, t.layout
    sharded = (t.engine.stream_gradients > 0) & (s.zero >= 3) & (s.shard > 1) & (j.adapters == 0)
    stage = stage_parameters(t)
    whole = (stage.linear + stage.other) * np.minimum(j.gradient_bytes, 2.0)
    return np.where(sharded, whole * (1 - 1 / zero_ranks(t, 2)), 0.0)


def _freed_gradients(t: Table, terms: list[Term]) -> Floats:
    """Blocks of the previous step whose gradients are not among `terms`, where ranks divide them by FSDP2.

    The reduce-scatter writes a rank's share on a stream of its own (torch.distributed.fsdp: foreach_reduce), and the allocator gives the
    blocks of one stream to no other. torchtitan reserves 15.6 to 17.6 bytes per parameter less in three of four pairs of runs with more
    ranks, though 12 are alive as backward starts.
    """
    j, s, stage = t.job, t.layout, stage_parameters(t)
    shared = (t.engine.keeps_freed_gradients > 0) & (s.zero >= 3) & (s.shard > 1) & (j.adapters == 0) & (j.in_backward == 0)
    every = (stage.linear + stage.other) * j.gradient_bytes / zero_ranks(t, 2)
    alive = added(term.bytes for term in terms if term.component == "gradients")
    return np.where(shared, np.maximum(0.0, every - alive), 0.0)


def _inference_slack(t: Table, terms: list[Term]) -> Term:
    """Blocks left behind by a growing cache, and by the largest layer: all of them when the peak comes later."""
    e, unused = t.engine, unused_blocks(t, terms, prompt_pass(t))
    blocks = "{kept:percent} · {left:bytes} of activations"
    return Term(
        "overhead",
        UNUSED,
        unused.bytes,
        f"{{cache_slack:percent}} · {{cache:bytes}} of cache + {blocks}" if np.any(e.cache_slack) else blocks,
        {"cache_slack": e.cache_slack, "cache": unused.cache, "kept": unused.kept, "left": unused.left},
        SLACK_RECORD,
    )
