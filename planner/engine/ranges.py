"""How far off the formulas are: what of a range no ceiling explains."""

from __future__ import annotations

from planner.engine.speed.chips import Chip

MODEL_SPREAD = {"train": 0.10, "finetune": 0.48, "generate": 0.47, "prefill": 0.38, "serve": 0.10}
STREAM_SPREAD = 0.84
FIRST_TOKEN_SPREAD = 0.81
"""Half width (90 %) of ln(measured ÷ predicted) that remains whatever the ceilings are, by task: `scripts/fit_spreads.py` on
2,167 published experiments (2026-11-21; it prints the coverage with each source left out), never below 0.1; of `generate` with each
source counting alike. `STREAM_SPREAD` stands in its place for the time between tokens, which nothing averages out: published rates of
one stream are further apart than those of whole batches. `FIRST_TOKEN_SPREAD` is the further one of the time to first token under
load, which depends on how requests happen to arrive."""
MEASURED_SHARE = 0.5
"""How much of it is left when compute and bandwidth were measured on the device itself."""


def formulas_share(chip: Chip) -> float:
    """Share of the spreads of formulas that is left on this device."""
    return MEASURED_SHARE if chip.basis == "measured" else 1.0
