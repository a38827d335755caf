"""What GPUs cost to rent, read from `presets/offers/` (a file a provider)."""

from __future__ import annotations

import msgspec


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One instance type of one provider. Prices are of the whole instance."""

    provider: str
    instance: str
    gpu: str
    """Canonical GPU name."""
    gpus: int
    gpus_max: int | None = None
    """Priced per GPU and scalable up to this many in one host (pods, serverless); None: fixed size."""
    vcpus: float | None = None
    memory_bytes: float | None = None
    region: str
    on_demand_usd_per_h: float | None = None
    spot_usd_per_h: float | None = None
    reserved_1y_usd_per_h: float | None = None
    reserved_3y_usd_per_h: float | None = None
    tier: str = "on-demand"
    nvlink: bool | None = None
    """Whether the GPUs of one instance are joined by NVLink; None: not stated."""
    regions: int | None = None
    on_demand_min_usd_per_h: float | None = None
    """Cheapest region."""
    on_demand_max_usd_per_h: float | None = None
    as_of: str
    source: str
    note: str = ""
