"""Copies between a GPU and its host, in pinned memory both ways, several queued behind one another to hide the launches."""

from __future__ import annotations

import torch

from bench.points import Bench, rate_result
from bench.protocol import Point, Result

BYTES = 256 * 2**20
QUEUED = 4
"""Copies in one sample."""


def measure_transfer(bench: Bench, point: Point, way: str) -> Result:
    """Bytes per second host to device ('h2d') or back ('d2h')."""
    host = torch.empty(BYTES // 4, dtype=torch.float32, pin_memory=True).normal_()
    device = torch.randn(BYTES // 4, device=bench.device.torch_name)
    target, source = (device, host) if way == "h2d" else (host, device)

    def copies() -> None:
        for _ in range(QUEUED):
            target.copy_(source, non_blocking=True)

    timed = bench.time(copies, point.cap_s)
    parameters = {"bytes": BYTES, "queued": QUEUED, "pinned": True}
    return rate_result(point, timed, float(BYTES * QUEUED), "B/s", None, parameters, bytes=float(BYTES * QUEUED))
