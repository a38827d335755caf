"""The cost of an operator that does no work: the least time of small models and short steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.points import Bench, plain_result, samples_of
from bench.protocol import Point, Result
from bench.timing import CpuTimer, Timed

OPERATORS = 200
"""Operators launched back to back in one sample."""
PARALLEL_ELEMENTS = 65536
"""Twice torch's grain of 32768 elements: the smallest elementwise operator that two threads share."""


def measure_eager(bench: Bench, point: Point) -> Result:
    """Seconds of host time per operator on one element, called from Python one after the other."""
    cell = torch.zeros(1, device=bench.device.torch_name)
    call = _repeated(lambda: cell.add_(1.0), bench)
    return _latency(point, bench.time(call, point.cap_s, whole=False, timer=CpuTimer()), {"operators": OPERATORS, "elements": 1})


def measure_kernel(bench: Bench, point: Point) -> Result:
    """Seconds of the smallest operator on the device itself: on a GPU from a graph, on a CPU with every thread woken."""
    if bench.device.is_cpu:
        cells = torch.zeros(PARALLEL_ELEMENTS * max(1, bench.device.threads // 2))
        call = _repeated(lambda: cells.add_(1.0), bench)
        timed = bench.time(call, point.cap_s, whole=False)
        return _latency(point, timed, {"operators": OPERATORS, "elements": cells.numel(), "threads": bench.device.threads})
    cell = torch.zeros(1, device=bench.device.torch_name)
    timed = bench.time(lambda: cell.add_(1.0), point.cap_s)
    return _latency(point, timed, {"operators": 1, "elements": 1, "cache": getattr(bench.timer, "cache", "warm")})


def _repeated(call: Callable[[], Any], bench: Bench) -> Callable[[], None]:
    def several() -> None:
        for _ in range(OPERATORS):
            call()
        if not bench.device.is_cpu:
            torch.cuda.synchronize(bench.device.torch_name)

    return several


def _latency(point: Point, timed: Timed, parameters: dict[str, Any]) -> Result:
    share = 1.0 / parameters["operators"]
    plain = plain_result(point, timed.median_s * share, "s", parameters, timed.status, timed.detail)
    return replace(plain, low=timed.low_s * share, high=timed.high_s * share, **samples_of(timed, share))
