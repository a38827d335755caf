"""The way a workload runs on a pool: on whole GPUs, or on a part of each for a service that may share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from planner.engine.answers.plan import Plan, PlanRow
from planner.hardware.catalogue.mig import DIVISORS, split_name
from planner.workload.hardware.owned import Own
from planner.workload.tasks import Workload

PARTS = max(DIVISORS)
"""Parts in which GPUs are counted where services may share them."""
MOST_SHARES = 64
"""Maximum number of replicas on shares in a plan."""

PoolKey = tuple[str, int]
"""(GPU, GPUs of a node)."""


class SharedRow(NamedTuple):
    """A row of a plan, and the number of its replicas that share one GPU."""

    row: PlanRow
    divisor: int = 1

    @property
    def replica_parts(self) -> int:
        """Parts of GPUs per replica; 0 without a layout."""
        layout = self.row.answer.layout
        if layout is None:
            return 0
        return layout.gpus // max(1, layout.dp) * PARTS // self.divisor

    @property
    def parts(self) -> int:
        """Parts of GPUs for all replicas."""
        layout = self.row.answer.layout
        assert layout is not None
        return layout.gpus * PARTS // self.divisor


def on_shares(workload: Workload, plan: Plan) -> Workload:
    """`workload` on shares of only those uncut GPUs of which one holds a replica in `plan`; the engine checks memory and latency there."""
    alone = (
        row
        for row in plan.rows
        if row.rank and not row.here and split_name(row.gpu) is None and SharedRow(row).replica_parts == PARTS
    )
    gpus = sorted({row.gpu for row in alone})
    parts = [f"{gpu} 1/{divisor}" for gpu in gpus for divisor in DIVISORS]
    own = [Own(gpu=part, nodes=MOST_SHARES) for part in parts]
    return msgspec.structs.replace(workload, own=own, gpus_considered=parts, max_gpus=None, capex_usd=None)


def way_on(plan: Plan, shared: Plan | None, key: PoolKey, *, service: bool) -> SharedRow | None:
    """Way that uses the least of the pool's GPUs, with a preference for whole ones; None if nothing runs there."""
    gpu, per_node = key
    ways = [SharedRow(row) for row in _solutions(plan, gpu) if _inside(row, service=service) <= per_node]
    for divisor in DIVISORS if shared is not None else ():
        ways += (SharedRow(row, divisor) for row in _solutions(shared, f"{gpu} 1/{divisor}"))
    return min(ways, key=lambda way: (way.parts, way.divisor), default=None)


def _solutions(plan: Plan | None, gpu: str) -> Iterator[PlanRow]:
    rows: Sequence[PlanRow] = plan.rows if plan is not None else ()
    return (row for row in rows if row.rank and row.gpu == gpu and not row.here and row.answer.layout is not None)


def _inside(row: PlanRow, *, service: bool) -> int:
    """GPUs that have to be in one node: of a replica, or of a job on a node of its own kind."""
    layout = row.answer.layout
    assert layout is not None
    return max(
        layout.tp,
        layout.gpus_per_node if not service and layout.nodes > 1 else min(layout.gpus // max(1, layout.dp), layout.gpus_per_node),
    )
