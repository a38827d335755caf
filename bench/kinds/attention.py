"""Attention by itself: over a whole prompt, which is limited by arithmetic, and for one new token over a cache, limited by reading."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses

from bench.points import Bench, UnsupportedError, rate_result
from bench.products.matmul import FLOAT_TYPES, operand_bytes, refuse_unsupported
from bench.protocol import Point, Result, breaks_device

PAGE_TOKENS = 256
"""Tokens of a page, a multiple of what flash attention requires."""


def _operands(
    bench: Bench, dtype: str, batch: int, heads: int, kv_heads: int, tokens: int, length: int, head_dim: int
) -> list[Any]:
    """Queries of `tokens` tokens, keys and values of `length`. Raises `UnsupportedError`."""
    refuse_unsupported(bench.device, dtype)
    sizes = ((heads, tokens), (kv_heads, length), (kv_heads, length))
    return [torch.randn(batch, *size, head_dim, device=bench.device.torch_name, dtype=FLOAT_TYPES[dtype]) for size in sizes]


def measure_prefill_attention(
    bench: Bench, point: Point, dtype: str, batch: int, heads: int, kv_heads: int, head_dim: int, sequence: int
) -> Result:
    """FLOP/s of causal attention, counted for the lower triangle: 2·heads·head width·s² a sequence. Raises `UnsupportedError`."""
    query, key, value = _operands(bench, dtype, batch, heads, kv_heads, sequence, sequence, head_dim)
    grouped = heads != kv_heads
    timed = bench.time(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped), point.cap_s)
    flop = 2.0 * batch * heads * head_dim * sequence**2
    moved = float(operand_bytes(dtype) * batch * sequence * head_dim * (2 * heads + 2 * kv_heads))
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "sequence": sequence}
    return rate_result(point, timed, flop, "FLOP/s", dtype, shape, flop=flop, bytes=moved)


def measure_paged_attention(
    bench: Bench, point: Point, dtype: str, batch: int, heads: int, kv_heads: int, head_dim: int, context: int
) -> Result:
    """Bytes of a cache in pages, in no order, read per second by one new token of each sequence. Raises `UnsupportedError`."""
    if bench.device.is_cpu:
        raise UnsupportedError("torch has no paged attention on a CPU")
    refuse_unsupported(bench.device, dtype)
    place, kind = bench.device.torch_name, FLOAT_TYPES[dtype]
    pages = batch * context // PAGE_TOKENS
    query = torch.randn(batch, heads, head_dim, device=place, dtype=kind)
    key, value = (torch.randn(pages, PAGE_TOKENS, kv_heads, head_dim, device=place, dtype=kind) for _ in range(2))
    begins = torch.arange(batch + 1, device=place, dtype=torch.int32)
    used = torch.full((batch,), context, device=place, dtype=torch.int32)
    table = torch.randperm(pages, device=place).to(torch.int32).view(batch, -1)
    grouped = heads != kv_heads
    try:
        from torch.nn.attention.varlen import varlen_attn

        def call() -> Any:
            return varlen_attn(query, key, value, begins, None, 1, context, seqused_k=used, block_table=table, enable_gqa=grouped)

        call()
    except (ImportError, RuntimeError, NotImplementedError, TypeError) as refused:
        if breaks_device(str(refused)):
            raise
        raise UnsupportedError(f"torch refuses a paged cache here: {(str(refused).splitlines() or [''])[0]}") from refused
    timed = bench.time(call, point.cap_s)
    moved = float(operand_bytes(dtype) * 2 * batch * kv_heads * context * head_dim)
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "context": context}
    more = {"page_tokens": PAGE_TOKENS, "cache": getattr(bench.timer, "cache", "cold")}
    return rate_result(point, timed, moved, "B/s", dtype, shape | more, flop=4.0 * batch * heads * head_dim * context, bytes=moved)


def measure_decode_attention(
    bench: Bench, point: Point, dtype: str, batch: int, heads: int, kv_heads: int, head_dim: int, context: int
) -> Result:
    """Bytes of the cache read per second by one new token of each sequence. Raises `UnsupportedError`."""
    query, key, value = _operands(bench, dtype, batch, heads, kv_heads, 1, context, head_dim)
    grouped = heads != kv_heads
    timed = bench.time(lambda: F.scaled_dot_product_attention(query, key, value, enable_gqa=grouped), point.cap_s)
    moved = float(operand_bytes(dtype) * 2 * batch * kv_heads * context * head_dim)
    cold = moved >= 2 * bench.device.cache_bytes
    cache = "cold" if cold or not bench.device.is_cpu else "warm"
    shape = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "context": context, "cache": cache}
    return rate_result(point, timed, moved, "B/s", dtype, shape, flop=4.0 * batch * heads * head_dim * context, bytes=moved)
