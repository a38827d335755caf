"""Mixtures of experts: what expert parallelism divides and what it does not, what tokens on their way to experts take, and who waits."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import ask, parts
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UserError
from planner.workload.tasks import Lora

MIXTRAL: dict[str, Any] = {"model": "mixtral-8x7b", "gpu": "H100", "task": "train", "gpus": 8, "dp": 8, "tp": 1, "sequence": 4096}
MIXTRAL |= {"sharding": "zero1", "checkpointing": "full", "micro_batch": 4}
DEEPSEEK: dict[str, Any] = {"model": "deepseek-v3", "gpu": "H200", "gpus": 8, "dtype": "fp8", "task": "serve", "concurrency": 256}
DEEPSEEK |= {"input_tokens": 1024, "output_tokens": 1024, "engine": "tensorrt-llm@1.1"}
SERVED: dict[str, Any] = {"model": "llama-3.1-8b", "gpu": "H100", "task": "serve", "concurrency": 32}


def values(**fields: Any) -> dict[str, float]:
    """Figures of an answer by name, with the total of each part of its memory."""
    answer = ask(**fields)
    assert answer.memory_bytes is not None
    timed = answer.step_s or (answer.request_s.mean if answer.request_s else answer.prefill_s)
    assert timed is not None
    seconds = timed.value
    return {"seconds": seconds, **parts(answer.memory_bytes), **answer.seconds_by_class}


@pytest.mark.sweep
@given(st.sampled_from([1, 2, 4, 8, 16, 64]), st.sampled_from([1, 2, 4]), st.sampled_from(["zero1", "zero2", "zero3"]))
@settings(max_examples=25, deadline=None)
def test_expert_parallelism_takes_no_flops_and_no_states_away(ep: int, tp: int, sharding: str) -> None:
    layout = MIXTRAL | {"model": "qwen3-30b-a3b", "gpus": 64, "dp": 64 // tp, "tp": tp, "sharding": sharding}
    alone, shared = values(**layout), values(**layout, ep=ep)
    states = "weights" if sharding == "zero3" else "optimizer"
    assert shared[states] == pytest.approx(alone[states], rel=0.02)
    assert shared["matmul"] > 0.4 * alone["matmul"]
    answer = ask(**layout, ep=ep)
    assert answer.mfu is not None
    assert 0 < answer.mfu.value < answer.mfu.high <= 1


def test_experts_are_divided_with_tensor_parallelism_and_beyond_it() -> None:
    by_ep = {ep: values(**MIXTRAL | {"dp": 4, "tp": 2}, ep=ep)["weights"] for ep in (1, 2, 8)}
    assert by_ep[1] == by_ep[2] > 3.2 * by_ep[8]


@pytest.mark.parametrize(
    ("plain", "change", "slower"),
    [
        pytest.param(MIXTRAL | {"ep": 8}, {"link": 5e9}, ">", id="tokens sent to experts over a slow link"),
        pytest.param(
            MIXTRAL | {"gpus": 64, "dp": 64, "ep": 8}, {"gpus_per_node": 4, "fabric": "ethernet"}, ">", id="experts in other nodes"
        ),
        pytest.param(
            {"model": "llama-3.1-70b", "gpu": "H100", "task": "prefill", "input_tokens": 100_000, "gpus": 8, "tp": 1, "cp": 8},
            {"link": 4e8},
            ">",
            id="keys and values of a prompt over a slow link",
        ),
        pytest.param(
            MIXTRAL | {"model": "llama-3.1-8b", "cp": 4, "dp": 2, "sequence": 65536, "micro_batch": 1, "link": 1e9},
            {"cp": 1, "dp": 8},
            "<",
            id="keys and values in training",
        ),
        pytest.param(
            MIXTRAL | {"model": "llama-3.1-8b", "gpus": 64, "dp": 64, "sharding": "zero2", "fabric": "ethernet"},
            {"sharding": "zero3"},
            ">",
            id="ZeRO 3 sends more than ZeRO 2",
        ),
        pytest.param(
            SERVED | {"lora": Lora(rank=16), "adapters": 1}, {"adapters": 50}, ">", id="adapters of many requests are read"
        ),
        pytest.param(SERVED, {"lora": Lora(rank=16), "adapters": 1}, ">", id="an adapter is multiplied with"),
        pytest.param(
            {"model": "olmo-2-13b", "gpu": "H200 NVL", "task": "finetune", "dtype": "fp16", "tp": 8, "gpus": 512},
            {"gpu": "P100 SXM2"},
            ">",
            id="old boards have slower networks",
        ),
        pytest.param(DEEPSEEK | {"dp": 8, "ep": 8}, {"expert_imbalance": 4}, ">", id="the busiest rank is waited for"),
        pytest.param(DEEPSEEK | {"dp": 8, "ep": 8}, {"expert_imbalance": 1}, "<", id="balanced experts"),
        pytest.param(
            {
                "model": "llama-3.1-405b",
                "gpu": "H100",
                "task": "train",
                "gpus": 2048,
                "tp": 8,
                "pp": 16,
                "dp": 16,
                "global_batch": 16,
            },
            {"virtual_stages": 4, "global_batch": 256},
            ">",
            id="virtual stages do not help a single micro batch",
        ),
    ],
)
def test_what_takes_longer(plain: dict[str, Any], change: dict[str, Any], slower: str) -> None:
    before, after = values(**plain)["seconds"], values(**plain | change)["seconds"]
    assert after > before * 1.001 if slower == ">" else after < before * 0.999


def test_an_imbalance_that_is_not_stated_is_told() -> None:
    assert ask(**DEEPSEEK, dp=8, ep=8).assumed["expert_imbalance"] == pytest.approx(8**0.25, abs=0.01)
    assert "expert_imbalance" not in ask(**DEEPSEEK, dp=8, ep=8, expert_imbalance=1.2).assumed
    assert ask(**MIXTRAL, ep=8).assumed["expert_imbalance"] == 1
    with pytest.raises(UserError, match="from 1 to"):
        ask(**DEEPSEEK, expert_imbalance=0.5)


def test_attention_of_a_latent_is_the_same_cache_on_every_rank() -> None:
    """Tensor parallelism divides its heads, not its cache: attention over long contexts gains little from it."""
    long = DEEPSEEK | {"input_tokens": 60_000, "concurrency": 16}
    few, many = (values(**long, tp=tp, dp=8 // tp)["attention"] for tp in (4, 8))
    assert many > 0.7 * few


@pytest.mark.parametrize(
    ("gpu", "gpus", "per_node"), [("GB200", 64, 64), ("GB200", 256, 64), ("GB300", 72, 72), ("H100", 64, 8), ("L40S", 4, 4)]
)
def test_a_node_is_as_large_as_its_form(gpu: str, gpus: int, per_node: int) -> None:
    layout = ask(model="llama-3.1-8b", gpu=gpu, task="train", gpus=gpus).layout
    assert layout is not None
    assert layout.gpus_per_node == per_node


def test_no_range_is_above_the_data_sheet() -> None:
    """FLOPs at the upper end of the rate are at most those of the data sheet."""
    answer = ask(
        model="llama-3.1-8b", gpu="H100", task="finetune", gpus=1, micro_batch=4, sequence=2048, compile=True, engine="megatron"
    )
    assert answer.tokens_per_s is not None
    assert answer.flop_per_token is not None
    assert answer.tokens_per_s.high * answer.flop_per_token <= 989.5e12
