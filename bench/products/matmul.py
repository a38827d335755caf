"""Matrix products C = A·B in every dtype that the device supports: the ceiling of all compute-bound work.

Inputs are random (zeros draw less power and clock higher), A is row-major and B column-major as in a linear layer, the
output is written in place. 2·m·n·k operations per call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from bench.machine.environment import Device, amd_architecture
from bench.points import Bench, UnsupportedError, rate_result
from bench.protocol import Point, Result, breaks_device

FLOAT_TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
CUDA_NEEDS = {"tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9), "int8": (7, 5), "fp4": (10, 0), "mxfp8": (10, 0)}
"""Compute capability from which a dtype has its own units; below, it is emulated or refused."""
CPU_NEEDS = {"fp16": ("avx512_fp16", "amx_fp16", "asimdhp")}
"""Instructions of which torch needs one; without them it falls back to a loop hundreds of times slower."""
CPU_NEVER = ("tf32", "fp8", "fp4", "mxfp8")
"""Dtypes without units on any CPU: torch emulates fp8 for correctness only."""
SCALE_BLOCK = {"fp4": 16, "mxfp8": 32}
"""Elements of a row that share an 8-bit scale (NVFP4; MXFP8 of the Open Compute Project)."""
ROTATED_CACHES = 4
"""Multiple of the L2 cache over which operands of calls on a GPU rotate, so that short ones can be replayed back to back."""
TRIED = 128
"""Size of the product that tests whether torch supports a dtype here."""


def measure_gemm(bench: Bench, point: Point, dtype: str, m: int, n: int, k: int, *, fast: bool = False) -> Result:
    """FLOP/s (int8: operations/s) of one product; `fast`: fp8 accumulating below fp32. Raises `UnsupportedError`, `TooSlowError`."""
    refuse_unsupported(bench.device, dtype)
    if fast and amd_architecture(bench.device.torch_name):
        raise UnsupportedError("AMD's units add up in fp32 alone")
    flop = 2.0 * m * n * k
    bench.refuse_if_slow(flop, dtype, point.cap_s)
    moved = float(input_bytes(dtype) * (m * k + k * n) + output_bytes(dtype) * m * n)
    with matrix_precision(dtype):
        call = rotating(lambda: product(bench.device.torch_name, dtype, m, n, k, fast=fast), moved, bench.device)
        timed = bench.time(call, point.cap_s)
    bench.best_flop_per_s[dtype] = max(bench.best_flop_per_s.get(dtype, 0.0), flop / timed.call_s)
    shape = {"m": m, "n": n, "k": k, "cache": getattr(bench.timer, "cache", "warm"), **({"accumulation": "fast"} if fast else {})}
    return rate_result(point, timed, flop, "FLOP/s", dtype, shape, flop=flop, bytes=moved)


def refuse_unsupported(device: Device, dtype: str) -> None:
    """Raise `UnsupportedError` unless a small product works and the device has units for it."""
    if device.is_cpu:
        needed = CPU_NEEDS.get(dtype, ())
        if dtype in CPU_NEVER or (needed and not set(needed) & set(device.instructions)):
            raise UnsupportedError(f"this CPU has no {dtype} arithmetic" + (f" (none of {', '.join(needed)})" if needed else ""))
    elif device.capability is not None and torch.version.cuda is not None and device.capability < CUDA_NEEDS.get(dtype, (0, 0)):
        major, minor = CUDA_NEEDS[dtype]
        raise UnsupportedError(
            f"{dtype} needs compute capability {major}.{minor}, this GPU has {device.capability[0]}.{device.capability[1]}"
        )
    try:
        with matrix_precision(dtype):
            product(device.torch_name, dtype, TRIED, TRIED, TRIED)()
    except (RuntimeError, NotImplementedError, AttributeError, TypeError) as refused:
        if breaks_device(str(refused)):
            raise
        raise UnsupportedError(f"torch refuses {dtype} here: {str(refused).splitlines()[0]}") from refused


class Rotating:
    """A call that goes from one set of operands to the next."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.sets = len(calls)
        """Number of calls until the operands repeat."""
        self._calls, self._turn = calls, itertools.cycle(calls)

    def __call__(self) -> Any:
        """Run the next call."""
        return next(self._turn)()

    def refresh(self) -> None:
        """Change operands between two samples on a GPU, outside the timed region."""
        refresh = getattr(self._calls[0], "refresh", None)
        if refresh is not None:
            refresh()


def rotating(make: Callable[[], Callable[[], Any]], set_bytes: float, device: Device) -> Rotating:
    """Calls that `make` returns, each with separate operands of `set_bytes`: on a GPU more than its L2 cache holds."""
    sets = 1 if device.is_cpu else max(1, math.ceil(ROTATED_CACHES * device.cache_bytes / max(set_bytes, 1.0)))
    return Rotating([make() for _ in range(sets)])


def product(device: str, dtype: str, m: int, n: int, k: int, *, fast: bool = False) -> Callable[[], Any]:
    """A callable that multiplies (m, k) by (k, n)."""
    if dtype == "int8":
        left = torch.randint(-128, 128, (m, k), dtype=torch.int8, device=device)
        right = torch.randint(-128, 128, (n, k), dtype=torch.int8, device=device).t()
        return lambda: torch._int_mm(left, right)  # noqa: SLF001  # torch has no public integer product
    if dtype == "fp8":
        kind = eight_bit(amd_architecture(device))
        left = torch.randn(m, k, device=device).to(kind)
        right = torch.randn(n, k, device=device).to(kind).t()
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(  # noqa: SLF001  # public only since 2.10
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
    if dtype == "fp4":
        return _fp4_product(device, m, n, k)
    if dtype == "mxfp8":
        return _mxfp8_product(device, m, n, k)
    wide = FLOAT_TYPES[dtype]
    left = torch.randn(m, k, device=device, dtype=wide)
    right = torch.randn(n, k, device=device, dtype=wide).t()
    return Product(left, right, torch.randn(m, n, device=device, dtype=wide))


def eight_bit(architecture: str) -> Any:
    """E4M3 type that the device multiplies: AMD's gfx942 (MI300) has the variant without infinities, all others OCP's.

    Source: data types of hipBLASLt, read 2026-11-23. Not tested on a GPU of AMD.
    """
    return torch.float8_e4m3fnuz if architecture.startswith("gfx94") else torch.float8_e4m3fn


def _fp4_product(device: str, m: int, n: int, k: int) -> Callable[[], Any]:
    """NVFP4 product of random bytes (all 16 codes are numbers): two elements a byte, an 8-bit scale for each block of 16."""
    left, right = (
        torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device).view(torch.float4_e2m1fn_x2) for rows in (m, n)
    )
    return _scaled(left, right.t(), [scale_count("fp4", rows, k) for rows in (m, n)], torch.float8_e4m3fn)


def _mxfp8_product(device: str, m: int, n: int, k: int) -> Callable[[], Any]:
    """MXFP8: a power of two for every block of 32 elements, in the tiles of `_fp4_product`."""
    left, right = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    return _scaled(left, right.t(), [scale_count("mxfp8", rows, k) for rows in (m, n)], torch.float8_e8m0fnu)


def _scaled(left: Any, right: Any, counts: Sequence[int], kind: Any) -> Callable[[], Any]:
    """Product with scales of one, which do not change elements in whatever order the scales are stored."""
    first, second = (torch.ones(count, device=left.device).to(kind) for count in counts)
    return lambda: torch._scaled_mm(left, right, scale_a=first, scale_b=second, out_dtype=torch.bfloat16)  # noqa: SLF001  # as for fp8


def scale_count(dtype: str, rows: int, k: int) -> int:
    """Number of scales of an operand of `rows` × `k` elements in cuBLAS's tiles."""
    return 128 * math.ceil(rows / 128) * 4 * math.ceil(k / SCALE_BLOCK[dtype] / 4)


class Product:
    """A·B into C. `refresh` fills C with new random numbers, because overwriting costs power too."""

    def __init__(self, left: Any, right: Any, out: Any) -> None:
        self.left, self.right, self.out = left, right, out

    def __call__(self) -> Any:
        """Multiply."""
        return torch.mm(self.left, self.right, out=self.out)

    def refresh(self) -> None:
        """Fill C with new random numbers between two samples on a GPU, outside the timed region."""
        self.out.normal_()


@contextmanager
def matrix_precision(dtype: str) -> Iterator[None]:
    """Context for fp32 products as IEEE fp32, or through TF32 units for 'tf32'; the previous setting is restored afterwards."""
    settings = torch.backends.cuda.matmul
    name, on, off = ("fp32_precision", "tf32", "ieee") if hasattr(settings, "fp32_precision") else ("allow_tf32", True, False)
    before = getattr(settings, name)
    setattr(settings, name, on if dtype == "tf32" else off)
    try:
        yield
    finally:
        setattr(settings, name, before)


def operand_bytes(dtype: str) -> int:
    """Bytes of one element of A or B."""
    return {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}[dtype]


def input_bytes(dtype: str) -> float:
    """Bytes of one element of A or B with its part of a scale."""
    elements = {"fp4": 0.5, "mxfp8": 1.0}
    return elements[dtype] + 1 / SCALE_BLOCK[dtype] if dtype in elements else operand_bytes(dtype)


def output_bytes(dtype: str) -> int:
    """Bytes of one element of C."""
    return {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2, "fp4": 2, "mxfp8": 2, "int8": 4}[dtype]
