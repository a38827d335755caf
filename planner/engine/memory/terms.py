"""One item of memory, with the formula for its bytes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, added, full

CONTEXT_RECORD, COMMUNICATOR_RECORD, SLACK_RECORD = (
    f"the engine's record of its {part}" for part in ("context", "communicators", "allocator")
)
STORAGE_FORMAT = "the storage format"
"""Sources that depend on the row, including those above; `candidate.memory_detail` has them in full."""


class Term(msgspec.Struct, frozen=True):
    """Bytes per candidate of one part of a component."""

    component: str
    """One of `answers.memory.MEMORY_COMPONENTS`."""
    name: str
    """Meaning, in words."""
    bytes: Floats
    """Broadcasts to [rows]."""
    formula: str
    """Formula in the names of `values`, each in braces and with its format where it is not the default: `{logits:bytes}`, `{slack:percent}`
    (`explain.details.WAYS_TO_READ`). Words between them are shown as they are: `{layers} layers · {tokens} tokens`."""
    values: Mapping[str, Floats]
    """Symbols of `formula`; each broadcasts to [rows]."""
    source: str
    """Source of the formula."""

    def times(self, share: Floats) -> Term:
        """Term where `share` is 1, and 0 bytes where it is 0."""
        return replace(self, bytes=self.bytes * share)


def component_bytes(terms: list[Term], component: str, rows: int) -> Floats:
    """Sum of the terms of one component, shape [rows]."""
    return full(added([np.zeros(1), *(term.bytes for term in terms if term.component == component)]), rows)


def at_peak(phases: list[list[Term]], beside: list[Floats], rows: int) -> list[Term]:
    """Terms of whichever phase is largest with the bytes `beside` it, row by row; terms of other phases have 0 bytes."""
    totals = np.stack(
        [full(added([other, *(term.bytes for term in phase)]), rows) for phase, other in zip(phases, beside, strict=True)]
    )
    largest: Rows = np.argmax(totals, axis=0)
    return [term.times((largest == number) * 1.0) for number, phase in enumerate(phases) for term in phase]
