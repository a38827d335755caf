"""A CPU and an H100 as the benchmark sees them, a bench on the CPU, and points to measure."""

from __future__ import annotations

import dataclasses

import torch

from bench.machine.environment import Device
from bench.points import Bench
from bench.protocol import Point
from bench.timing import CpuTimer

CPU = Device("cpu", "A CPU", 24 * 2.0**30, 32 * 2.0**20, 2, ("avx512_bf16",))
H100 = Device("cuda:0", "NVIDIA H100 80GB HBM3", 80e9, 50 * 2.0**20, 1, capability=(9, 0))


def bench_here() -> Bench:
    device = dataclasses.replace(CPU, threads=torch.get_num_threads())
    return Bench(device, CpuTimer(), lambda: False, lambda _fraction, _note: None, resident_bytes=2e8)


def a_point(kind: str, cap_s: float = 0.1) -> Point:
    """A point of `kind`; `cap_s`: at most so many seconds of it, in which a call on this CPU is sampled fifty times."""
    return Point(id=f"{kind}/test", kind=kind, label=kind, device="cpu", expected_s=1.0, cap_s=cap_s)
