"""Observations of a fleet's GPUs, from averages that a server made of their readings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from planner.engine.advice.observation import Observed
from planner.observe.snapshot import NO_HOST
from planner.observe.telemetry.prometheus import FleetGpu
from planner.observe.telemetry.window import observed_of

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import GpuCatalogue


def observe_fleet(fleet: Iterable[FleetGpu], gpus: GpuCatalogue) -> list[Observed]:
    """Observations of each GPU of a fleet over its window."""
    return [_observed(one, gpus) for one in fleet]


def _observed(one: FleetGpu, gpus: GpuCatalogue) -> Observed:
    seen = observed_of([one.device], [NO_HOST], one.seconds, gpus, one.host)
    busy = seen.busy if one.busy is None else one.busy
    return msgspec.structs.replace(seen, busy=busy, readings=one.readings or seen.readings, job=one.job, held_back=one.held_back)
