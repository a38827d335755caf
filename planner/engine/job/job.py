"""A workload with every choice made that does not depend on hardware: what the formulas read, and what was assumed."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.engine.job.beside import Draft
from planner.engine.job.engine import Engine
from planner.engine.records.footprint import Footprint
from planner.engine.records.job import JobNumbers
from planner.workload.architecture import Architecture
from planner.workload.tasks import Workload


class Job(JobNumbers[float], frozen=True, kw_only=True):
    """One resolved workload. Lengths in tokens, sizes in bytes, flags as 0 or 1."""

    task: str
    dtype: str
    stored: str
    """Storage format of the linear weights."""
    micro_batch: float = 0.0
    """0: to be chosen by the search."""
    batch: float = 0.0
    request_rate_per_s: float = 0.0
    """0: not given."""
    concurrency: float = 0.0
    """Concurrent requests of the whole deployment; 0: not given; inf: as many as fit."""
    engine: Engine
    workload: Workload
    architecture: Architecture
    footprint: Footprint[float]
    draft: Draft | None = None
    """Draft model that is timed."""
    rollout: Job | None = None
    """Job of generating the answers that are trained on."""
    assumed: dict[str, Any] = msgspec.field(default_factory=dict)
