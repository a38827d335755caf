"""The kinds of points: a function for each makes a job with a stable id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.kinds import (
    attention,
    bandwidth,
    collective,
    faults,
    inference,
    launch,
    networks,
    overheads,
    training,
    variants,
)
from bench.kinds.ranks import JOIN_S
from bench.kinds.transformer import BATCH, QWEN3_06B, SEQUENCE, Qwen3Shape
from bench.machine.environment import Device
from bench.points import Bench
from bench.products import grouped, matmul
from bench.protocol import Point, Result

HEADS, KV_HEADS, HEAD_DIM = QWEN3_06B.heads, QWEN3_06B.kv_heads, QWEN3_06B.head_dim
"""Sizes of the attention that is measured alone."""
STEP_CAP_S, PASS_CAP_S = 4.0, 3.0
"""Time limits of a training step, and of a pass of a whole decoder."""
STEP_TOKENS = f"{BATCH}x{SEQUENCE}"
COMPILING_S = 240.0
"""Time a compiler may take on few cores; beyond it the worker counts as hung."""


@dataclass(frozen=True, slots=True)
class Job:
    """A point and how it is measured."""

    point: Point
    run: Callable[[Bench], Result]
    needs_bytes: float = 0.0
    """Memory it takes, roughly. Once a point ran out of memory, those that need as much are not tried; 0: always tried."""


def gemm(device: Device, dtype: str, m: int, n: int, k: int, cap_s: float = 1.0, *, fast: bool = False) -> Job:
    """One matrix product; `fast`: fp8 that accumulates below fp32."""
    size = f"{m:,}³" if m == n == k else f"{m:,}×{n:,}×{k:,}"
    name, label = (f"{dtype}-fast", f"{dtype} (fast accumulation)") if fast else (dtype, dtype)
    point = _point(f"gemm/{name}/{m}x{n}x{k}", "gemm", f"GEMM {label} {size}", device, cap_s, expected_s=0.7 * cap_s)
    return Job(point, lambda bench: matmul.measure_gemm(bench, point, dtype, m, n, k, fast=fast))


def experts(device: Device, dtype: str, number: int, tokens: int, n: int, k: int) -> Job:
    """The products of `number` experts with as many tokens each."""
    name = f"grouped/{dtype}/{number}x{tokens}x{n}x{k}"
    point = _point(name, "grouped", f"experts {dtype} {number}×{tokens}×{n:,}×{k:,}", device, 0.6, expected_s=0.8)
    return Job(point, lambda bench: grouped.measure_grouped(bench, point, dtype, number, tokens, n, k))


def sparse(device: Device, dtype: str, m: int, n: int, k: int) -> Job:
    """One product of weights of which two in four are zero."""
    point = _point(
        f"gemm-sparse/{dtype}/{m}x{n}x{k}", "gemm-sparse", f"2:4 GEMM {dtype} {m:,}×{n:,}×{k:,}", device, 1.0, expected_s=1.0
    )
    return Job(point, lambda bench: grouped.measure_sparse(bench, point, dtype, m, n, k))


def gemv(device: Device, dtype: str, rows: int, columns: int, flush: str = "read") -> Job:
    """One token through a linear layer; `flush`: how the cache is emptied on a GPU."""
    name, label = f"gemv/{dtype}/{rows}x{columns}", f"GEMV {dtype} {rows:,}×{columns:,}"
    other = flush != "read"
    point = _point(
        f"{name}/flush-{flush}" if other else name,
        "gemv",
        f"{label}, flush {flush}" if other else label,
        device,
        1.0,
        expected_s=1.5,
    )
    return Job(point, lambda bench: bandwidth.measure_gemv(bench, point, dtype, rows, columns, flush))


def copy(device: Device, total_bytes: int, cap_s: float = 1.0) -> Job:
    """A copy of half of `total_bytes` onto the other half."""
    label = f"copy {total_bytes / 2**21:,.0f} MiB"
    point = _point("copy/memory", "copy", label, device, cap_s, expected_s=1.5 * cap_s)
    return Job(point, lambda bench: bandwidth.measure_copy(bench, point, total_bytes))


def eager(device: Device) -> Job:
    """Host time of an operator."""
    point = _point("launch/eager", "launch", "launch of an operator", device, 0.6, expected_s=0.5)
    return Job(point, lambda bench: launch.measure_eager(bench, point))


def kernel(device: Device) -> Job:
    """Device time of the smallest operator."""
    label = "smallest parallel operator" if device.is_cpu else "smallest kernel"
    point = _point("launch/kernel", "launch", label, device, 0.6, expected_s=0.5)
    return Job(point, lambda bench: launch.measure_kernel(bench, point))


def train(
    device: Device, shape: Qwen3Shape, dtype: str, batch: int = BATCH, sequence: int = SEQUENCE, cap_s: float = STEP_CAP_S
) -> Job:
    """One training step."""
    name = f"train/{shape.name}/{dtype}/{batch}x{sequence}"
    point = _point(name, "train", f"Qwen3 step w{shape.width} {dtype}", device, cap_s)
    return Job(point, lambda bench: training.measure_step(bench, point, shape, dtype, batch, sequence))


def triad(device: Device, total_bytes: int) -> Job:
    """A = b + s·c over three arrays."""
    point = _point("triad/memory", "triad", f"triad {total_bytes / 2**20:,.0f} MiB", device, 1.0)
    return Job(point, lambda bench: bandwidth.measure_triad(bench, point, total_bytes))


def read(device: Device, total_bytes: int) -> Job:
    """The sum of an array."""
    point = _point("read/memory", "read", f"read {total_bytes / 2**20:,.0f} MiB", device, 1.0)
    return Job(point, lambda bench: bandwidth.measure_read(bench, point, total_bytes))


def move(device: Device, way: str) -> Job:
    """A copy between host and GPU."""
    label = "host to device" if way == "h2d" else "device to host"
    point = _point(f"transfer/{way}", "transfer", label, device, 1.0)
    return Job(point, lambda bench: bandwidth.measure_transfer(bench, point, way))


def attend(device: Device, dtype: str, batch: int, sequence: int) -> Job:
    """Causal attention over whole prompts."""
    name = f"attention/{dtype}/{batch}x{HEADS}:{KV_HEADS}x{sequence}x{HEAD_DIM}"
    point = _point(name, "attention", f"attention {dtype} {batch}×{sequence:,}", device, 1.0)
    return Job(
        point,
        lambda bench: attention.measure_prefill_attention(bench, point, dtype, batch, HEADS, KV_HEADS, HEAD_DIM, sequence),
    )


def attend_cache(device: Device, dtype: str, batch: int, context: int) -> Job:
    """Attention of one new token over a cache."""
    name = f"attention-decode/{dtype}/{batch}x{HEADS}:{KV_HEADS}x{context}x{HEAD_DIM}"
    point = _point(name, "attention-decode", f"cache read {dtype} {batch}×{context:,}", device, 1.0)
    return Job(
        point,
        lambda bench: attention.measure_decode_attention(bench, point, dtype, batch, HEADS, KV_HEADS, HEAD_DIM, context),
    )


def attend_pages(device: Device, dtype: str, batch: int, context: int) -> Job:
    """Attention of one new token over a cache in pages."""
    name = f"attention-paged/{dtype}/{batch}x{HEADS}:{KV_HEADS}x{context}x{HEAD_DIM}"
    point = _point(name, "attention-paged", f"paged cache read {dtype} {batch}×{context:,}", device, 1.0)
    return Job(
        point,
        lambda bench: attention.measure_paged_attention(bench, point, dtype, batch, HEADS, KV_HEADS, HEAD_DIM, context),
    )


def prefill(device: Device, shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> Job:
    """A pass of prompts through the decoder."""
    name = f"prefill/{shape.name}/{dtype}/{batch}x{sequence}"
    point = _point(name, "prefill", f"prefill {_short(shape)} {batch}×{sequence:,}", device, PASS_CAP_S)
    return Job(point, lambda bench: inference.measure_prefill(bench, point, shape, dtype, batch, sequence), 2.5 * shape.parameters)


def decode(device: Device, shape: Qwen3Shape, dtype: str, batch: int, context: int) -> Job:
    """A decoding step: one more token for every sequence."""
    name = f"decode/{shape.name}/{dtype}/{batch}x{context}"
    point = _point(name, "decode", f"decode {_short(shape)} {batch} at {context:,}", device, PASS_CAP_S)
    return Job(point, lambda bench: inference.measure_decode(bench, point, shape, dtype, batch, context), 2.5 * shape.parameters)


def compiled(device: Device, shape: Qwen3Shape, dtype: str) -> Job:
    """A compiled training step; a minute or more of compiling may come first."""
    name = f"train-compiled/{shape.name}/{dtype}/{STEP_TOKENS}"
    label = f"compiled step {_short(shape)} {dtype}"
    point = Point(
        id=name,
        kind="train-compiled",
        label=label,
        device=device.torch_name,
        expected_s=60.0,
        cap_s=STEP_CAP_S,
        grace_s=COMPILING_S,
    )
    return Job(point, lambda bench: variants.measure_compiled(bench, point, shape, dtype, BATCH, SEQUENCE), 18.0 * shape.parameters)


def lora(device: Device, shape: Qwen3Shape) -> Job:
    """A training step of adapters alone."""
    point = _point(
        f"train-lora/{shape.name}/bf16/{STEP_TOKENS}", "train-lora", f"LoRA step {_short(shape)} bf16", device, STEP_CAP_S
    )
    return Job(point, lambda bench: variants.measure_lora(bench, point, shape, BATCH, SEQUENCE), 6.0 * shape.parameters)


def perceptron(device: Device, dtype: str, width: int, depth: int, batch: int) -> Job:
    """A training step of a multilayer perceptron."""
    point = _point(f"network/mlp/{dtype}/{width}x{depth}/{batch}", "network", f"MLP step {dtype} {width:,}×{depth}", device, 2.0)
    return Job(point, lambda bench: networks.measure_perceptron(bench, point, dtype, width, depth, batch))


def convolutional(device: Device, dtype: str, channels: int, image: int, batch: int) -> Job:
    """A training step of a convolutional network."""
    point = _point(
        f"network/cnn/{dtype}/{channels}x{image}/{batch}", "network", f"CNN step {dtype} {image}² × {batch}", device, 2.0
    )
    return Job(point, lambda bench: networks.measure_convolutional(bench, point, dtype, channels, image, batch))


def together(device: Device, op: str, ranks: int) -> Job:
    """A collective among `ranks` GPUs, or processes."""
    sizes = collective.CPU_SIZES if device.is_cpu else collective.gpu_sizes(device.memory_bytes)
    point = _point(f"collective/{op}/{ranks}", "collective", f"{op.replace('_', '-')} of {ranks}", device, 15.0, expected_s=5.0)
    return Job(point, lambda bench: collective.measure_collective(bench, point, op, ranks, sizes))


def together_across(device: Device, op: str, ranks: int, nodes: int) -> Job:
    """A collective among the ranks torchrun started, over `nodes` machines."""
    sizes = collective.CPU_SIZES if device.is_cpu else collective.gpu_sizes(device.memory_bytes)
    name, label = f"collective/{op}/{ranks}", f"{op.replace('_', '-')} of {ranks}"
    point = Point(
        id=name if nodes == 1 else f"{name}/{nodes}-nodes",
        kind="collective",
        label=label if nodes == 1 else f"{label}, {nodes} nodes",
        device=device.torch_name,
        expected_s=5.0,
        cap_s=15.0,
        grace_s=JOIN_S,
    )
    return Job(point, lambda bench: collective.measure_joined(bench, point, op, nodes, sizes))


def fault(device: Device, name: str) -> Job:
    """A fault made on purpose."""
    point = _point(f"fault/{name}", "fault", f"fault: {name.replace('-', ' ')}", device, 30.0, expected_s=5.0)
    return Job(point, lambda bench: faults.measure_fault(bench, point, name))


def context(device: Device) -> Job:
    """Memory of a process without a tensor."""
    label = "memory of the interpreter" if device.is_cpu else "memory of the context"
    point = _point("memory/context", "memory", label, device, 1.0, expected_s=0.1)
    return Job(point, lambda bench: overheads.measure_context(bench, point))


def slack(device: Device) -> Job:
    """Memory that the allocator reserves without use in a training step."""
    point = _point("memory/slack", "memory", "memory the allocator keeps", device, 5.0)
    return Job(point, lambda bench: overheads.measure_slack(bench, point, BATCH, SEQUENCE))


def _point(name: str, kind: str, label: str, device: Device, cap_s: float, expected_s: float | None = None) -> Point:
    rough_s = 1.4 * cap_s if expected_s is None else expected_s
    return Point(id=name, kind=kind, label=label, device=device.torch_name, expected_s=rough_s, cap_s=cap_s)


def _short(shape: Qwen3Shape) -> str:
    return f"{shape.parameters / 1e9:.1f} B" if shape.parameters >= 1e9 else f"{shape.parameters / 1e6:,.0f} M"
