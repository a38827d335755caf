"""Faults of a GPU's memory, as fixed names and in words: errors it could not correct, rows and pages to be replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNCORRECTED = "uncorrectable memory errors"
REMAP_PENDING = "row remap pending"
REMAP_FAILED = "row remapping failed"
RETIREMENT_PENDING = "page retirement pending"

ADVICE: dict[str, str] = {
    UNCORRECTED: "results since then may be wrong, and processes were ended; if the errors recur, have the GPU tested",
    REMAP_PENDING: "faulty rows of memory are replaced at the next reset of the GPU; until then they are in use",
    REMAP_FAILED: "no spare rows are left to replace faulty ones: have the GPU replaced",
    RETIREMENT_PENDING: "faulty pages of memory are taken out of use at the next reset of the GPU; until then they are in use",
}
"""Warning -> its meaning and the action to take."""
COUNTS_OF_UNCORRECTED = {
    "ecc_uncorrected_volatile": "{:,.0f} since the driver was loaded",
    "ecc_uncorrected_aggregate": "{:,.0f} ever",
    "remapped_rows_uncorrectable": "rows replaced for it: {:,.0f}",
    "retired_pages_double_bit": "pages retired for it: {:,.0f}",
}
COUNTS = (
    "ecc_corrected_volatile",
    "ecc_corrected_aggregate",
    "remapped_rows_correctable",
    "retired_pages_single_bit",
    *COUNTS_OF_UNCORRECTED,
)
FLAGS = {"row_remap_pending": REMAP_PENDING, "row_remap_failed": REMAP_FAILED, "page_retirement_pending": RETIREMENT_PENDING}
"""Fields of a snapshot with whole numbers; boolean fields and the warning if they are true."""


_WARNED_OF = frozenset((*COUNTS_OF_UNCORRECTED, *FLAGS))


def typed(field: str, value: float) -> float | bool:
    """`value` of a floating-point source converted to the type of the snapshot's field."""
    if field in FLAGS:
        return bool(value)
    return int(value) if field in COUNTS else value


def health_warnings(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of faults in the fields of a device's snapshot; absent fields and None count as no fault."""
    if values.keys().isdisjoint(_WARNED_OF):
        return ()
    found = [UNCORRECTED] if any(values.get(name) for name in COUNTS_OF_UNCORRECTED) else []
    return (*found, *(name for field, name in FLAGS.items() if values.get(field)))


def warning_text(name: str, values: Mapping[str, Any]) -> str:
    """A warning in words: 'uncorrectable memory errors (2 since the driver was loaded, 3 ever): …'."""
    counts = ", ".join(words.format(values[field]) for field, words in COUNTS_OF_UNCORRECTED.items() if values.get(field))
    counted = f" ({counts})" if name == UNCORRECTED and counts else ""
    advice = f": {ADVICE[name]}" if name in ADVICE else ""
    return f"{name}{counted}{advice}"
