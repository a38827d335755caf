"""The terms added up, and compared with what the GPU has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from planner.engine.answers.memory import MEMORY_COMPONENTS
from planner.engine.columns import Flags, Floats, Rows, Table, added
from planner.engine.memory.companions import companion_terms, draft_cache_per_sequence
from planner.engine.memory.host import host_bytes
from planner.engine.memory.inference import inference_terms, kv_bytes_per_sequence, prompt_pass
from planner.engine.memory.terms import COMMUNICATOR_RECORD, CONTEXT_RECORD, SLACK_RECORD, Term, component_bytes
from planner.engine.memory.training import training_terms
from planner.engine.records.engine import BARE_CONTEXT_BYTES
from planner.units import GIB

CPU_PROCESS_BYTES = 0.4 * GIB
"""An interpreter with torch loaded (0.22-0.3 GiB resident) and its thread pools."""
UNUSED = "reserved by the allocator and not used"
TRAINING_SPREAD, INFERENCE_SPREAD, RESERVED_SPREAD = 0.56, 0.38, 0.18
"""Half widths (90 %) that remain on the whole peak: what engines and their versions do differently (published peaks,
scripts/calibration/fit_spreads.py; of training the mean of the fit in which values count alike and the one in which sources do); the last for inference engines that take the room of whole requests at once."""
TRANSIENT_SPREAD, FIXED_SPREAD, OVERHEAD_SPREAD = 0.30, 0.01, 0.60
"""Half widths of the logarithm (90 %) of activations and temporaries, of weights and states, and of overheads; the spread
of public training peaks around the formulas below."""


@dataclass(frozen=True)
class MemoryColumns:
    """Bytes per candidate, shape [rows]; the components add up to `total`."""

    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    logits: Floats
    kv_cache: Floats
    buffers: Floats
    overhead: Floats
    total: Floats
    spread: Floats
    usable: Floats
    """What the job may take; see `usable_bytes`."""
    fits: Flags
    kv_per_sequence: Floats
    max_sequences: Floats
    """Whole sequences whose cache fits beside everything else (inference); NaN while training."""
    host: Floats
    """Of the host's memory, for each GPU; 0 where nothing is offloaded."""

    def at(self, index: Rows, usable: Floats) -> MemoryColumns:
        """Of candidates each of which needs what row `index` of these does, and may take `usable`."""
        needs = {name: getattr(self, name)[index] for name in _NEEDS}
        return MemoryColumns(**needs, **_room(usable, needs["total"], needs["kv_cache"], needs["kv_per_sequence"]))


_ROOM = ("usable", "fits", "max_sequences")
"""Columns that depend on how much the GPUs have."""
_NEEDS = tuple(item.name for item in fields(MemoryColumns) if item.name not in _ROOM)


def terms_of(t: Table) -> list[Term]:
    """Everything that takes memory; all rows train, or none does."""
    terms = training_terms(t) if t.job.train[0] else inference_terms(t)
    return terms + companion_terms(t) + _overhead(t, terms)


def memory_of(t: Table) -> MemoryColumns:
    """Memory of every candidate."""
    train = bool(t.job.train[0])
    terms = terms_of(t)
    parts = {name: component_bytes(terms, name, t.rows) for name in MEMORY_COMPONENTS}
    total = added(parts.values())
    fixed = parts["weights"] + parts["optimizer"] + parts["kv_cache"] + parts["gradients"]
    moving = parts["activations"] + parts["logits"] + parts["buffers"]
    parts_spread = (
        np.sqrt((FIXED_SPREAD * fixed) ** 2 + (TRANSIENT_SPREAD * moving) ** 2 + (OVERHEAD_SPREAD * parts["overhead"]) ** 2) / total
    )
    whole = TRAINING_SPREAD if train else np.where(t.engine.cache_grows > 0, INFERENCE_SPREAD, RESERVED_SPREAD)
    spread = np.hypot(parts_spread, whole)
    own = kv_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens)
    per_sequence = np.broadcast_to(own + draft_cache_per_sequence(t), (t.rows,))
    usable = np.broadcast_to(usable_bytes(t), (t.rows,))
    columns: dict[str, Any] = parts | _room(usable, total, parts["kv_cache"], per_sequence)
    host = host_bytes(t) if train else np.zeros(t.rows)
    return MemoryColumns(total=total, spread=spread, kv_per_sequence=per_sequence, host=host, **columns)


def usable_bytes(t: Table) -> Floats:
    """What the job may take of each GPU: capacity · engine fraction · (1 - headroom)."""
    return t.chip.capacity_bytes * t.job.memory_fraction * (1 - t.job.headroom)


def _room(usable: Floats, total: Floats, kv_cache: Floats, per_sequence: Floats) -> dict[str, Any]:
    """The columns `_ROOM`."""
    free = usable - (total - kv_cache)
    most = np.where(per_sequence > 0, np.maximum(0, np.floor(free / np.where(per_sequence > 0, per_sequence, 1))), np.nan)
    return {"usable": usable, "fits": total <= usable, "max_sequences": most}


def _overhead(t: Table, terms: list[Term]) -> list[Term]:
    """What PyTorch's own peak does not count."""
    s, e = t.layout, t.engine
    train = bool(t.job.train[0])
    together = s.gpus if train else s.tp * s.pp * s.cp * s.ep
    return [
        _context(t),
        Term(
            "overhead",
            "communicators",
            e.communicator_bytes * (together > 1),
            "{communicator:bytes}",
            {"communicator": e.communicator_bytes},
            COMMUNICATOR_RECORD,
        ),
        _training_slack(t, terms) if train else _inference_slack(t, terms),
    ]


def _context(t: Table) -> Term:
    """As measured on the part, with what the engine's record has beyond a plain process; else as the record says."""
    measured, beyond = t.chip.context_bytes, np.maximum(0.0, t.engine.context_bytes - BARE_CONTEXT_BYTES)
    on_cpu = t.chip.is_cpu > 0
    usual = np.where(on_cpu, CPU_PROCESS_BYTES, t.engine.context_bytes)
    bare = np.where(np.isnan(measured), usual, measured)
    more = np.where(np.isnan(measured) | on_cpu, 0.0, beyond)
    graphs = np.where(np.isnan(measured) & ~on_cpu, beyond, more)
    values = {"context": bare + more - graphs, "graphs": graphs}
    formula = "{context:bytes} context + {graphs:bytes} graphs and libraries" if np.any(graphs) else "{context:bytes}"
    return Term("overhead", "context, libraries and graphs", bare + more, formula, values, _told_by(measured, CONTEXT_RECORD))


def _told_by(measured: Floats, record: str) -> str:
    known = ~np.isnan(measured)
    if known.all():
        return "measured on this part"
    return f"measured where the part was, else {record}" if known.any() else record


def _training_slack(t: Table, terms: list[Term]) -> Term:
    dynamic = added(component_bytes(terms, name, t.rows) for name in ("activations", "logits", "gradients"))
    usual = np.where(np.isnan(t.chip.allocator_slack), t.engine.slack, t.chip.allocator_slack)
    slack = usual * np.where(t.layout.checkpointing > 1, 1.5, 1.0)
    return Term(
        "overhead",
        UNUSED,
        slack * dynamic,
        "{slack:percent} · {dynamic:bytes}",
        {"slack": slack, "dynamic": dynamic},
        _told_by(t.chip.allocator_slack, SLACK_RECORD),
    )


def _inference_slack(t: Table, terms: list[Term]) -> Term:
    """Blocks left behind by a cache that grows, and by the largest layer: all of them when the peak comes later."""
    e = t.engine
    cache = component_bytes(terms, "kv_cache", t.rows)
    temporaries = prompt_pass(t).bytes
    later = np.maximum(0.0, temporaries - component_bytes(terms, "activations", t.rows))
    left = np.where(e.kept_activations > 0, later, temporaries)
    kept = np.where(e.kept_activations > 0, e.kept_activations, e.slack)
    blocks = "{kept:percent} · {left:bytes} of activations"
    return Term(
        "overhead",
        UNUSED,
        e.cache_slack * cache + kept * left,
        f"{{cache_slack:percent}} · {{cache:bytes}} of cache + {blocks}" if np.any(e.cache_slack) else blocks,
        {"cache_slack": e.cache_slack, "cache": cache, "kept": kept, "left": left},
        SLACK_RECORD,
    )
