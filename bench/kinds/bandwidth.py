"""Memory bandwidth: a plain copy, the matrix-vector product that token generation consists of, and copies between GPU and host.

On a CPU the arrays are larger than the last-level cache, or rotate until together they are; on a GPU the timer flushes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses

from bench.machine.environment import Device
from bench.points import Bench, rate_result
from bench.products.matmul import FLOAT_TYPES, Rotating, operand_bytes, refuse_unsupported
from bench.protocol import Point, Result

OTHER_FLUSHES = ("write", "none")
"""Ways of emptying a cache that make a vector product look too slow, and too fast."""
MOST_ON_CPU = 2**30
"""Largest array on a CPU: touching fresh pages costs about half a second per GiB, so more would make the run longer, not better."""
TRANSFERRED_BYTES = 256 * 2**20
QUEUED = 4
"""Copies in one sample."""


def working_set_bytes(device: Device) -> int:
    """Memory a bandwidth point uses: beyond twice the last cache, within a tenth of RAM (an eighth of a GPU)."""
    if device.is_cpu:
        return int(min(max(2 * device.cache_bytes, 256 * 2**20), MOST_ON_CPU, device.memory_bytes / 10))
    return int(min(2 * 2**30, device.memory_bytes / 8))


def measure_copy(bench: Bench, point: Point, total_bytes: int) -> Result:
    """Bytes read plus bytes written per second, copying one half of `total_bytes` onto the other."""
    count = total_bytes // 8
    source = torch.full((count,), 0.5, device=bench.device.torch_name)
    target = torch.full((count,), 0.25, device=bench.device.torch_name)
    return _streamed(bench, point, lambda: target.copy_(source), total_bytes, 8.0 * count)


def measure_triad(bench: Bench, point: Point, total_bytes: int) -> Result:
    """Bytes read plus bytes written per second by a = b + s·c, over three thirds of `total_bytes`."""
    count = total_bytes // 12
    place = bench.device.torch_name
    first, second = torch.rand(count, device=place), torch.rand(count, device=place)
    target = torch.empty(count, device=place)
    return _streamed(bench, point, lambda: torch.add(first, second, alpha=3.0, out=target), total_bytes, 12.0 * count)


def measure_read(bench: Bench, point: Point, total_bytes: int) -> Result:
    """Bytes read per second by the sum of an array, which writes almost nothing."""
    source = torch.rand(total_bytes // 4, device=bench.device.torch_name)
    return _streamed(bench, point, source.sum, total_bytes, 4.0 * source.numel())


def _streamed(bench: Bench, point: Point, call: Callable[[], Any], total_bytes: int, moved: float) -> Result:
    timed = bench.time(call, point.cap_s)
    parameters = {"bytes": total_bytes, "cache": cache_state(bench, total_bytes)}
    return rate_result(point, timed, moved, "B/s", None, parameters, bytes=moved)


def measure_gemv(bench: Bench, point: Point, dtype: str, rows: int, columns: int, flush: str = "read") -> Result:
    """Weight bytes read per second by a linear layer with one token; `flush`: how to empty a GPU's cache. Raises `UnsupportedError`."""
    refuse_unsupported(bench.device, dtype)
    one_bytes = rows * columns * operand_bytes(dtype)
    copies = 1 if flush == "none" else max(1, round(working_set_bytes(bench.device) / one_bytes))
    kind, place = FLOAT_TYPES[dtype], bench.device.torch_name
    weights = [torch.full((rows, columns), 0.5, dtype=kind, device=place) for _ in range(copies)]
    token = torch.randn(1, columns, device=place).to(kind)
    call = Rotating([functools.partial(F.linear, token, one) for one in weights])
    bench.timer.flushing = flush
    try:
        timed = bench.time(call, point.cap_s)
    finally:
        bench.timer.flushing = "read"  # also for the points after one that failed
    parameters = {"rows": rows, "columns": columns, "bytes": one_bytes, "cache": cache_state(bench, one_bytes * copies)}
    if not bench.device.is_cpu:
        parameters["flush"] = flush
    return rate_result(point, timed, float(one_bytes), "B/s", dtype, parameters, bytes=float(one_bytes), flop=2.0 * rows * columns)


def cache_state(bench: Bench, total_bytes: float) -> str:
    """'cold' when the data cannot have been in the last-level cache."""
    if not bench.device.is_cpu:
        return str(getattr(bench.timer, "cache", "cold"))
    return "cold" if total_bytes >= 2 * bench.device.cache_bytes else "warm"


def measure_transfer(bench: Bench, point: Point, way: str) -> Result:
    """Bytes per second host to device ('h2d') or back ('d2h')."""
    host = torch.empty(TRANSFERRED_BYTES // 4, dtype=torch.float32, pin_memory=True).normal_()
    device = torch.randn(TRANSFERRED_BYTES // 4, device=bench.device.torch_name)
    target, source = (device, host) if way == "h2d" else (host, device)

    def copies() -> None:
        for _ in range(QUEUED):
            target.copy_(source, non_blocking=True)

    timed = bench.time(copies, point.cap_s)
    parameters = {"bytes": TRANSFERRED_BYTES, "queued": QUEUED, "pinned": True}
    return rate_result(
        point, timed, float(TRANSFERRED_BYTES * QUEUED), "B/s", None, parameters, bytes=float(TRANSFERRED_BYTES * QUEUED)
    )
