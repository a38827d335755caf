"""GPUs that a plan can choose from, what each reaches, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from planner.engine.answers.plan import PlanRow
from planner.engine.performance.operators.chip import FindChip
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import NodeNetwork, Provider


class Supply(msgspec.Struct, frozen=True, dict=True):
    """The catalogue, its offers, and this machine."""

    gpus: Sequence[Gpu]
    """Every part of the catalogue."""
    find_gpu: Callable[[str], Gpu]
    """A part of the catalogue by a name or an alias; raises `UserError`."""
    offers: Sequence[Offer]
    machine: Sequence[Gpu]
    """Devices of this machine."""
    local_counts: Mapping[str, int]
    """Number of each of them, by name."""
    chip: FindChip
    spec_chip: FindChip
    """Look-up without this machine's measurements."""
    providers: Mapping[str, Provider] = msgspec.field(default_factory=dict)
    """Providers by name."""

    power_limits_w: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Limits in force of this machine's GPUs, by name, where they are below the vendor's."""

    def gpu_of(self, row: PlanRow) -> Gpu:
        """The part that `row` is about: this machine's own where the row is of this machine."""
        here = next((device for device in self.machine if row.here and device.name == row.gpu), None)
        return here or self.find_gpu(row.gpu)

    def nvlink_of(self, row: PlanRow) -> bool | None:
        """Whether the offer of `row` says that its GPUs are joined by NVLink; None where it does not say, or there is none."""
        if row.owned is not None:
            return row.owned.nvlink
        offer = row.offer
        return self._nvlink.get((offer.provider, offer.instance, offer.region, row.gpu)) if offer else None

    def network_of(self, offer: Offer) -> NodeNetwork | None:
        """Known network between nodes of `offer`."""
        key = offer.provider, offer.instance
        if key not in self._networks:
            provider = self.providers.get(offer.provider)
            self._networks[key] = provider.network_of(offer.instance) if provider else None
        return self._networks[key]

    @cached_property
    def node_types(self) -> dict[bytes, Any]:
        """Lists of node types made so far, kept by `search.supply.node_types`."""
        return {}

    @cached_property
    def _networks(self) -> dict[tuple[str, str], NodeNetwork | None]:
        """Networks that were asked for."""
        return {}

    @cached_property
    def _nvlink(self) -> dict[tuple[str, str, str, str], bool | None]:
        """NVLink of an offer by provider, instance, region and GPU; the first of several such offers counts."""
        return {(one.provider, one.instance, one.region, one.gpu): one.nvlink for one in reversed(self.offers)}
