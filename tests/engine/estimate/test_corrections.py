"""Answers that were once wrong: links, caches that grow with the requests in flight, bursts, replicas of an open load."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, ask_all, plan, session

from planner.engine.answers.answer import Answer

H100 = "H100 SXM5 80GB"
CHAT: dict[str, Any] = {"model": "llama-3.1-70b", "gpu": H100, "task": "serve", "gpus": 4, "tp": 4, "weight_dtype": "fp8"}
CHAT |= {"input_tokens": 500, "output_tokens": 200}


def test_a_slower_link_is_never_the_faster_one() -> None:
    gpus = [
        one.name
        for one in session().gpus.all
        if one.nvlink_bytes_per_s and one.vendor == "NVIDIA" and "fp16" in one.compute_flop_per_s
    ]
    assert len(gpus) > 10
    base = {"model": "llama-2-7b", "task": "generate", "input_tokens": 512, "output_tokens": 128, "engine": "vllm", "dtype": "fp16"}
    asked = [
        base | {"gpu": gpu, "gpus": tp, "tp": tp, "batch": batch, "link": link}
        for gpu in gpus
        for tp in (2, 8)
        for batch in (1, 64)
        for link in ("pcie", "nvlink")
    ]
    found = ask_all(*asked)
    for number in range(0, len(found), 2):
        slow, fast = found[number], found[number + 1]
        assert isinstance(slow, Answer)
        assert isinstance(fast, Answer)
        if fast.layout is None:  # the engine does not run on it
            continue
        assert slow.request_s is not None
        assert fast.request_s is not None
        assert fast.request_s.mean is not None
        assert slow.request_s.mean is not None
        assert fast.request_s.mean.value <= slow.request_s.mean.value, asked[number]


@pytest.mark.parametrize("rate", [0.5, 2.0, 3.33])
def test_an_old_engine_with_a_small_cache_answers_what_comes(rate: float) -> None:
    """Release 0.6 makes prompts of all sequences at once: what they take grows with the sequences, and the cache gives way to it."""
    answer = ask(**CHAT, kv_dtype="fp8", engine="vllm@0.6", request_rate_per_s=rate)
    assert answer.output_tokens_per_s is not None
    assert answer.output_tokens_per_s.value == pytest.approx(200 * rate, rel=0.01)


def test_dollars_a_token_are_those_of_what_comes() -> None:
    """A burst is stood by GPUs, not answered all day: 12 H100 at 22.41 $/h and 3,333.4 tokens/s are 1.87 $ a million, with it and without."""
    for burst in (0.0, 0.2):
        found = plan("llama-3.1-70b-chat-service", gpus_considered=[H100], targets={"p95_request_s": 5.0, "burst": burst})
        for row in found.rows[:3]:
            assert row.usd_per_h is not None
            assert row.answer.usd_per_million_tokens is not None
            expected = row.usd_per_h.value / 3600 / (1000 / 60 * 200) * 1e6
            assert row.answer.usd_per_million_tokens.value == pytest.approx(expected, rel=1e-3)


def test_an_open_load_gets_replicas() -> None:
    """Eight L40S as two replicas of four outrun one of eight over PCIe."""
    fields = {
        "model": "llama-3.1-70b",
        "task": "serve",
        "weight_dtype": "fp8",
        "kv_dtype": "fp8",
        "input_tokens": 500,
        "output_tokens": 200,
    }
    fields |= {
        "concurrency": "max",
        "objective": "fastest",
        "max_gpus": 8,
        "gpus_considered": ["L40S"],
        "targets": {"p95_request_s": 15.0},
    }
    first = session().plan(session().workload(fields, "test"), basis="spec").rows[0]
    assert first.rank == 1
    assert first.answer.layout is not None
    assert first.answer.layout.dp > 1
    cheapest = session().plan(session().workload(fields | {"objective": "cheapest"}, "test"), basis="spec").rows[0]
    assert cheapest.offer is not None
    assert cheapest.answer.layout is not None
    assert cheapest.offer.gpus * cheapest.offer.instances - cheapest.answer.layout.gpus < cheapest.answer.layout.tp, (
        "no node half paid for nothing"
    )


def test_a_candidate_over_nodes_says_its_network() -> None:
    fields = {
        "model": "llama-3.1-8b",
        "task": "train",
        "gpu": H100,
        "gpus": 16,
        "sequence": 2048,
        "global_batch": 64,
        "recipe": "mixed",
    }
    usual, given = ask(**fields), ask(**fields, fabric="ethernet")
    assert usual.network is not None
    assert (usual.network.basis, usual.network.nodes, usual.network.bytes_per_s) == ("assumed", 2, 50e9)
    assert given.network is not None
    assert (given.network.basis, given.network.bytes_per_s) == ("given", 12.5e9 / 8)
    assert ask(**fields | {"gpus": 8}).network is None
