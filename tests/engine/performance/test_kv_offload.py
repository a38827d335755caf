"""Prefixes in the host's memory: a request waits for its own, and the GPU has room for more sequences."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask

from planner.engine.answers.answer import Answer
from planner.errors import UserError

TOKEN = 32 * 2 * 8 * 128 * 2
"""Bytes of a token of Llama 3.1 8B's cache in 16 bit: layers, keys and values, heads, head dimension."""
CHAT: dict[str, Any] = {"model": "llama-3.1-8b", "task": "serve", "engine": "vllm", "input_tokens": 4000, "output_tokens": 192}


def service(**given: Any) -> Answer:
    return ask(**{"gpu": "H100 SXM5 80GB", "concurrency": 8, "prefix_tokens": 3000} | CHAT | given)


def first_token_s(answer: Answer) -> float:
    assert answer.ttft_s is not None
    return answer.ttft_s.mean.value


@pytest.mark.parametrize("load", [{"concurrency": 8}, {"concurrency": None, "request_rate_per_s": 2.0}])
@pytest.mark.parametrize(("gpu", "link"), [("H100 SXM5 80GB", 64e9), ("A100 80GB SXM", 32e9)])
def test_a_first_token_waits_for_the_prefix_over_pcie(gpu: str, link: float, load: dict[str, Any]) -> None:
    """2,992 tokens of 128 KiB in whole blocks of 16, at 0.8 of the link: 7.7 ms on PCIe 5, twice that on PCIe 4."""
    here, away = (service(gpu=gpu, kv_offload=offloaded, **load) for offloaded in (False, True))
    assert first_token_s(away) - first_token_s(here) == pytest.approx(2992 * TOKEN / (0.8 * link), rel=0.01)
    assert away.request_s is not None
    assert here.request_s is not None
    assert away.request_s.mean.value > here.request_s.mean.value


def test_each_gpu_reads_its_own_share() -> None:
    waits = [first_token_s(service(gpus=tp, tp=tp, kv_offload=True)) - first_token_s(service(gpus=tp, tp=tp)) for tp in (1, 2)]
    assert waits[0] == pytest.approx(2 * waits[1], rel=0.01)


def test_prefixes_are_charged_to_the_host() -> None:
    here, away = (service(prefixes=100, kv_offload=offloaded) for offloaded in (False, True))
    assert here.memory_bytes is not None
    assert away.memory_bytes is not None
    assert here.memory_bytes.kv_cache == (100 * 2992 + 8 * (4192 - 2992)) * TOKEN
    assert away.memory_bytes.kv_cache == 8 * 4192 * TOKEN
    assert away.host_memory_bytes == 100 * 2992 * TOKEN


def test_without_a_prefix_nothing_is_read_back() -> None:
    here, away = (service(prefix_tokens=None, kv_offload=offloaded) for offloaded in (False, True))
    assert first_token_s(away) == first_token_s(here)
    assert "nothing" in str(away.assumed["kv_offload"])


@pytest.mark.parametrize("given", [{"task": "generate", "concurrency": None, "prefix_tokens": None}, {"disaggregated": True}])
def test_it_is_for_a_service_that_reads_and_decodes(given: dict[str, Any]) -> None:
    with pytest.raises(UserError) as told:
        service(kv_offload=True, **given)
    assert "kv_offload" in [problem.key for problem in told.value.problems]
