"""Fields that narrow what can be rented."""

from __future__ import annotations

from widgets.panes.workload.field import Field

OFFERS: tuple[Field, ...] = (
    Field(key="gpus_considered", kind="names", empty="all", about="of these alone: H100, L4"),
    Field(key="providers", kind="names", empty="all", about="from these alone: runpod, aws"),
    Field(key="kinds", kind="names", empty="all", about="of provider: gpu-cloud, marketplace"),
    Field(key="regions", kind="names", empty="all", about="these alone; * matches: us-east*"),
    Field(key="countries", kind="names", empty="all", about="there alone: DE, FR, or EU"),
    Field(key="certifications", kind="names", empty="any", about="holds all of them: ISO 27001"),
    Field(key="exclude", kind="names", empty="none", about="providers, kinds, GPUs, instances"),
    Field(
        key="fabric",
        kind="choice",
        choices=("infiniband", "ethernet", "none"),
        words=("between nodes", "between nodes", "one node alone"),
    ),
    Field(
        key="price_usd_per_gpu_h",
        kind="prices",
        unit="$/GPU·h",
        empty="offers",
        about="instead of offers: 1.8; L40S 0.9",
    ),
    Field(key="max_nodes", kind="count", unit="nodes", about="most that can be had at once"),
    Field(key="confidence", kind="percent", unit="%", about="fits with at least this probability"),
)
