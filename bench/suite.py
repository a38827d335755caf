"""Which points a run measures, the most telling first, so that a run stopped early has still said most of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench import bandwidth, launch, matmul, study, training
from bench.environment import Device
from bench.points import Bench
from bench.protocol import Point, Result
from bench.transformer import BATCH, CPU_SHAPE, GPU_SHAPE, SEQUENCE, SMOKE_SHAPE, Qwen3Shape

SUITES = ("quick", "study", "smoke")
"""`quick` calibrates the planner in under a minute; `study` measures training steps over model or batch sizes; `smoke` is the
self-test: three tiny points, not used for planning."""
WALL_CAP_S = {"quick": 300.0, "study": 900.0, "smoke": 60.0}
"""A run ends after this long whatever happens: no unbounded job is left behind on a rented box."""
SOAK_S = {"quick": 10.0, "study": 30.0, "smoke": 0.0}
"""Steady work on a GPU before the first figure."""
TRAINING_ROOM_BYTES = 8 * 2**30
"""The GPU training point (0.22 B parameters, logits of 152 k entries) needs about 6 GiB."""


@dataclass(frozen=True, slots=True)
class Job:
    """A point and how it is measured."""

    point: Point
    run: Callable[[Bench], Result]
    needs_bytes: float = 0.0
    """About the memory it takes; once a point ran out of it, those that need as much are not tried. 0: any has it."""


def jobs(suite: str, device: Device, wish: study.Wish = study.Wish()) -> list[Job]:  # noqa: B008  # frozen
    """The points of `suite` on `device`, in order; `wish` is about the study."""
    if suite == "study":
        steps = study.steps(wish, on_cpu=device.is_cpu, memory_bytes=device.memory_bytes)
        return [_study_step(device, step) for step in steps]
    if suite == "smoke":
        return [
            gemm(device, "fp32", 128, 128, 128, cap_s=0.3),
            copy(device, 2**24, cap_s=0.3),
            train(device, SMOKE_SHAPE, "fp32", 2, 32, cap_s=0.4),
        ]
    return _quick_cpu(device) if device.is_cpu else _quick_gpu(device)


def _quick_cpu(device: Device) -> list[Job]:
    """First figures within seconds; all sizes small enough for a laptop."""
    return [
        gemm(device, "bf16", 1024, 1024, 1024),
        gemm(device, "fp32", 1024, 1024, 1024),
        train(device, CPU_SHAPE, "bf16"),
        gemv(device, "bf16", 8192, 8192),
        copy(device, bandwidth.working_set_bytes(device)),
        eager(device),
        kernel(device),
        gemm(device, "bf16", 2048, 2048, 2048),
        gemm(device, "bf16", 1024, 32768, 256),
        gemm(device, "bf16", 1024, 768, 256),
        gemm(device, "bf16", 16, 4096, 4096),
        train(device, CPU_SHAPE, "fp32"),
        gemv(device, "fp32", 8192, 8192),
        gemm(device, "fp32", 2048, 2048, 2048),
        gemm(device, "fp32", 1024, 768, 256),
        gemm(device, "fp16", 1024, 1024, 1024),
        gemm(device, "int8", 1024, 1024, 1024),
        gemm(device, "bf16", 256, 256, 256),
        gemm(device, "fp32", 256, 256, 256),
    ]


def _quick_gpu(device: Device) -> list[Job]:
    """Large products for the ceilings, model-shaped and thin ones for the knee, then one training step."""
    found = [
        gemm(device, "bf16", 8192, 8192, 8192),
        gemv(device, "bf16", 28672, 8192),
        copy(device, bandwidth.working_set_bytes(device)),
        gemm(device, "fp16", 8192, 8192, 8192),
        eager(device),
        kernel(device),
        gemm(device, "fp8", 8192, 8192, 8192),
        gemm(device, "bf16", 4096, 4096, 4096),
        gemm(device, "bf16", 512, 8192, 8192),
        gemm(device, "bf16", 128, 8192, 8192),
        gemm(device, "bf16", 16, 28672, 8192),
        gemm(device, "bf16", 1024, 151936, 1024),
        gemm(device, "bf16", 1024, 3072, 1024),
        gemm(device, "tf32", 8192, 8192, 8192),
        gemm(device, "fp32", 4096, 4096, 4096),
        gemm(device, "int8", 8192, 8192, 8192),
        gemm(device, "bf16", 2048, 2048, 2048),
        gemm(device, "bf16", 1024, 1024, 1024),
    ]
    if device.memory_bytes >= TRAINING_ROOM_BYTES:
        found.insert(3, train(device, GPU_SHAPE, "bf16"))
    return found


def gemm(device: Device, dtype: str, m: int, n: int, k: int, cap_s: float = 1.0) -> Job:
    """One matrix product."""
    size = f"{m:,}³" if m == n == k else f"{m:,}×{n:,}×{k:,}"
    point = Point(
        id=f"gemm/{dtype}/{m}x{n}x{k}",
        kind="gemm",
        label=f"GEMM {dtype} {size}",
        device=device.torch_name,
        expected_s=0.7 * cap_s,
        cap_s=cap_s,
    )
    return Job(point, lambda bench: matmul.measure_gemm(bench, point, dtype, m, n, k))


def gemv(device: Device, dtype: str, rows: int, columns: int, cap_s: float = 1.0) -> Job:
    """One token through a linear layer."""
    label = f"GEMV {dtype} {rows:,}×{columns:,}"
    point = Point(
        id=f"gemv/{dtype}/{rows}x{columns}", kind="gemv", label=label, device=device.torch_name, expected_s=1.5, cap_s=cap_s
    )
    return Job(point, lambda bench: bandwidth.measure_gemv(bench, point, dtype, rows, columns))


def copy(device: Device, total_bytes: int, cap_s: float = 1.0) -> Job:
    """A copy of half of `total_bytes` onto the other half."""
    label = f"copy {total_bytes / 2**21:,.0f} MiB"
    point = Point(id="copy/memory", kind="copy", label=label, device=device.torch_name, expected_s=1.5 * cap_s, cap_s=cap_s)
    return Job(point, lambda bench: bandwidth.measure_copy(bench, point, total_bytes))


def eager(device: Device) -> Job:
    """Host time of an operator."""
    point = Point(
        id="launch/eager", kind="launch", label="launch of an operator", device=device.torch_name, expected_s=0.5, cap_s=0.6
    )
    return Job(point, lambda bench: launch.measure_eager(bench, point))


def kernel(device: Device) -> Job:
    """Device time of the smallest operator."""
    label = "smallest parallel operator" if device.is_cpu else "smallest kernel"
    point = Point(id="launch/kernel", kind="launch", label=label, device=device.torch_name, expected_s=0.5, cap_s=0.6)
    return Job(point, lambda bench: launch.measure_kernel(bench, point))


def _study_step(device: Device, step: study.Step) -> Job:
    """One point of the study."""
    job = train(device, step.shape, "bf16", step.batch, step.sequence, cap_s=study.CAP_S)
    label = f"Qwen3 step w{step.shape.width} {step.shape.parameters / 1e6:,.0f} M, {step.batch}×{step.sequence}"
    return replace(job, point=replace(job.point, label=label), needs_bytes=step.needs_bytes)


def train(device: Device, shape: Qwen3Shape, dtype: str, batch: int = BATCH, sequence: int = SEQUENCE, cap_s: float = 4.0) -> Job:
    """One training step."""
    point = Point(
        id=f"train/{shape.name}/{dtype}/{batch}x{sequence}",
        kind="train",
        label=f"Qwen3 step w{shape.width} {dtype}",
        device=device.torch_name,
        expected_s=1.4 * cap_s,
        cap_s=cap_s,
    )
    return Job(point, lambda bench: training.measure_step(bench, point, shape, dtype, batch, sequence))
