"""Latencies against load, made up: p95 passes 5 s at 20 requests a second, and 30 are too many."""

from __future__ import annotations

from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.time import LoadPoint, TargetEnd, UnderLoad

P95_S = {2.0: 2.0, 10.0: 3.0, 16.0: 4.0, 24.0: 6.0, 28.0: 12.0}
"""Load -> p95 of the whole request."""


def _figure(seconds: float) -> Figure:
    return Figure(seconds, seconds * 0.8, seconds * 1.25, "public")


def _percentiles(p95_s: float) -> Percentiles:
    return Percentiles(mean=_figure(0.8 * p95_s), p50=_figure(0.75 * p95_s), p95=_figure(p95_s), p99=_figure(1.1 * p95_s))


def sample_load() -> UnderLoad:
    """Five loads of one replica."""
    points = [
        LoadPoint(
            load=load,
            request_s=_percentiles(p95_s),
            ttft_s=_percentiles(p95_s / 20),
            tpot_s=_percentiles(p95_s / 200),
            busy=min(1.0, load / 10),
        )
        for load, p95_s in P95_S.items()
    ]
    end = TargetEnd(latency="request", share="p95", limit_s=5.0, load=Figure(20.0, 12.0, 25.0, "public"))
    return UnderLoad(by="rate", asked=16.0, points=points, full=30.0, ends=[end], burst=0.2, replicas=1, requests=320)
