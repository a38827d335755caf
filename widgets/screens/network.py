"""Traffic between the nodes of a row, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.hardware.catalogue.interconnects import fabric_of
from planner.workload.tasks import trains

if TYPE_CHECKING:
    from planner.engine.answers.answer import LayoutAnswer
    from planner.engine.answers.plan import PlanRow
    from planner.hardware.catalogue.gpus import Gpu


def between_nodes(row: PlanRow, gpu: Gpu | None, task: str) -> str:
    """Network between the nodes of `row` and what goes over it; empty for one node, and for an unknown part."""
    layout = row.answer.layout
    if gpu is None or layout is None or layout.nodes < 2:
        return ""
    name, rate = fabric_of(gpu, None, layout.gpus_per_node)
    known = (
        "measured, see below"
        if "between_nodes" in row.answer.assumed
        else f"{rate / 1e9:.3g} GB/s each way, assumed for such parts"
    )
    return f"between nodes {name} ({known}); over it go {', '.join(crossing(layout, task))}"


def crossing(layout: LayoutAnswer, task: str) -> Iterator[str]:
    """Traffic that leaves a node where tensor ranks are neighbours, stages come next, and replicas last."""
    inside, stage = layout.gpus_per_node, layout.tp * layout.cp
    replica = stage * layout.pp
    if layout.tp > inside:
        yield "the all-reduces of every layer"
    if stage > inside >= layout.tp:
        yield "keys and values of the context"
    if layout.ep > inside:
        yield "tokens routed to experts"
    if layout.pp > 1 and replica > inside:
        yield "activations between stages"
    if layout.prefill_replicas:
        yield "KV caches of prompts"
    if trains(task) and layout.dp > 1 and replica * layout.dp > inside:
        yield "gradients"
    if not trains(task) and replica <= inside and not layout.prefill_replicas and layout.ep <= inside:
        yield "only requests, since every replica is within one node"
