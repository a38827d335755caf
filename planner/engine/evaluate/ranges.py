"""Ranges of times: the error of the formulas, of the ceilings and of the network."""

from __future__ import annotations

import math

import numpy as np

from planner.engine.columns import Floats, Table, added
from planner.engine.evaluate.candidates import Candidates
from planner.engine.performance.operators.chip import Chip
from planner.engine.performance.prefill_decode.generation import ServeColumns
from planner.engine.performance.training import StepColumns

MODEL_SPREAD = {"train": 0.10, "finetune": 0.48, "generate": 0.47, "prefill": 0.38, "serve": 0.10}
STREAM_SPREAD = 0.84
FIRST_TOKEN_SPREAD = 0.81
"""Half width (90 %) of ln(measured ÷ predicted) that remains whatever the ceilings are, by task: `scripts/calibration/fit_spreads.py` on
2,167 published experiments (2026-11-21; it prints the coverage with each source left out), never below 0.1; of `generate` with each
source counting alike. `STREAM_SPREAD` stands in its place for the time between tokens, which nothing averages out: published rates of
one stream are further apart than those of whole batches. `FIRST_TOKEN_SPREAD` is the further one of the time to first token under
load, which depends on how requests happen to arrive."""
NETWORK_SPREAD = math.log(2)
"""Half width for time spent between nodes over a network assumed to be the usual one of the GPU: half or twice as fast. An assumption."""
MEASURED_SHARE = 0.5
"""Share of a formula's spread that is left when compute and bandwidth were measured on the device itself."""


def formulas_share(chip: Chip) -> float:
    """Share of the spreads of formulas that is left on this device."""
    return MEASURED_SHARE if chip.basis == "measured" else 1.0


def seconds_of(timed: StepColumns | ServeColumns) -> Floats:
    """Seconds of one step, or of one request."""
    return timed.step_s if isinstance(timed, StepColumns) else timed.request_s.mean


def time_spread(candidates: Candidates, t: Table, timed: StepColumns | ServeColumns) -> Floats:
    """Half width of the logarithm of every time: of the formulas, of the ceilings that bind, of carried-over steps, of the network."""
    seconds = seconds_of(timed)
    share = np.clip(timed.compute_bound / np.where(seconds > 0, seconds, 1.0), 0, 1)
    left = np.array([formulas_share(chip) for chip in candidates.chips])[candidates.chip_index]
    parts = (
        np.array([MODEL_SPREAD[job.task] for job in candidates.jobs])[candidates.job_index] * left,
        share * t.chip.flop_spread,
        (1 - share) * t.chip.bandwidth_spread,
        t.chip.train_spread * t.job.train,
        network_spread(t, timed),
    )
    return np.sqrt(added(np.broadcast_to(part, (t.rows,)) ** 2 for part in parts))


def network_spread(t: Table, timed: StepColumns | ServeColumns) -> Floats:
    """Spread that the network between nodes adds to a step's or a request's time; 0 inside a node or where the network was measured.

    In training it is what the step waits for exchanges among replicas and stages, in inference the tensor parallelism over nodes.
    """
    s, seconds = t.layout, seconds_of(timed)
    if isinstance(timed, StepColumns):
        apart, spent_s = s.gpus > s.gpus_per_node, added(timed.exposed.values())
    else:
        apart, spent_s = s.tp * s.cp > s.gpus_per_node, timed.by_class["communication"]
    share = np.where(apart & (t.chip.measured_nodes_few == 0), spent_s / np.where(seconds > 0, seconds, 1.0), 0.0)
    return NETWORK_SPREAD * np.minimum(share, 1.0)
