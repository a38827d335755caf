"""Costs in time or memory without work: launches of empty operators, a process with torch, and unused blocks of the allocator."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.kinds.training import training_step
from bench.kinds.transformer import GPU_SHAPE
from bench.points import Bench, UnsupportedError, samples_of
from bench.protocol import Point, Result, plain_result
from bench.timing import CpuTimer, Timing

OPERATORS = 200
"""Operators launched back to back in one sample."""
PARALLEL_ELEMENTS = 65536
"""Elements of the smallest elementwise operator that two threads share: twice torch's grain of 32768."""


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


def _latency(point: Point, timed: Timing, parameters: dict[str, Any]) -> Result:
    share = 1.0 / parameters["operators"]
    plain = plain_result(point, timed.call_s * share, "s", parameters, timed.status, timed.detail)
    return replace(plain, low=timed.low_s * share, high=timed.high_s * share, **samples_of(timed, share))


STEPS = 3
"""Training steps until the allocator has reserved everything."""


def measure_context(bench: Bench, point: Point) -> Result:
    """Bytes of a process before its first tensor: on a GPU context and loaded kernels, on a CPU resident memory."""
    if bench.device.is_cpu:
        if bench.resident_bytes is None:
            raise UnsupportedError("this system does not say what is resident")
        return plain_result(point, bench.resident_bytes, "B", {"of": "resident memory, torch loaded"})
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(bench.device.torch_name)
    held = float(total - free) - torch.cuda.memory_reserved(bench.device.torch_name)
    parameters = {"of": "device memory outside torch's allocator", "in_use_before_bytes": bench.used_before_bytes}
    if bench.used_before_bytes is None:
        why = "memory of other programs is included: NVML did not report what was in use before"
        return plain_result(point, held, "B", parameters, "shared", why)
    own = held - bench.used_before_bytes
    if own <= 0:
        why = "others gave memory back during the run, so that this process's part is not known"
        return plain_result(point, None, "B", parameters, "error", why)
    return plain_result(point, own, "B", parameters)


def measure_slack(bench: Bench, point: Point, batch: int, sequence: int) -> Result:
    """Bytes that torch's allocator reserved beyond the peak allocation of a training step. Raises `UnsupportedError` on a CPU."""
    device = bench.device.torch_name
    if bench.device.is_cpu:
        raise UnsupportedError("on a CPU torch keeps no pool of its own")
    step = training_step(GPU_SHAPE, device, batch, sequence, "bf16")
    step()
    torch.cuda.synchronize(device)
    still = float(torch.cuda.memory_allocated(device))
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize(device)
    allocated, reserved = float(torch.cuda.max_memory_allocated(device)), float(torch.cuda.max_memory_reserved(device))
    parameters = {
        "of": "reserved and not allocated at the peak of a training step",
        "allocated_bytes": allocated - still,
        "peak_allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "model": GPU_SHAPE.name,
        "batch": batch,
        "sequence": sequence,
    }
    return plain_result(point, max(1.0, reserved - allocated), "B", parameters)


def resident_bytes() -> float | None:
    """Resident memory of this process in bytes; None if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as source:  # noqa: PTH123  # a path of the kernel, read once
            pages = int(source.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    import resource

    return float(pages * resource.getpagesize())
