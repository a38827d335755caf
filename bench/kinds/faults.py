"""Deliberate faults, each of which the run has to notice and name before it continues with a working device."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import torch

from bench.machine import nvml
from bench.points import Bench, UnsupportedError
from bench.products.matmul import refuse_unsupported
from bench.protocol import OUT_OF_MEMORY, Point, Result, breaks_device, plain_result

HELD_BYTES = 2**30
START_S = 60.0
"""Time another process has to load torch and reach the GPU."""
ILLEGAL = "import torch; torch.zeros(4, device={device!r})[torch.tensor([10**6], device={device!r})]; torch.cuda.synchronize()"
HOLDING = "import torch; x = torch.zeros({held}, dtype=torch.int8, device={device!r}); print(1, flush=True); input()"
BUSY = (
    "import torch; x = torch.rand(8192, 8192, device={device!r}); print(1, flush=True)\nwhile True: x @ x; torch.cuda.synchronize()"
)


def measure_fault(bench: Bench, point: Point, fault: str) -> Result:
    """Seconds until the fault was noticed; status 'error' if it was not. Raises `UnsupportedError` if it cannot be caused here."""
    begin = time.perf_counter()
    said = FAULTS[fault](bench)
    missed = said or _works(bench)
    seconds = None if missed else time.perf_counter() - begin
    return plain_result(point, seconds, "s", {"fault": fault}, "error" if missed else "ok", missed)


def _out_of_memory(bench: Bench) -> str:
    try:
        torch.empty(int(64 * bench.device.memory_bytes), dtype=torch.int8, device=bench.device.torch_name)
    except (RuntimeError, MemoryError) as refused:
        known = isinstance(refused, MemoryError) or any(mark in str(refused).lower() for mark in OUT_OF_MEMORY)
        return "" if known else f"the message is not known as one of memory: {str(refused).splitlines()[0]}"
    return "64 times the memory was given without an error"


def _unsupported(bench: Bench) -> str:
    try:
        refuse_unsupported(bench.device, "fp4")
    except UnsupportedError:
        return ""
    raise UnsupportedError("this device has every dtype that the suites measure")


def _illegal_access(bench: Bench) -> str:
    """Cause an illegal access in a separate process, because the fault ends every context of its process."""
    code = ILLEGAL.format(device=_gpu(bench))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=START_S, check=False)
    if done.returncode == 0:
        return "an index beyond the end went unnoticed"
    return "" if breaks_device(done.stderr) else "the message is not known as one of a broken device"


def _memory_held(bench: Bench) -> str:
    before, _ = torch.cuda.mem_get_info(_gpu(bench))

    def look() -> str:
        after, _ = torch.cuda.mem_get_info(_gpu(bench))
        return "" if before - after >= HELD_BYTES else "a GiB that another process holds does not show"

    return _beside(HOLDING.format(held=HELD_BYTES, device=_gpu(bench)), look)


def _neighbour(bench: Bench) -> str:
    meter = bench.meter
    if meter is None:
        raise UnsupportedError("NVML does not report on this GPU")

    def look() -> str:
        time.sleep(2.0)
        busy = meter.busy_percent()
        return "" if busy is not None and busy > nvml.BUSY_PERCENT else f"a process that multiplies all the time shows as {busy} %"

    return _beside(BUSY.format(device=_gpu(bench)), look)


FAULTS: dict[str, Callable[[Bench], str]] = {
    "out-of-memory": _out_of_memory,
    "unsupported-dtype": _unsupported,
    "illegal-access": _illegal_access,
    "memory-held": _memory_held,
    "busy-neighbour": _neighbour,
}
"""Name of a fault -> function that returns why it was not noticed; '' if it was."""


def _gpu(bench: Bench) -> str:
    if bench.device.is_cpu:
        raise UnsupportedError("it takes a GPU")
    return bench.device.torch_name


def _beside(code: str, look: Callable[[], str]) -> str:
    """Answer of `look` while another process runs `code`, which prints a line once it has begun."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as other:
        try:
            assert other.stdout is not None
            return look() if other.stdout.readline() else "the other process could not use the GPU"
        finally:
            other.kill()


def _works(bench: Bench) -> str:
    try:
        total = float(torch.ones(1024, device=bench.device.torch_name).sum())
    except RuntimeError as broken:
        return f"the device does not work afterwards: {str(broken).splitlines()[0]}"
    return "" if total == 1024 else f"the device computes wrongly afterwards: {total:g} instead of 1024"
