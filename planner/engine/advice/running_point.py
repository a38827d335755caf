"""Point of a running job on the roofline of its GPU, from hardware counters.

FLOP/s = share of the cycles in which the matrix pipes work · rate of the data sheet · clock ÷ boost clock
B/s = share of the theoretical memory bandwidth · that bandwidth

A cycle in which a pipe works need not be a full one, and the width of its numbers is not counted, so the FLOP/s are an upper limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from planner.engine.advice.observation import Observed
from planner.engine.performance.operators.chip import Chip, FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.units import percent_text

LEAST = 1e-3
"""Value of a counter below which there is no point: it is noise, and a logarithmic axis has no 0."""


class RunningPoint(msgspec.Struct, frozen=True):
    """Rates at one moment."""

    flop_per_s: float
    bytes_per_s: float

    @property
    def intensity(self) -> float:
        """FLOP per byte of memory traffic."""
        return self.flop_per_s / self.bytes_per_s


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """The present work of a GPU, below its roofs."""

    observed: Observed
    dtype: str
    """Assumed number format of the products."""
    chip: Chip | None = None
    """Roofs by the data sheet and as reached; None if they are not known."""
    now: RunningPoint | None = None
    before: list[RunningPoint] = []
    """Earlier points, the oldest first."""
    unknown: str = ""
    """Reason why there is no point now; empty if there is one."""


def running(
    now: Sequence[Observed], before: Sequence[Observed], dtype: str, find_gpu: Callable[[str], Gpu | None], chip: FindChip
) -> list[Running]:
    """Running point of each GPU in `now`, with its points of `before` (any number for each GPU, in order of time)."""
    found = []
    for seen in now:
        gpu = find_gpu(seen.gpu)
        roofs = chip(gpu, dtype, dtype) if gpu is not None else None
        if gpu is None or roofs is None:
            why = f"nothing is known of {seen.gpu}" if gpu is None else f"{gpu.name} has no {dtype} rate"
            found.append(Running(observed=seen, dtype=dtype, unknown=why))
            continue
        earlier = [one for one in before if (one.index, one.uuid) == (seen.index, seen.uuid)]
        found.append(
            Running(
                observed=seen,
                dtype=dtype,
                chip=roofs,
                now=_point(seen, roofs),
                before=[point for one in earlier if (point := _point(one, roofs)) is not None],
                unknown=_unknown(seen),
            )
        )
    return found


def _point(seen: Observed, chip: Chip) -> RunningPoint | None:
    if _unknown(seen) or seen.tensor_active is None or seen.dram_bandwidth is None:
        return None
    boost = chip.gpu.boost_clock_hz
    clock = seen.sm_clock_hz / boost if seen.sm_clock_hz and boost else 1.0
    return RunningPoint(
        seen.tensor_active * chip.peak_flop_per_s * clock, seen.dram_bandwidth * chip.gpu.memory_bandwidth_bytes_per_s
    )


def _unknown(seen: Observed) -> str:
    """The reason why there is no point: a counter that is missing, or one that counts nothing."""
    counters = (("tensor", "tensor_active", seen.tensor_active), ("DRAM traffic", "dram_bandwidth", seen.dram_bandwidth))
    absent = [f"{label}: {seen.reasons.get(field, 'not read')}" for label, field, share in counters if share is None]
    if absent:
        return "; ".join(absent)
    still = [f"{label} {percent_text(share)}" for label, _, share in counters if share is not None and share < LEAST]
    return f"nothing to place: {', '.join(still)}" if still else ""
