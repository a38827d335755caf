"""Pools of a cache: layers with a window that have one of their own have room for a share of the tokens of the others."""

from __future__ import annotations

import pytest
from engine_sample import ask, memory, parts

HEADS, WIDTH, VALUES = 8, 64, 2
"""Key and value heads of gpt-oss 20B, their dimension, keys and values; 12 of its 24 layers have a window of 128 tokens."""
LAYER_TOKEN = HEADS * WIDTH * VALUES * 2
"""Bytes of a token in one layer, in 16 bit."""
SERVICE = {"gpu": "H100-SXM-80GB", "model": "gpt-oss-20b", "task": "serve", "input_tokens": 3968, "output_tokens": 128}


def cache(**changes: object) -> float:
    return parts(memory(**{**SERVICE, "concurrency": 1, **changes}))["kv_cache"]


def test_one_pool_holds_windows_alone() -> None:
    assert cache(engine="vllm") == 12 * (4096 + 128) * LAYER_TOKEN


def test_a_pool_for_windows_has_room_for_a_share_of_the_other_tokens() -> None:
    """SGLang's has 0.8 of them (--swa-full-tokens-ratio), of which a sequence of 4,096 tokens takes as much as of the other pool."""
    assert cache(engine="sglang") == pytest.approx(12 * 4096 * 1.8 * LAYER_TOKEN, rel=1e-3)


def test_a_sequence_within_its_window_fills_the_pool_for_windows_first() -> None:
    """100 tokens of either pool, of which the smaller one has 0.8: as if there were 125."""
    assert cache(engine="sglang", input_tokens=68, output_tokens=32) == pytest.approx(12 * 125 * 1.8 * LAYER_TOKEN, rel=1e-3)


def test_fewer_sequences_fit_where_windows_have_a_pool() -> None:
    shared, apart = (ask(**SERVICE, engine=engine, concurrency="max").max_concurrency for engine in ("vllm", "sglang"))
    assert shared is not None
    assert apart is not None
    assert apart / shared == pytest.approx((4096 + 128) / (4096 * 1.8), rel=0.1)


def test_a_model_without_windows_has_one_pool() -> None:
    dense = {**SERVICE, "model": "llama-3.1-8b", "concurrency": 1}
    assert parts(memory(**dense, engine="sglang"))["kv_cache"] == parts(memory(**dense, engine="vllm"))["kv_cache"]
