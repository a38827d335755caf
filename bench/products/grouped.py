"""Products of routed experts, several matrices at once, and products with weights of which two in four are zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.machine.environment import Device
from bench.points import Bench, UnsupportedError, rate_result
from bench.products.matmul import FLOAT_TYPES, operand_bytes, refuse_unsupported, rotating
from bench.protocol import Point, Result, breaks_device

SPARSE_NEEDS = (8, 0)
"""Compute capability from which tensor cores skip zeros."""


def grouped_operands(device: str, dtype: str, experts: int, tokens: int, n: int, k: int) -> tuple[Any, Any, Any]:
    """Rows of all experts one after the other, their weights, and the ends of each expert's rows."""
    kind = FLOAT_TYPES[dtype]
    rows = torch.randn(experts * tokens, k, device=device, dtype=kind)
    weights = torch.randn(experts, n, k, device=device, dtype=kind).transpose(1, 2)
    return rows, weights, torch.arange(tokens, experts * tokens + 1, tokens, device=device, dtype=torch.int32)


def measure_grouped(bench: Bench, point: Point, dtype: str, experts: int, tokens: int, n: int, k: int) -> Result:
    """FLOP/s of `experts` products of (tokens, k) by (k, n) in one call of torch. Raises `UnsupportedError`, `TooSlowError`."""
    refuse_unsupported(bench.device, dtype)
    flop = 2.0 * experts * tokens * n * k
    bench.refuse_if_slow(flop, dtype, point.cap_s, efficiency=0.1)
    moved = float(operand_bytes(dtype) * experts * (tokens * k + k * n + tokens * n))

    def make() -> Callable[[], Any]:
        rows, weights, ends = grouped_operands(bench.device.torch_name, dtype, experts, tokens, n, k)
        return lambda: torch._grouped_mm(rows, weights, offs=ends)  # noqa: SLF001  # public only since 2.10

    try:
        make()()
    except (RuntimeError, NotImplementedError, AttributeError, TypeError) as refused:
        raise _refusal(refused, "grouped products") from refused
    timed = bench.time(rotating(make, moved, bench.device), point.cap_s)
    shape = {"experts": experts, "tokens": tokens, "n": n, "k": k, "cache": getattr(bench.timer, "cache", "warm")}
    return rate_result(point, timed, flop, "FLOP/s", dtype, shape, flop=flop, bytes=moved)


def measure_sparse(bench: Bench, point: Point, dtype: str, m: int, n: int, k: int) -> Result:
    """FLOP/s, counted as for the dense product, with weights of which two in four are zero. Raises `UnsupportedError`."""
    refuse_unsparse(bench.device)
    refuse_unsupported(bench.device, dtype)
    flop = 2.0 * m * n * k
    place, kind = bench.device.torch_name, FLOAT_TYPES[dtype]

    def make() -> Callable[[], Any]:
        kept = torch.tensor([1, 1, 0, 0], device=place, dtype=kind).tile(n, k // 4)
        weights = torch.sparse.to_sparse_semi_structured(torch.randn(n, k, device=place, dtype=kind) * kept)
        tokens = torch.randn(m, k, device=place, dtype=kind).t()
        return lambda: torch.mm(weights, tokens)

    moved = operand_bytes(dtype) * (m * k + n * k * (0.5 + 1 / 16) + m * n)  # two bits give the place of each number that is kept
    try:
        make()()
    except (RuntimeError, NotImplementedError, AttributeError, TypeError) as refused:
        raise _refusal(refused, "2:4 sparse products") from refused
    timed = bench.time(rotating(make, moved, bench.device), point.cap_s)
    shape = {"m": m, "n": n, "k": k, "zeros": "2:4", "cache": getattr(bench.timer, "cache", "warm")}
    return rate_result(point, timed, flop, "FLOP/s", dtype, shape, flop=flop, bytes=moved)


def refuse_unsparse(device: Device) -> None:
    """Raise `UnsupportedError` if the device has no units that skip zeros."""
    if device.is_cpu:
        raise UnsupportedError("this CPU has no units that skip zeros")
    if device.capability is not None and torch.version.cuda is not None and device.capability < SPARSE_NEEDS:
        raise UnsupportedError(f"2:4 sparse products need compute capability {SPARSE_NEEDS[0]}.{SPARSE_NEEDS[1]}")


def _refusal(refused: Exception, what: str) -> Exception:
    """Error to raise: `refused` itself if the device is broken."""
    if breaks_device(str(refused)):
        return refused
    return UnsupportedError(f"torch refuses {what} here: {(str(refused).splitlines() or [type(refused).__name__])[0]}")
