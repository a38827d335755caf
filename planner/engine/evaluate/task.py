"""A workload with the architectures of its models, resolved once for each compute dtype, and the supply it is planned on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from planner.engine.answers.plan import PlanRow
from planner.engine.job.job import Job
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import NodeNetwork, Provider
from planner.workload.architecture import Models
from planner.workload.tasks import Dtype, Workload

PLAN_HEADROOM = 0.1
"""Share of the usable memory that a plan leaves free for fragmentation where the workload does not state it."""


class Task(msgspec.Struct, frozen=True, dict=True):
    """A workload to plan for."""

    workload: Workload
    models: Models

    @cached_property
    def _jobs(self) -> dict[str | None, Job]:
        return {}

    @cached_property
    def searches(self) -> dict[tuple[int, bytes], Any]:
        """Search results for this task, shared by tasks that differ little from it."""
        return {}

    def changed(self, workload: Workload) -> Task:
        """A task for `workload`, a changed copy of this task's workload, with the same models and the same stored search results."""
        task = Task(workload, self.models)
        task.__dict__["searches"] = self.searches
        return task

    def job(self, dtype: Dtype | None = None, where: str = "") -> Job:
        """Job computed in `dtype`; None: the dtype of the workload, or the default.

        Raises `UserError` that names each value that is missing, out of range or contradictory, and `where` (a file or option) it was
        given.
        """
        chosen = self.workload.dtype or dtype
        if chosen not in self._jobs:
            workload = msgspec.structs.replace(self.workload, dtype=chosen)
            self._jobs[chosen] = resolve(workload, self.models, where, headroom=PLAN_HEADROOM)
        return self._jobs[chosen]

    def job_of(self, row: PlanRow) -> Job:
        """Job of `row`, a row of the plan for this task."""
        return self.job(row.answer.assumed.get("dtype"))


class Supply(msgspec.Struct, frozen=True, dict=True):
    """Catalogue, its offers, and this machine."""

    gpus: Sequence[Gpu]
    """Every GPU of the catalogue."""
    find_gpu: Callable[[str], Gpu]
    """Look-up of a GPU by its name or an alias; raises `UserError`."""
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    local_counts: Mapping[str, int]
    """Number of devices of this machine, by name."""
    chip: FindChip
    spec_chip: FindChip
    """Look-up without this machine's measurements."""
    providers: Mapping[str, Provider] = msgspec.field(default_factory=dict)
    """Providers by name."""

    power_limits_w: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Power limits set on this machine's GPUs, by name, where they are below the vendor's."""

    def gpu_of(self, row: PlanRow) -> Gpu:
        """The GPU of `row`: this machine's own device where the row is of this machine."""
        here = next((device for device in self.machine if row.here and device.name == row.gpu), None)
        return here or self.find_gpu(row.gpu)

    def nvlink_of(self, row: PlanRow) -> bool | None:
        """True if NVLink joins the GPUs of the offer of `row`; None if the offer does not state it, or there is no offer."""
        if row.owned is not None:
            return row.owned.nvlink
        offer = row.offer
        return self._nvlink.get((offer.provider, offer.instance, offer.region, row.gpu)) if offer else None

    def network_of(self, offer: Offer) -> NodeNetwork | None:
        """Network between nodes of `offer`; None if it is not known."""
        key = offer.provider, offer.instance
        if key not in self._networks:
            provider = self.providers.get(offer.provider)
            self._networks[key] = provider.network_of(offer.instance) if provider else None
        return self._networks[key]

    @cached_property
    def node_types(self) -> dict[bytes, Any]:
        """Lists of node types made so far, filled by `search.supply.node_types`."""
        return {}

    @cached_property
    def _networks(self) -> dict[tuple[str, str], NodeNetwork | None]:
        """Networks that were looked up so far."""
        return {}

    @cached_property
    def _nvlink(self) -> dict[tuple[str, str, str, str], bool | None]:
        """NVLink of an offer by provider, instance, region and GPU; of several such offers, the first counts."""
        return {(one.provider, one.instance, one.region, one.gpu): one.nvlink for one in reversed(self.offers)}
