"""Memory that holds no tensor: that of a process with torch, and what the allocator reserves without use."""

from __future__ import annotations

import gc
from typing import Any

import torch

from bench.kinds.training import training_step
from bench.kinds.transformer import GPU_SHAPE
from bench.points import Bench, UnsupportedError
from bench.protocol import Point, Result, utc_now

STEPS = 3
"""Training steps until the allocator has reserved all it will."""


def measure_context(bench: Bench, point: Point) -> Result:
    """Bytes of a process before its first tensor: on a GPU context and loaded kernels, on a CPU what is resident."""
    if bench.device.is_cpu:
        if bench.resident_bytes is None:
            raise UnsupportedError("this system does not say what is resident")
        return _bytes(point, bench.resident_bytes, "ok", "", {"of": "resident memory, torch loaded"})
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(bench.device.torch_name)
    held = float(total - free) - torch.cuda.memory_reserved(bench.device.torch_name)
    parameters = {"of": "device memory outside torch's allocator", "in_use_before_bytes": bench.used_before_bytes}
    if bench.used_before_bytes is None:
        return _bytes(
            point, held, "shared", "what other programs hold is in it: NVML did not tell what was in use before", parameters
        )
    own = held - bench.used_before_bytes
    if own <= 0:
        return _bytes(
            point, None, "error", "others gave memory back during the run, so that this process's part is not known", parameters
        )
    return _bytes(point, own, "ok", "", parameters)


def measure_slack(bench: Bench, point: Point, batch: int, sequence: int) -> Result:
    """Bytes torch's allocator reserved above what a training step had allocated at its peak. Raises `UnsupportedError` on a CPU."""
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
    return _bytes(point, max(1.0, reserved - allocated), "ok", "", parameters)


def resident_bytes() -> float | None:
    """Resident memory of this process in bytes; None where the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as source:  # noqa: PTH123  # a path of the kernel, read once
            pages = int(source.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    import resource

    return float(pages * resource.getpagesize())


def _bytes(point: Point, value: float | None, status: str, detail: str, parameters: dict[str, Any]) -> Result:
    return Result(
        point=point.id,
        kind=point.kind,
        dtype=None,
        parameters=parameters,
        value=value,
        low=value,
        high=value,
        unit="B",
        status=status,
        detail=detail,
        taken_at=utc_now(),
    )
