"""Attention by itself: over a whole prompt, which is arithmetic, and of one new token over a cache, which is reading."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses

from bench.kinds.matmul import FLOAT_TYPES, operand_bytes, refuse_unsupported
from bench.points import Bench, rate_result
from bench.protocol import Point, Result


def measure_prefill_attention(
    bench: Bench, point: Point, dtype: str, batch: int, heads: int, kv_heads: int, head_dim: int, sequence: int
) -> Result:
    """FLOP/s of causal attention, counted for the lower triangle: 2·heads·head width·s² a sequence. Raises `UnsupportedError`."""
    refuse_unsupported(bench.device, dtype)
    place, kind = bench.device.torch_name, FLOAT_TYPES[dtype]
    query = torch.randn(batch, heads, sequence, head_dim, device=place, dtype=kind)
    key, value = (torch.randn(batch, kv_heads, sequence, head_dim, device=place, dtype=kind) for _ in range(2))
    grouped = heads != kv_heads
    timed = bench.time(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped), point.cap_s)
    flop = 2.0 * batch * heads * head_dim * sequence**2
    moved = float(operand_bytes(dtype) * batch * sequence * head_dim * (2 * heads + 2 * kv_heads))
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "sequence": sequence}
    return rate_result(point, timed, flop, "FLOP/s", dtype, shape, flop=flop, bytes=moved)


def measure_decode_attention(
    bench: Bench, point: Point, dtype: str, batch: int, heads: int, kv_heads: int, head_dim: int, context: int
) -> Result:
    """Bytes of the cache read per second by one new token of each sequence. Raises `UnsupportedError`."""
    refuse_unsupported(bench.device, dtype)
    place, kind = bench.device.torch_name, FLOAT_TYPES[dtype]
    query = torch.randn(batch, heads, 1, head_dim, device=place, dtype=kind)
    key, value = (torch.randn(batch, kv_heads, context, head_dim, device=place, dtype=kind) for _ in range(2))
    grouped = heads != kv_heads
    timed = bench.time(lambda: F.scaled_dot_product_attention(query, key, value, enable_gqa=grouped), point.cap_s)
    moved = float(operand_bytes(dtype) * 2 * batch * kv_heads * context * head_dim)
    cold = moved >= 2 * bench.device.cache_bytes
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "context": context}
    return rate_result(
        point,
        timed,
        moved,
        "B/s",
        dtype,
        {**shape, "cache": "cold" if cold or not bench.device.is_cpu else "warm"},
        flop=4.0 * batch * heads * head_dim * context,
        bytes=moved,
    )
