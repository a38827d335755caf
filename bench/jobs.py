"""Kinds of points: a function for each makes a job with a stable id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.kinds import attention, bandwidth, collective, faults, inference, overheads, training, variants
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
"""Seconds that a compiler may take on few cores; beyond it the worker counts as hung."""


ATTENTIONS = {
    "attention": ("attention", attention.measure_prefill_attention),
    "attention-decode": ("cache read", attention.measure_decode_attention),
    "attention-paged": ("paged cache read", attention.measure_paged_attention),
}
"""Kind of attention -> its words, and its measuring function: causal, over a cache, over a cache in pages."""


@dataclass(frozen=True, slots=True)
class Job:
    """A point and the function that measures it."""

    point: Point
    run: Callable[[Bench], Result]
    needs_bytes: float = 0.0
    """Approximate memory. After a point that ran out of memory, points of the same need are not tried; 0: always tried."""


def gemm(device: Device, dtype: str, m: int, n: int, k: int, cap_s: float = 1.0, *, fast: bool = False) -> Job:
    """One matrix product; `fast`: fp8 that accumulates below fp32."""
    size = f"{m:,}³" if m == n == k else f"{m:,}×{n:,}×{k:,}"
    name, label = (f"{dtype}-fast", f"{dtype} (fast accumulation)") if fast else (dtype, dtype)
    measure = partial(matmul.measure_gemm, fast=fast)
    return _job(device, f"gemm/{name}/{m}x{n}x{k}", f"GEMM {label} {size}", cap_s, measure, dtype, m, n, k, expected_s=0.7 * cap_s)


def experts(device: Device, dtype: str, number: int, tokens: int, n: int, k: int) -> Job:
    """Products of `number` experts with the same number of tokens each."""
    name, label = f"grouped/{dtype}/{number}x{tokens}x{n}x{k}", f"experts {dtype} {number}×{tokens}×{n:,}×{k:,}"
    return _job(device, name, label, 0.6, grouped.measure_grouped, dtype, number, tokens, n, k, expected_s=0.8)


def sparse(device: Device, dtype: str, m: int, n: int, k: int) -> Job:
    """One product with weights of which two in four are zero."""
    name, label = f"gemm-sparse/{dtype}/{m}x{n}x{k}", f"2:4 GEMM {dtype} {m:,}×{n:,}×{k:,}"
    return _job(device, name, label, 1.0, grouped.measure_sparse, dtype, m, n, k, expected_s=1.0)


def gemv(device: Device, dtype: str, rows: int, columns: int, flush: str = "read") -> Job:
    """One token through a linear layer; `flush`: how the cache is emptied on a GPU."""
    name, label = f"gemv/{dtype}/{rows}x{columns}", f"GEMV {dtype} {rows:,}×{columns:,}"
    if flush != "read":
        name, label = f"{name}/flush-{flush}", f"{label}, flush {flush}"
    return _job(device, name, label, 1.0, bandwidth.measure_gemv, dtype, rows, columns, flush, expected_s=1.5)


def copy(device: Device, total_bytes: int, cap_s: float = 1.0) -> Job:
    """A copy of half of `total_bytes` onto the other half."""
    label = f"copy {total_bytes / 2**21:,.0f} MiB"
    return _job(device, "copy/memory", label, cap_s, bandwidth.measure_copy, total_bytes, expected_s=1.5 * cap_s)


def eager(device: Device) -> Job:
    """Host time of an operator."""
    return _job(device, "launch/eager", "launch of an operator", 0.6, overheads.measure_eager, expected_s=0.5)


def kernel(device: Device) -> Job:
    """Device time of the smallest operator."""
    label = "smallest parallel operator" if device.is_cpu else "smallest kernel"
    return _job(device, "launch/kernel", label, 0.6, overheads.measure_kernel, expected_s=0.5)


def train(
    device: Device, shape: Qwen3Shape, dtype: str, batch: int = BATCH, sequence: int = SEQUENCE, cap_s: float = STEP_CAP_S
) -> Job:
    """One training step."""
    name = f"train/{shape.name}/{dtype}/{batch}x{sequence}"
    return _job(device, name, f"Qwen3 step w{shape.width} {dtype}", cap_s, training.measure_step, shape, dtype, batch, sequence)


def stream(device: Device, kind: str, total_bytes: int) -> Job:
    """A = b + s·c over three arrays (triad), or the sum of one (read)."""
    measure = bandwidth.measure_triad if kind == "triad" else bandwidth.measure_read
    return _job(device, f"{kind}/memory", f"{kind} {total_bytes / 2**20:,.0f} MiB", 1.0, measure, total_bytes)


def move(device: Device, way: str) -> Job:
    """A copy between host and GPU."""
    label = "host to device" if way == "h2d" else "device to host"
    return _job(device, f"transfer/{way}", label, 1.0, bandwidth.measure_transfer, way)


def attend(device: Device, dtype: str, batch: int, length: int, kind: str = "attention") -> Job:
    """Attention over whole prompts, or for one new token over a cache of that length, depending on `kind`."""
    words, measure = ATTENTIONS[kind]
    name, label = f"{kind}/{dtype}/{batch}x{HEADS}:{KV_HEADS}x{length}x{HEAD_DIM}", f"{words} {dtype} {batch}×{length:,}"
    return _job(device, name, label, 1.0, measure, dtype, batch, HEADS, KV_HEADS, HEAD_DIM, length)


def prefill(device: Device, shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> Job:
    """A pass of prompts through the decoder."""
    name, label = f"prefill/{shape.name}/{dtype}/{batch}x{sequence}", f"prefill {_short(shape)} {batch}×{sequence:,}"
    given = (shape, dtype, batch, sequence)
    return _job(device, name, label, PASS_CAP_S, inference.measure_prefill, *given, needs_bytes=2.5 * shape.parameters)


def decode(device: Device, shape: Qwen3Shape, dtype: str, batch: int, context: int) -> Job:
    """A decoding step: one more token for every sequence."""
    name, label = f"decode/{shape.name}/{dtype}/{batch}x{context}", f"decode {_short(shape)} {batch} at {context:,}"
    given = (shape, dtype, batch, context)
    return _job(device, name, label, PASS_CAP_S, inference.measure_decode, *given, needs_bytes=2.5 * shape.parameters)


def compiled(device: Device, shape: Qwen3Shape, dtype: str) -> Job:
    """A compiled training step, which may be preceded by a minute or more of compiling."""
    name, label = f"train-compiled/{shape.name}/{dtype}/{STEP_TOKENS}", f"compiled step {_short(shape)} {dtype}"
    given, limits = (shape, dtype, BATCH, SEQUENCE), {"expected_s": 60.0, "grace_s": COMPILING_S}
    return _job(device, name, label, STEP_CAP_S, variants.measure_compiled, *given, needs_bytes=18.0 * shape.parameters, **limits)


def lora(device: Device, shape: Qwen3Shape) -> Job:
    """A training step of adapters only."""
    name, label = f"train-lora/{shape.name}/bf16/{STEP_TOKENS}", f"LoRA step {_short(shape)} bf16"
    given = (shape, BATCH, SEQUENCE)
    return _job(device, name, label, STEP_CAP_S, variants.measure_lora, *given, needs_bytes=6.0 * shape.parameters)


def perceptron(device: Device, dtype: str, width: int, depth: int, batch: int) -> Job:
    """A training step of a multilayer perceptron."""
    name, label = f"network/mlp/{dtype}/{width}x{depth}/{batch}", f"MLP step {dtype} {width:,}×{depth}"
    return _job(device, name, label, 2.0, variants.measure_perceptron, dtype, width, depth, batch)


def convolutional(device: Device, dtype: str, channels: int, image: int, batch: int) -> Job:
    """A training step of a convolutional network."""
    name, label = f"network/cnn/{dtype}/{channels}x{image}/{batch}", f"CNN step {dtype} {image}² × {batch}"
    return _job(device, name, label, 2.0, variants.measure_convolutional, dtype, channels, image, batch)


def collective_job(device: Device, op: str, ranks: int, nodes: int = 0) -> Job:
    """A collective among `ranks` GPUs or processes of this machine, or, with `nodes`, among the ranks that torchrun started on these nodes."""
    sizes = collective.CPU_SIZES if device.is_cpu else collective.gpu_sizes(device.memory_bytes)
    name, label = f"collective/{op}/{ranks}", f"{op.replace('_', '-')} of {ranks}"
    if nodes > 1:
        name, label = f"{name}/{nodes}-nodes", f"{label}, {nodes} nodes"
    measure = partial(collective.measure_joined, nodes=nodes) if nodes else partial(collective.measure_collective, ranks=ranks)
    return _job(device, name, label, 15.0, partial(measure, op=op, sizes=sizes), expected_s=5.0, grace_s=JOIN_S)


def fault(device: Device, name: str) -> Job:
    """A deliberate fault."""
    return _job(device, f"fault/{name}", f"fault: {name.replace('-', ' ')}", 30.0, faults.measure_fault, name, expected_s=5.0)


def context(device: Device) -> Job:
    """Memory of a process without a tensor."""
    label = "memory of the interpreter" if device.is_cpu else "memory of the context"
    return _job(device, "memory/context", label, 1.0, overheads.measure_context, expected_s=0.1)


def slack(device: Device) -> Job:
    """Memory that the allocator reserves without use in a training step."""
    return _job(device, "memory/slack", "memory the allocator keeps", 5.0, overheads.measure_slack, BATCH, SEQUENCE)


def _job(
    device: Device,
    name: str,
    label: str,
    cap_s: float,
    measure: Callable[..., Result],
    *given: Any,
    expected_s: float | None = None,
    grace_s: float = 0.0,
    needs_bytes: float = 0.0,
) -> Job:
    """Job `name`, whose first part is its kind; `given` goes to `measure` after the bench and the point."""
    point = Point(
        id=name,
        kind=name.partition("/")[0],
        label=label,
        device=device.torch_name,
        expected_s=1.4 * cap_s if expected_s is None else expected_s,
        cap_s=cap_s,
        grace_s=grace_s,
    )
    return Job(point, lambda bench: measure(bench, point, *given), needs_bytes)


def _short(shape: Qwen3Shape) -> str:
    return f"{shape.parameters / 1e9:.1f} B" if shape.parameters >= 1e9 else f"{shape.parameters / 1e6:,.0f} M"
