"""Latencies of one row of a plan at other loads than the one it was planned for."""

from __future__ import annotations

from typing import Literal

import msgspec

from planner.engine.answers.figure import Figure, Percentiles

Latency = Literal["request", "ttft", "tpot"]
"""The whole request, its first token, or the time between tokens."""


class LoadPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latencies at one load."""

    load: float
    """Requests a second of the whole deployment, or requests in flight where clients wait for their answers."""
    request_s: Percentiles
    ttft_s: Percentiles
    tpot_s: Percentiles | None = None
    """Mean time between the tokens of a request; None where an answer is one token."""
    busy: float
    """Share of the time in which a replica works."""


class TargetEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The highest load at which a limit on a latency is kept."""

    latency: Latency
    share: str
    """'p50', 'p95' or 'p99'."""
    limit_s: float
    load: Figure | None
    """Load up to which the limit is kept; None where it is not kept at the lowest load either."""


class UnderLoad(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latencies against the load, at each of its points by the method of the plan."""

    by: Literal["rate", "in-flight"]
    """Unit of the load: requests a second, or requests in flight."""
    asked: float
    """The load of the plan."""
    points: list[LoadPoint]
    """Points from low to high, only loads that the replicas keep up with."""
    full: float | None = None
    """Requests a second from which on more come than are answered; None where clients wait for their answers."""
    ends: list[TargetEnd]
    burst: float = 0.0
    """Share by which requests come faster than the load says, for which latencies are simulated."""
    replicas: int
    requests: int
    """Requests simulated at each point; 0 where formulas say what a closed loop takes."""
