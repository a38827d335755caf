"""Question and answer of a portfolio; the problem between them contains only numbers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from planner.numbers import Dollars, Gpus, Name
from planner.workload.hardware.owned import Own, Owning
from planner.workload.tasks import Names, ProviderKind, Workload

HOURS = 24
"""Hours of a day, each with its own load."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One workload of a portfolio."""

    KEYS_WITHIN: ClassVar[tuple[str, type[msgspec.Struct]]] = ("set", Workload)
    """Table, and the record of its keys, for keys that are written next to it by mistake."""
    name: Name
    preset: Name | None = None
    """A preset's name, or the path of a .toml file; absent: `set` has all settings."""
    set: dict[str, Any] = {}
    """Keys of the workload, dotted or as tables; they override those of the preset."""
    load: Annotated[list[Annotated[float, Meta(ge=0, le=1e6)]], Meta(min_length=HOURS, max_length=HOURS)] | None = None
    """Requests in each hour of the day, in any unit: the largest is the rate of the workload. Absent: the same all day."""
    min_replicas: Gpus = 1
    start_minutes: Annotated[float, Meta(ge=0, le=1440)] = 10.0
    """Minutes until a replica serves: it is started this long before it is needed."""
    mixed: bool = False
    """True if a service may use two kinds of GPU: one for the base load, another for the rest of the day."""
    shared: bool = False
    """True if a service may share a GPU with other such services, each on a half, a quarter or an eighth of its memory and time."""
    interruptible: bool | None = None
    """True if it may be interrupted; absent: jobs may, services may not."""
    runs_per_month: Annotated[float, Meta(gt=0, le=1e4)] = 1.0
    """Runs of a job; ignored for a service."""


class PortfolioFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of workloads, and of the stock that they share."""

    KEYS_WITHIN: ClassVar[tuple[str, type[msgspec.Struct]]] = ("workload.set", Workload)
    workload: Annotated[list[Entry], Meta(min_length=1, max_length=200)]
    months: Annotated[int, Meta(ge=1, le=120)] = 12
    own: Annotated[list[Own], Meta(max_length=100)] = []
    owning: Owning | None = None
    capex_usd: Dollars | None = None
    """Capital that may be spent on GPUs; absent: none are bought."""
    gpus: list[Name] = []
    """GPUs to choose from; empty: all that are owned or offered."""
    providers: Names = []
    """Filters of the offers for all workloads, named like the keys of a workload."""
    kinds: list[ProviderKind] = []
    regions: Names = []
    countries: Names = []
    certifications: Names = []
    exclude: Names = []


FILTERS = ("providers", "kinds", "regions", "countries", "certifications", "exclude")
"""Keys of a file that apply to every workload and to the stock."""


class Need(msgspec.Struct, frozen=True):
    """GPUs, or parts of them, that a workload needs in each class of hours."""

    gpus: tuple[int, ...]
    interruptible: bool


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to get GPUs of a pool, in units of whole instances."""

    kind: str
    """'on-demand', 'spot', 'reserved-1y', 'reserved-3y' or 'bought'."""
    gpus: int
    """GPUs per unit."""
    usd_per_month: float
    """Dollars per unit for a full month."""
    who: str = ""
    entry_usd: float = 0.0
    """Capital per unit."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one kind: those owned, and the ways to get more."""

    gpu: str
    owned: int = 0
    owned_usd_per_month: float = 0.0
    """Cost of the power of one owned GPU that is in use for a full month."""
    fixed: Source | None = None
    """Cheapest source that has to be paid whether used or not."""
    hourly: Source | None = None
    spot: Source | None = None
    bought: Source | None = None
    """Bought GPUs; present where capital is given."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads, pools, and what each workload needs on each pool."""

    needs: dict[tuple[int, int], Need]
    """(workload, pool) -> need; absent for pairs that cannot run."""
    workloads: int
    pools: tuple[Pool, ...]
    weights: tuple[float, ...]
    """Share of the month of each class of hours."""
    capex_usd: float | None = None
    parts: int = 1
    """Parts of a GPU in which needs, units and owned GPUs are counted."""


class PoolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """GPUs taken from a pool, and their cost per month."""

    gpu: str
    gpus_at_most: int
    gpus_at_least: int
    owned: int = 0
    """Owned GPUs that are used in the busiest hour."""
    bought: int = 0
    bought_usd_per_month: float = 0.0
    committed: int = 0
    """GPUs under commitment."""
    committed_on: str = ""
    committed_usd_per_month: float = 0.0
    hourly_gpu_h: float = 0.0
    """GPU-hours per month paid by the hour."""
    hourly_from: str = ""
    hourly_usd_per_month: float = 0.0
    spot_gpu_h: float = 0.0
    spot_from: str = ""
    spot_usd_per_month: float = 0.0
    owned_usd_per_month: float = 0.0
    usd_per_month: float


class Placed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Placement of one workload."""

    name: str
    gpu: str
    layout: str
    gpus_at_most: int
    """GPUs, or shares of one."""
    gpus_at_least: int
    share: int = 1
    """Equal shares into which a GPU is divided for it; 1: it uses whole GPUs."""
    interruptible: bool
    alone_usd_per_month: float | None = None
    """Cost on GPUs rented only for it; None: nobody rents them out."""


class Portfolio(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cheapest mix found."""

    workloads: list[Placed]
    pools: list[PoolUse]
    usd_per_month: float
    alone_usd_per_month: float | None = None
    """Sum over the workloads, each on GPUs rented only for it."""
    months: int
    solver: str
    gap: float | None = None
    """Largest share by which another mix may be cheaper; None: not known."""
    notes: list[str] = []
    version: str = ""
