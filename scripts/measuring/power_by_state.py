"""Power of this machine's GPU by its activity: idle, launching short kernels one after the other, limited by memory, by products.

Writes one line of JSON per state: mean power by the driver's energy counter over two seconds, the driver's own power and its instant power
at the end. `python scripts/measuring/power_by_state.py > power.jsonl`, with torch in the same environment. Results are in docs/evidence/h200.md.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator

import pynvml
import torch
from torch.nn import functional

WARM_S, COUNTED_S = 0.7, 1.6
QUEUE = 0.1
"""Seconds of work that are launched before the host waits for them."""
State = tuple[str, Callable[[], object]]


def states() -> Iterator[State]:
    """Names of states, and the work that is repeated in each."""
    random = torch.randn(1 << 29, device="cuda").bfloat16()
    other = torch.empty_like(random)
    yield "idle with a context", lambda: time.sleep(0.05)
    tiny = torch.zeros(16, device="cuda")
    yield "short kernels, launched one by one", lambda: tiny.add_(1)
    yield "copy of 1 GiB", lambda: other.copy_(random)
    yield "sum of 1 GiB", random.sum
    yield "triad of 1 GiB in 16 bit", lambda: torch.add(random, random, alpha=2, out=other)
    half = random[: 1 << 28]
    yield "SiLU and product in 16 bit", lambda: functional.silu(half) * half
    matrix = random[: 28672 * 8192].view(28672, 8192)
    for rows in (1, 16, 64, 128, 256, 512, 2048):
        inputs = torch.randn(rows, 8192, device="cuda").bfloat16()
        yield f"product {rows}x28672x8192 in bf16", functools.partial(functional.linear, inputs, matrix)
    square = torch.randn(8192, 8192, device="cuda").bfloat16()
    yield "product 8192x8192x8192 in bf16", lambda: square @ square
    small = square[:1024, :1024].contiguous()
    yield "product 1024x1024x1024 in bf16", lambda: small @ small
    eight = square.to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    yield (
        "product 8192x8192x8192 in fp8",
        lambda: torch._scaled_mm(eight, eight.t(), one, one, out_dtype=torch.bfloat16),  # noqa: SLF001  # the only way
    )
    q = torch.randn(4, 16, 4096, 128, device="cuda").bfloat16()
    yield "attention of 4x16x4096x128, causal", lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True)


def repeat(work: Callable[[], object], seconds: float) -> None:
    """Repeat `work` for this time, with never more launched than takes a tenth of a second."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    at_once = max(1, round(QUEUE / (time.perf_counter() - start)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(at_once):
            work()
        torch.cuda.synchronize()


def main() -> None:
    """Measure every state and write a line for each."""
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    print(
        json.dumps({"device": torch.cuda.get_device_name(), "limit_w": pynvml.nvmlDeviceGetPowerManagementLimit(device) / 1000}),
        flush=True,
    )
    for name, work in states():
        repeat(work, WARM_S)
        start, before = time.perf_counter(), pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
        repeat(work, COUNTED_S)
        joules = (pynvml.nvmlDeviceGetTotalEnergyConsumption(device) - before) / 1000
        instant = pynvml.nvmlDeviceGetFieldValues(device, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
        found = {
            "state": name,
            "counted_w": round(joules / (time.perf_counter() - start), 1),
            "power_w": pynvml.nvmlDeviceGetPowerUsage(device) / 1000,
            "instant_w": instant.value.uiVal / 1000 if instant.nvmlReturn == pynvml.NVML_SUCCESS else None,
            "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
