"""Cost of a row on GPUs that are one's own, or would be bought."""

from __future__ import annotations

import msgspec


class OwnedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Costs of the GPUs of a row that is not rented. An hour of it is `running_usd_per_h` + `depreciation_usd_per_h`."""

    bought: bool = False
    """Whether it is to be bought for this; otherwise it is there already."""
    gpus: int
    price_usd: float | None = None
    """Price of all of them with their share of servers and network; None: not known, so that their loss in value is left out."""
    power_w: float
    """Draw of one GPU, around the clock."""
    running_usd_per_h: float
    """Power and place of all of them."""
    depreciation_usd_per_h: float | None = None
    """Loss of value."""
    nvlink: bool | None = None
    """Whether NVLink joins them, where that was said."""
    power_limit_w: float | None = None
    """Power cap of each of them, where there is one."""
    words: str = ""
    """Basis of the costs."""
