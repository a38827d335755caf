"""Points of each suite, the most informative first, so that a run stopped early has measured what matters most."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench import jobs as make
from bench import study
from bench.jobs import Job
from bench.kinds import bandwidth
from bench.kinds.faults import FAULTS
from bench.kinds.ranks import OPERATIONS, World
from bench.kinds.transformer import CPU_SHAPE, GPU_SHAPE, QWEN3_06B, QWEN3_8B, SMOKE_SHAPE
from bench.machine.environment import Device
from bench.products import matmul
from bench.protocol import PROMISED_S

WALL_CAP_S = {
    "quick": 300.0,
    "standard": PROMISED_S["standard"],
    "study": PROMISED_S["study"],
    "collectives": 300.0,
    "prove": 600.0,
    "smoke": 60.0,
}
"""Seconds after which a run ends in any case, so that no unlimited job stays behind on a rented machine."""
SOAK_S = {"quick": 10.0, "standard": 30.0, "study": 30.0, "collectives": 0.0, "prove": 20.0, "smoke": 0.0}
"""Seconds of steady work on a GPU before the first sample."""
ROUNDS = 3
"""Rounds of the points that decide the ceilings in the standard suite, with other points in between to show a drift."""
ROUND_CAP_S = 0.6
QUICK_CAP_S = 0.4
"""Seconds for a model's products in the quick suite, so that the suite keeps its own time limit."""
QUICK_CPU_BYTES = 64 * 2**20
"""Maximum number of bytes of such a product's weights on a CPU: filling larger ones with random numbers takes longer than timing them."""
HOST_BOUND_TOKENS = 64
"""Tokens of a training step so small that a GPU waits for its host, which it times."""
TRAINING_ROOM_BYTES = 8 * 2**30
"""Memory of the GPU training point (0.22 B parameters, logits of 152 k entries), which needs about 6 GiB."""
EXPERT_TOKENS = (1, 4, 16, 64, 256)
"""Tokens of each expert."""
GPU_EXPERTS, CPU_EXPERTS = (64, 1536, 2048), (8, 512, 1024)
"""Number of experts, and outputs and inputs of each: half the experts of Qwen3-30B-A3B, and some small enough for a CPU."""
SERVING_ROOM_BYTES = 22 * 2**30
"""Memory for an 8 B decoder in 16 bit and its cache."""
PROVED = ("prefill", "decode", "transfer", "attention-paged", "gemm-sparse", "grouped")
"""Kinds of the standard suite that a first run has to show."""
Shape = tuple[int, int, int]
"""m, n, k of a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """Points to measure in addition to the suite's own, and the parameters of a study."""

    study: study.StudyOptions = study.StudyOptions()  # noqa: RUF009  # frozen
    shapes: tuple[Shape, ...] = ()
    """Products of the model now planned."""
    ranks: int = 1
    """Number of GPUs, or CPU processes, of the collectives."""
    world: World | None = None
    """Ranks that torchrun started; None if it did not start this process."""


def jobs(suite: str, device: Device, options: SuiteOptions = SuiteOptions()) -> list[Job]:  # frozen
    """Points of `suite` on `device`, in order; a point is measured in as many rounds as it is listed."""
    if suite == "study":
        steps = study.steps(options.study, on_cpu=device.is_cpu, memory_bytes=device.memory_bytes)
        return [_study_step(device, step) for step in steps]
    if suite == "collectives":
        if options.world is not None:
            return [make.collective_job(device, op, options.world.ranks, options.world.nodes) for op in OPERATIONS]
        return [make.collective_job(device, op, options.ranks) for op in OPERATIONS if options.ranks > 1]
    if suite == "prove":
        return _prove(device)
    if suite == "smoke":
        return [
            make.gemm(device, "fp32", 128, 128, 128, cap_s=0.3),
            make.copy(device, 2**24, cap_s=0.3),
            make.train(device, SMOKE_SHAPE, "fp32", 2, 32, cap_s=0.4),
        ]
    found = _quick_cpu(device) if device.is_cpu else _quick_gpu(device)
    if suite == "standard":
        found = _standard(device, found, options)
    elif device.is_cpu:
        found += found  # a second round: the clock of a shared host changes by a tenth from one half-minute to the next
    small = [(m, n, k) for m, n, k in options.shapes if not device.is_cpu or 2 * n * k <= QUICK_CPU_BYTES]
    asked = [make.gemm(device, half(device), *shape, cap_s=QUICK_CAP_S) for shape in small]
    there = {job.point.id for job in found}
    return found + [job for job in asked if job.point.id not in there]


def _quick_cpu(device: Device) -> list[Job]:
    """Points of the quick suite on a CPU: first figures within seconds, with sizes small enough for a laptop."""
    return [
        make.gemm(device, "bf16", 1024, 1024, 1024),
        make.gemm(device, "fp32", 1024, 1024, 1024),
        make.train(device, CPU_SHAPE, "bf16"),
        make.gemv(device, "bf16", 8192, 8192),
        make.copy(device, bandwidth.working_set_bytes(device)),
        make.eager(device),
        make.kernel(device),
        make.gemm(device, "bf16", 2048, 2048, 2048),
        make.gemm(device, "bf16", 1024, 32768, 256),
        make.gemm(device, "bf16", 1024, 768, 256),
        make.gemm(device, "bf16", 16, 4096, 4096),
        make.train(device, CPU_SHAPE, "fp32"),
        make.gemv(device, "fp32", 8192, 8192),
        make.gemm(device, "fp32", 2048, 2048, 2048),
        make.gemm(device, "fp32", 1024, 768, 256),
        make.gemm(device, "fp16", 1024, 1024, 1024),
        make.gemm(device, "int8", 1024, 1024, 1024),
        make.gemm(device, "bf16", 256, 256, 256),
        make.gemm(device, "fp32", 256, 256, 256),
    ]


def half(device: Device) -> str:
    """16-bit dtype that the device has units for: below compute capability 8.0 (T4, V100) that is fp16."""
    return "fp16" if device.capability is not None and device.capability < matmul.CUDA_NEEDS["bf16"] else "bf16"


def _quick_gpu(device: Device) -> list[Job]:
    """Points of the quick suite on a GPU: large products for ceilings, model-shaped and thin ones for the knee, then training steps."""
    main = half(device)
    found = [
        make.gemm(device, main, 8192, 8192, 8192),
        make.gemv(device, main, 28672, 8192),
        make.copy(device, bandwidth.working_set_bytes(device)),
        *([make.gemm(device, "fp16", 8192, 8192, 8192)] if main != "fp16" else []),
        make.train(device, CPU_SHAPE, main, 1, HOST_BOUND_TOKENS),
        make.eager(device),
        make.kernel(device),
        make.gemm(device, "fp8", 8192, 8192, 8192),
        make.gemm(device, "fp8", 8192, 8192, 8192, fast=True),
        make.gemm(device, main, 4096, 4096, 4096),
        make.gemm(device, main, 512, 8192, 8192),
        make.gemm(device, main, 128, 8192, 8192),
        make.gemm(device, main, 16, 28672, 8192),
        make.gemm(device, main, 1024, 151936, 1024),
        make.gemm(device, main, 1024, 3072, 1024),
        make.gemm(device, main, 256, 256, 256),
        make.gemm(device, "tf32", 8192, 8192, 8192),
        make.gemm(device, "fp32", 4096, 4096, 4096),
        make.gemm(device, "int8", 8192, 8192, 8192),
        make.gemm(device, "fp4", 8192, 8192, 8192),
        make.gemm(device, main, 2048, 2048, 2048),
        make.gemm(device, main, 1024, 1024, 1024),
    ]
    if device.memory_bytes >= TRAINING_ROOM_BYTES:
        found.insert(3, make.train(device, GPU_SHAPE, main))
    return found


def _standard(device: Device, quick: Sequence[Job], options: SuiteOptions) -> list[Job]:
    """Points that determine the ceilings in rounds with others between them, then whole models; long points come last."""
    decisive = [job for job in quick if job.point.kind in {"gemm", "gemv", "copy", "launch"}]
    decisive = [replace(job, point=replace(job.point, cap_s=min(job.point.cap_s, ROUND_CAP_S))) for job in decisive]
    models = [job for job in quick if job.point.kind == "train"]
    whole = bandwidth.working_set_bytes(device)
    more = [
        make.stream(device, "triad", whole),
        make.stream(device, "read", whole),
        *(_more_cpu(device) if device.is_cpu else _more_gpu(device)),
    ]
    shapes = [make.gemm(device, half(device), *shape, cap_s=ROUND_CAP_S) for shape in options.shapes]
    rounds = [list(decisive) for _ in range(ROUNDS)]
    for number, jobs_of_round in enumerate(rounds[1:], 1):
        random.Random(number).shuffle(jobs_of_round)  # noqa: S311  # an order that is the same every time
    collectives = [make.collective_job(device, op, options.ranks) for op in OPERATIONS] if options.ranks > 1 else []
    late = [job for job in more if job.point.kind == "train-compiled"]
    early = [job for job in more if job not in late]
    return [make.context(device), *rounds[0], *models, *shapes, *rounds[1], *early, *collectives, *rounds[2], *late]


def _more_cpu(device: Device) -> list[Job]:
    return [
        make.attend(device, "bf16", 1, 1024),
        make.attend(device, "bf16", 8, 4096, "attention-decode"),
        make.prefill(device, CPU_SHAPE, "bf16", 1, 512),
        make.decode(device, CPU_SHAPE, "bf16", 1, 512),
        make.decode(device, CPU_SHAPE, "bf16", 8, 512),
        make.lora(device, CPU_SHAPE),
        make.perceptron(device, "bf16", 1024, 4, 256),
        make.convolutional(device, "fp32", 32, 32, 16),
        make.attend(device, "fp32", 1, 512),
        make.prefill(device, CPU_SHAPE, "fp32", 1, 512),
        make.gemm(device, "bf16", 4096, 4096, 4096),
        make.compiled(device, CPU_SHAPE, "bf16"),
        *_experts(device, "bf16", CPU_EXPERTS),
    ]


def _experts(device: Device, dtype: str, shape: Shape) -> list[Job]:
    return [make.experts(device, dtype, shape[0], tokens, *shape[1:]) for tokens in EXPERT_TOKENS]


def _more_gpu(device: Device) -> list[Job]:
    main = half(device)
    found = [
        make.attend(device, main, 4, 2048),
        make.attend(device, main, 32, 4096, "attention-decode"),
        make.move(device, "h2d"),
        make.move(device, "d2h"),
        make.prefill(device, QWEN3_06B, main, 1, 2048),
        make.decode(device, QWEN3_06B, main, 1, 512),
        make.decode(device, QWEN3_06B, main, 32, 4096),
        make.attend(device, main, 1, 8192),
        make.perceptron(device, main, 4096, 8, 4096),
        make.convolutional(device, main, 64, 64, 256),
        make.gemm(device, main, 16384, 8192, 8192),
        make.gemm(device, main, 4096, 14336, 4096),
        make.attend(device, main, 32, 4096, "attention-paged"),
        make.gemm(device, "mxfp8", 8192, 8192, 8192),
        make.sparse(device, main, 8192, 8192, 8192),
        *_experts(device, main, GPU_EXPERTS),
    ]
    if device.memory_bytes >= TRAINING_ROOM_BYTES:
        found += [
            make.slack(device),
            *([make.lora(device, GPU_SHAPE)] if main == "bf16" else []),
            make.compiled(device, GPU_SHAPE, main),
        ]
    if device.memory_bytes >= SERVING_ROOM_BYTES:
        found += [
            make.decode(device, QWEN3_8B, main, 1, 512),
            make.prefill(device, QWEN3_8B, main, 1, 2048),
            make.decode(device, QWEN3_8B, main, 8, 2048),
            make.train(device, QWEN3_06B, main),
            make.train(device, QWEN3_06B, main, 4, 1024),
        ]
    return found


def _prove(device: Device) -> list[Job]:
    """Points of the suite `prove`: every kind once, all ways of flushing a cache, and each fault."""
    whole = bandwidth.working_set_bytes(device)
    steps = [job for job in (_more_cpu if device.is_cpu else _more_gpu)(device) if job.point.kind in PROVED]
    quick = _quick_cpu(device) if device.is_cpu else _quick_gpu(device)
    ways = [] if device.is_cpu else [make.gemv(device, half(device), 28672, 8192, flush=way) for way in bandwidth.OTHER_FLUSHES]
    faulty = [make.fault(device, name) for name in FAULTS]
    return [
        make.context(device),
        *quick,
        make.stream(device, "triad", whole),
        make.stream(device, "read", whole),
        *ways,
        *steps,
        *faulty,
    ]


def _study_step(device: Device, step: study.Step) -> Job:
    """One point of the study."""
    job = make.train(device, step.shape, half(device), step.batch, step.sequence, cap_s=study.CAP_S)
    label = f"Qwen3 step w{step.shape.width} {step.shape.parameters / 1e6:,.0f} M, {step.batch}×{step.sequence}"
    return replace(job, point=replace(job.point, label=label), needs_bytes=step.needs_bytes)
