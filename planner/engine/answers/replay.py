"""Answer of a replay: recorded requests served by replicas of a plan's row."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.engine.answers.figure import Basis, Figure, Percentiles


class ReplayHour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hour of the trace. Latencies are of the requests that arrive in it."""

    begins_s: float
    """Seconds since the first request."""
    clock: str = ""
    """Start of the hour in UTC; empty if the trace has no clock."""
    requests: int
    covered_s: float
    """Part of the hour between the first and the last request of the trace."""
    rate_per_s: float
    """Requests per second in that part."""
    ttft_s: Percentiles | None = None
    tpot_s: Percentiles | None = None
    """Absent where every output is one token."""
    request_s: Percentiles | None = None
    replicas_needed: int | None = None
    """Fewest replicas that meet the targets, or keep up where there are no targets; absent: even the most that were tried do not."""


class Replay(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trace served by `replicas` copies of one layout, each request by the next replica in turn."""

    task: dict[str, Any]
    """Workload that the layout was chosen for."""
    source: str
    gpu: str
    layout: str
    """Layout of one replica."""
    gpus_per_replica: int
    replicas: int
    basis: Basis
    requests: int
    """Number of requests, all of which end."""
    seconds: float
    """Time from the first arrival to the last end."""
    ttft_s: Percentiles
    tpot_s: Percentiles | None = None
    request_s: Percentiles
    wait_s: Percentiles
    """Time from sending a request until it is admitted."""
    in_flight: float
    """Mean number of requests in the system, including waiting ones."""
    utilisation: float
    """Share of time in which an iteration runs on a replica."""
    preemptions: int = 0
    cut: int = 0
    """Requests longer than the cache, shortened to it as an engine's length limit does."""
    missed: list[str] = []
    """Targets that are not met, with the values reached."""
    hours: list[ReplayHour] = []
    replicas_needed: int | None = None
    """Replicas needed in the most demanding hour."""
    usd_per_replica_h: Figure | None = None
    usd: Figure | None = None
    """Cost of `replicas` over all hours of the trace."""
    usd_by_hour: Figure | None = None
    """Cost if each hour runs only as many replicas as it needs."""
    notes: list[str] = []
    version: str = ""
