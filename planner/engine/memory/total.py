"""Memory of a candidate: its terms added up, and compared with what the GPU has."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from planner.engine.answers.memory import MEMORY_COMPONENTS
from planner.engine.columns import Flags, Floats, Rows, Table, added
from planner.engine.memory.companions import companion_terms, draft_cache_per_sequence
from planner.engine.memory.host import host_bytes
from planner.engine.memory.inference import inference_terms, kv_bytes_per_sequence
from planner.engine.memory.overhead import overhead_terms
from planner.engine.memory.terms import Term, component_bytes
from planner.engine.memory.training import training_terms

TRAINING_SPREAD, INFERENCE_SPREAD, RESERVED_SPREAD = 0.56, 0.38, 0.18
"""Half widths (90 %) of the logarithm of the whole peak: what engines and their versions do differently. By
scripts/calibration/fit_spreads.py on published peaks; of training, the mean of the fit in which values count alike and the one in
which sources do. RESERVED: inference engines that set aside the room of whole requests at once."""
TRANSIENT_SPREAD, FIXED_SPREAD, OVERHEAD_SPREAD = 0.30, 0.01, 0.60
"""Half widths (90 %) of the logarithm of activations and temporaries, of weights and states, and of overheads: the spread of
published training peaks around the formulas."""


@dataclass(frozen=True)
class MemoryColumns:
    """Bytes per candidate on its fullest GPU, shape [rows]; the components add up to `total`."""

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
    """Half width (90 %) of the logarithm of `total`."""
    usable: Floats
    """What the job may take; see `usable_bytes`."""
    kv_per_sequence: Floats
    host: Floats
    """Memory of the host for each GPU; 0 where nothing is offloaded."""

    @cached_property
    def fits(self) -> Flags:
        """Whether the job takes no more than it may."""
        return self.total <= self.usable

    @cached_property
    def max_sequences(self) -> Floats:
        """Whole sequences whose cache fits beside everything else; NaN where none is kept (training)."""
        kept = self.kv_per_sequence > 0
        free = self.usable - (self.total - self.kv_cache)
        return np.where(kept, np.maximum(0, np.floor(free / np.where(kept, self.kv_per_sequence, 1))), np.nan)

    def at(self, index: Rows, usable: Floats) -> MemoryColumns:
        """Memory of candidates each of which needs what row `index` needs, and may take `usable`."""
        return replace(MemoryColumns(*(getattr(self, item.name)[index] for item in fields(self))), usable=usable)


def terms_of(t: Table) -> list[Term]:
    """Everything that takes memory; all rows train, or none does."""
    terms = training_terms(t) if t.job.train[0] else inference_terms(t)
    return terms + companion_terms(t) + overhead_terms(t, terms)


def memory_of(t: Table) -> MemoryColumns:
    """Memory of every candidate."""
    terms = terms_of(t)
    parts = {name: component_bytes(terms, name, t.rows) for name in MEMORY_COMPONENTS}
    total = added(parts.values())
    sequence = kv_bytes_per_sequence(t, t.job.input_tokens + t.job.output_tokens) + draft_cache_per_sequence(t)
    return MemoryColumns(
        **parts,
        total=total,
        spread=_spread(t, parts, total),
        usable=np.broadcast_to(usable_bytes(t), (t.rows,)),
        kv_per_sequence=np.broadcast_to(sequence, (t.rows,)),
        host=host_bytes(t) if t.job.train[0] else np.zeros(t.rows),
    )


def usable_bytes(t: Table) -> Floats:
    """What the job may take of each GPU: capacity · engine fraction · (1 - headroom)."""
    return t.chip.capacity_bytes * t.job.memory_fraction * (1 - t.job.headroom)


def _spread(t: Table, parts: dict[str, Floats], total: Floats) -> Floats:
    """Half width of the logarithm of `total`: the parts' own, added in squares, and what remains on the whole."""
    fixed = parts["weights"] + parts["optimizer"] + parts["kv_cache"] + parts["gradients"]
    transient = parts["activations"] + parts["logits"] + parts["buffers"]
    squares = (FIXED_SPREAD * fixed) ** 2 + (TRANSIENT_SPREAD * transient) ** 2 + (OVERHEAD_SPREAD * parts["overhead"]) ** 2
    inference = np.where(t.engine.cache_grows > 0, INFERENCE_SPREAD, RESERVED_SPREAD)
    return np.hypot(np.sqrt(squares) / total, TRAINING_SPREAD if t.job.train[0] else inference)
