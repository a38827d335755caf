"""Owned hardware, the cost of keeping it, and the users of a service: keys of a workload."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from planner.numbers import Dollars, Gpus, Name, Positive, Share

Years = Annotated[float, Meta(ge=0.1, le=100)]
Monthly = Annotated[float, Meta(ge=0, le=1e9)]
"""Dollars a month; none is 0."""


class Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Equal machines that the user owns."""

    gpu: Name
    """A name, an alias, or a slice ('A100 80GB SXM 3g.40gb')."""
    count: Gpus = 1
    """GPUs of one machine; with `mig`: slices of one machine."""
    nodes: Gpus = 1
    """Number of machines."""
    link: Literal["nvlink", "pcie"] | None = None
    """Link between the GPUs of a machine; absent: the usual one of the GPU."""
    power_limit_w: Positive | None = None
    """Power cap of a whole GPU, which its slices share; absent: the vendor's."""
    mig: Name | None = None
    """Profile of the slices into which its GPUs are divided ('3g.40gb')."""
    purchase_usd: Dollars | None = None
    """Price of one GPU (or slice) with its share of the machine; absent: the catalogue's price of the GPU, or the slice's share."""

    @property
    def part(self) -> str:
        """The name for looking up the GPU."""
        return f"{self.gpu} {self.mig}" if self.mig else self.gpu

    @property
    def gpus(self) -> int:
        """GPUs (or slices) of all machines."""
        return self.count * self.nodes


class Owning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Costs of owning GPUs apart from their price."""

    usd_per_kwh: Annotated[float, Meta(ge=0, le=1e3)] = 0.15
    pue: Annotated[float, Meta(ge=1, le=10)] = 1.0
    """Power of the room ÷ power of the machines."""
    hosting_usd_per_month: Monthly = 0.0
    """Rack or colocation, per GPU; of this and the next three, a slice or a share pays its part."""
    staff_usd_per_month: Monthly = 0.0
    """People who run it, per GPU."""
    server_usd: Monthly = 0.0
    """A GPU's share of its server, bought with it."""
    network_usd: Monthly = 0.0
    """A GPU's share of switches, adapters and cables, bought with it."""
    life_years: Years = 3.0
    residual: Share = 0.0
    """Share of the price that remains at the end of the life."""
    gco2_per_kwh: Annotated[float, Meta(ge=0, le=5000)] | None = None
    """Grams of CO2 of a kWh; absent: the mean of the world."""

    def of_part(self, of_whole: int) -> Owning:
        """Costs of one of `of_whole` parts of a GPU."""
        if of_whole == 1:
            return self
        return msgspec.structs.replace(self, **{key: getattr(self, key) / of_whole for key in NO_SOURCE})

    @property
    def left_out(self) -> str:
        """Costs that are not given and have no source, which count as zero; '' if all are given."""
        missing = [words for key, words in NO_SOURCE.items() if not getattr(self, key)]
        return f"{', '.join(missing)}: no source has a price, give your own (owning.{next(iter(NO_SOURCE))}, …)" if missing else ""


NO_SOURCE = {
    "server_usd": "server",
    "network_usd": "network",
    "hosting_usd_per_month": "rack or colocation",
    "staff_usd_per_month": "staff",
}
"""Costs of owning that only count where they are given -> their words."""


class People(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Behaviour of the people who use a service."""

    messages_per_day: Annotated[float, Meta(ge=0.001, le=1e5)] = 10.0
    """Requests per user and day."""
    peak_factor: Annotated[float, Meta(ge=1, le=100)] = 3.0
    """Requests of the busiest hour ÷ requests of the mean hour."""

    @property
    def words(self) -> str:
        """Behaviour in words."""
        return f"{self.messages_per_day:g} messages a day each, and {self.peak_factor:g} times the mean in the busiest hour"


SECONDS_PER_DAY = 86400.0


def request_rate(daily_users: float, people: People) -> float:
    """Requests per second in the busiest hour: users · messages per day · peak factor ÷ 86,400 s."""
    return daily_users * people.messages_per_day * people.peak_factor / SECONDS_PER_DAY
