"""Timing on a CUDA (or ROCm) device: events, a cold cache, graphs for short kernels, and a warm-up to a steady clock."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable
from typing import Any

import torch

from bench.machine.environment import last_cache_bytes

FLUSH_BYTES = 256 * 2**20
"""Bytes read between two samples to replace the contents of the last cache; twice its size where that is more. They are read, because lines
that were written have to be stored first, at the cost of the call that follows (11-22 % of a vector product's bandwidth)."""
LEAST_FLUSH_BYTES = 16 * 2**20
"""Smallest buffer: a GPU without room for it has no room for any point."""
BUSY_S = 0.02
"""Seconds of work queued while telemetry is read, so that clocks and power are those of a working device."""
SHORT_S = 50e-6
"""Kernels shorter than this are replayed from a graph: events resolve about half a microsecond."""
SPAN_S = 400e-6
"""Seconds between a pair of events when calls are replayed together."""
WARM_S = 0.05
"""Seconds of calls before the first sample."""
QUEUED = 10
"""Samples queued before one synchronisation."""
WSL_SHARE = 0.9
"""Share of a GPU's memory that torch may use under WSL."""
BATCH_S = 0.2
"""Longest time of a queued batch, so that a request to stop is seen."""


class CudaTimer:
    """Timer with CUDA events around single calls, with the L2 cache flushed in between."""

    def __init__(self, device: str) -> None:
        """Timer that takes the memory to flush the cache. Raises torch's error where less than `LEAST_FLUSH_BYTES` is free."""
        cache_bytes = int(last_cache_bytes(device))
        self._device = device
        self._flush = _room(max(FLUSH_BYTES, 2 * cache_bytes), device)
        self._graph: Any = None
        self._repeats = 1
        self._cold = True
        self.flushing = "read"
        """Way of emptying the cache: 'read', 'write', or 'none'."""

    def settle(self, call: Callable[[], Any]) -> float:
        """Warm up with at least three calls and 50 ms after the first; returns the seconds of one call on the device."""
        self._graph, self._repeats = None, 1
        call()
        torch.cuda.synchronize(self._device)
        begin = time.perf_counter()
        taken: list[float] = []
        while len(taken) < 3 or time.perf_counter() - begin < WARM_S:
            taken += self._timed(call, 1)
        rough_s = min(taken)
        if rough_s < SHORT_S:
            sets = int(getattr(call, "sets", 1))
            self._cold = sets > 1
            self._capture(call, sets * math.ceil(SPAN_S / max(rough_s, 1e-6) / sets))
        return rough_s

    def batch(self, call: Callable[[], Any], rough_s: float) -> list[float]:
        """Take up to `QUEUED` samples, in seconds of one call."""
        if self._graph is not None:
            return [seconds / self._repeats for seconds in self._timed(self._graph.replay, QUEUED)]
        return self._timed(call, max(1, min(QUEUED, int(BATCH_S / max(rough_s, 1e-6)))))

    @property
    def cache(self) -> str:
        """'warm' when the last call replayed a graph on the same operands; 'cold' when they rotated or the cache was flushed."""
        return "cold" if self._graph is None or self._cold else "warm"

    def keep_busy(self, call: Callable[[], Any], rough_s: float) -> None:
        """Queue about `BUSY_S` of calls and return while they run."""
        work, seconds = (call, rough_s) if self._graph is None else (self._graph.replay, rough_s * self._repeats)
        for _ in range(max(1, min(2 * QUEUED, math.ceil(BUSY_S / max(seconds, 1e-6))))):
            work()

    def _timed(self, call: Callable[[], Any], count: int) -> list[float]:
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        refresh = getattr(call, "refresh", None)
        for start, end in pairs:
            if refresh is not None:
                refresh()
            if self.flushing == "read":
                self._flush.sum()
            elif self.flushing == "write":
                self._flush.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize(self._device)
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]

    def _capture(self, call: Callable[[], Any], repeats: int) -> None:
        """Record `repeats` calls as one graph; a call that cannot be captured is timed singly."""
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        try:
            with torch.cuda.stream(side):
                for _ in range(3):
                    call()
            torch.cuda.current_stream(self._device).wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(repeats):
                    call()
        except RuntimeError:
            torch.cuda.synchronize(self._device)
            return
        self._graph, self._repeats = graph, repeats


def _room(wanted_bytes: int, device: str) -> Any:
    """A tensor of `wanted_bytes`, or of as many as fit. Raises torch's error below `LEAST_FLUSH_BYTES`."""
    while True:
        try:
            return torch.zeros(wanted_bytes // 4, dtype=torch.float32, device=device)
        except torch.OutOfMemoryError:
            if wanted_bytes < 2 * LEAST_FLUSH_BYTES:
                raise
            wanted_bytes //= 2


def soak(device: str, seconds: float, stopping: Callable[[], bool], progress: Callable[[float], None]) -> None:
    """Multiply matrices until clocks and temperature are those of steady work; a cold device gives a higher score."""
    left = torch.randn(4096, 4096, device=device, dtype=torch.float16)
    right = torch.randn(4096, 4096, device=device, dtype=torch.float16)
    out = torch.empty_like(left)
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds and not stopping():
        for _ in range(20):
            torch.mm(left, right, out=out)
        torch.cuda.synchronize(device)
        progress(elapsed / seconds)


def refuse_foreign_kernels(device: str) -> None:
    """Raise `RuntimeError` where this torch has no kernels for the GPU: every operator would fail with "no kernel image"."""
    major, minor = torch.cuda.get_device_capability(device)
    built = [name.partition("_") for name in torch.cuda.get_arch_list()]
    exact = {int(number.rstrip("af")) for kind, _, number in built if kind == "sm" and number.rstrip("af").isdigit()}
    portable = {int(number.rstrip("af")) for kind, _, number in built if kind == "compute" and number.rstrip("af").isdigit()}
    here = 10 * major + minor
    same_generation = any(one // 10 == major and one <= here for one in exact)
    if built and exact | portable and not same_generation and not any(one <= here for one in portable):
        offered = ", ".join(torch.cuda.get_arch_list())
        raise RuntimeError(f"torch {torch.__version__} has no kernels for compute capability {major}.{minor}; it has {offered}")


def never_spill(device: str) -> None:
    """Limit torch to the GPU's own memory under WSL, whose driver would continue in host memory without an error, far slower."""
    if "microsoft" in platform.release().lower():
        torch.cuda.set_per_process_memory_fraction(WSL_SHARE, device)


def release(device: str) -> None:
    """Release the memory of the last point before the next one."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)


def allocated_bytes(device: str) -> float:
    """Bytes of the device's memory that tensors of this process hold."""
    return float(torch.cuda.memory_allocated(device))


def trouble(device: str) -> str:
    """Error with which a broken context answers a synchronisation; empty if the context works."""
    try:
        torch.cuda.synchronize(device)
    except RuntimeError as broken:
        return (str(broken).splitlines() or [type(broken).__name__])[0]
    return ""
