"""Prefixes that sequences share: each is kept once, and sequences keep what is their own."""

from __future__ import annotations

import pytest
from engine_sample import ask, memory, parts

from planner.errors import UserError

TOKEN = 32 * 2 * 8 * 128 * 2
"""Bytes of a token of Llama 3.1 8B's cache in 16 bit: layers, keys and values, heads, head dimension."""
CHAT = {
    "gpu": "H100-SXM-80GB",
    "model": "llama-3.1-8b",
    "task": "serve",
    "engine": "vllm",
    "input_tokens": 4000,
    "output_tokens": 192,
}


@pytest.mark.parametrize(("prefixes", "sequences"), [(1, 10), (7, 3)])
def test_a_prefix_is_kept_once(prefixes: int, sequences: int) -> None:
    found = parts(memory(**CHAT, concurrency=sequences, prefix_tokens=3000, prefixes=prefixes))
    whole_blocks = 3000 // 16 * 16
    assert found["kv_cache"] == (prefixes * whole_blocks + sequences * (4192 - whole_blocks)) * TOKEN


def test_without_a_number_every_sequence_has_its_own() -> None:
    assert parts(memory(**CHAT, concurrency=10, prefix_tokens=3000))["kv_cache"] == 10 * 4192 * TOKEN


def test_more_sequences_fit_the_fewer_prefixes_there_are() -> None:
    own, few, one = (
        ask(**CHAT, concurrency="max", prefix_tokens=3000, **more).max_concurrency
        for more in ({}, {"prefixes": 50}, {"prefixes": 1})
    )
    assert own is not None
    assert few is not None
    assert one is not None
    assert own < few < one
    assert one - few == pytest.approx(49 * 2992 / (4192 - 2992), abs=2)


@pytest.mark.parametrize("given", [{"prefixes": 3}, {"prefixes": 3, "prefix_tokens": 0}])
def test_prefixes_without_their_length_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(UserError, match="prefix_tokens"):
        ask(**CHAT, concurrency=4, **given)
