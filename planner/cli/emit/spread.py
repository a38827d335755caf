"""Distribution of a service over machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from planner.engine.answers.layout import LayoutAnswer
    from planner.engine.job.job import Job


class Spread(msgspec.Struct, frozen=True):
    """Machines of a service, and its replicas on them."""

    gpus: int
    """GPUs of one machine."""
    nodes: int
    """Machines of one replica; more than one where it does not fit one of them."""
    replicas: int
    """Separate servers."""
    local: int = 1
    """Replicas within one server."""


def spread_of(job: Job, layout: LayoutAnswer, *, groups: bool = False) -> Spread | None:
    """Machines of a service; None where a replica over several is one of many, or does not fill them.

    `groups`: what runs it has groups of machines, so that many replicas may each be over several.

    Replicas of a dense model that share a machine are one server, which balances between them; a model with experts would tie them
    together, so each of its replicas is a server.
    """
    replica, room = layout.tp * layout.pp, layout.gpus_per_node
    if replica > room:
        whole = (groups or layout.dp == 1) and replica % room == 0
        return Spread(room, replica // room, layout.dp) if whole else None
    local = min(layout.dp, room // replica)
    if job.architecture.experts or layout.dp % local:
        local = 1
    return Spread(replica * local, 1, layout.dp // local, local)
