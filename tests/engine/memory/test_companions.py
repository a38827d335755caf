"""Further models and adapters on the same GPUs: what they add, by hand, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import architecture, ask, memory

from planner.errors import UserError
from planner.workload.tasks import Companion, Lora

H100 = {"gpu": "H100-SXM-80GB"}
TRAINING: dict[str, Any] = {**H100, "model": "llama-3.2-1b", "task": "train", "recipe": "mixed", "sequence": 16, "engine": "torch"}
SERVING: dict[str, Any] = {**H100, "model": "llama-3.1-8b", "task": "generate", "input_tokens": 1000, "output_tokens": 24}
exact = pytest.approx


def test_feedback_training_holds_policy_reference_reward_and_critic() -> None:
    """Reference and reward are frozen in 16 bit; the critic has the policy's 18 bytes a parameter."""
    policy, other = architecture("llama-3.2-1b").total, architecture("qwen3-0.6b").total
    companions = [
        Companion(role="reference"),
        Companion(role="reward", model="qwen3-0.6b"),
        Companion(role="critic", model="qwen3-0.6b"),
    ]
    alone, beside = memory(**TRAINING), memory(**TRAINING, companions=companions)
    assert beside.weights - alone.weights == exact(2 * policy + 2 * other + 2 * other)
    assert beside.optimizer - alone.optimizer == exact(12 * other)
    assert beside.gradients - alone.gradients == exact(4 * other)


def test_frozen_companions_are_sharded_like_weights() -> None:
    fields = TRAINING | {"gpus": 4, "dp": 4, "companions": [Companion(role="reference")]}
    whole, shard = (memory(**fields, sharding=stage).weights for stage in ("zero1", "zero3"))
    assert whole == exact(4 * shard)


def test_a_draft_model_holds_weights_and_a_cache_of_its_own() -> None:
    draft = architecture("llama-3.2-1b")
    alone, beside = (
        memory(**SERVING),
        memory(**SERVING, companions=[Companion(role="draft", model="llama-3.2-1b", weight_dtype="int4")]),
    )
    assert beside.kv_cache - alone.kv_cache == exact(1024 * 16 * 2 * 8 * 64 * 2)
    assert 0.5 * draft.total < beside.weights - alone.weights < 1.5 * draft.total


def test_adapters_that_are_served_count_each() -> None:
    lora = Lora(rank=16, targets=["q", "v"])
    one = 32 * 16 * ((4096 + 4096) + (4096 + 1024)) * 2
    alone = memory(**SERVING).weights
    assert memory(**SERVING, lora=lora).weights - alone == exact(one)
    assert memory(**SERVING, lora=lora, adapters=10).weights - alone == exact(10 * one)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        (TRAINING | {"companions": [Companion(role="draft")]}, "companions[0].role"),
        (SERVING | {"companions": [Companion(role="reward")]}, "companions[0].role"),
        (SERVING | {"companions": [Companion(role="draft", weight_dtype="int5")]}, "companions[0].weight_dtype"),
        (SERVING | {"adapters": 4}, "adapters"),
        (SERVING | {"adapters": 0, "lora": Lora()}, "adapters"),
        (TRAINING | {"adapters": 2, "lora": Lora()}, "adapters"),
        (TRAINING | {"model": "mamba2-370m", "lora": Lora(targets=["q", "v"])}, "lora.targets"),  # it has `in` and `out`
        (SERVING | {"model": "gpt2", "lora": Lora(targets=["gate"])}, "lora.targets"),
    ],
)
def test_what_cannot_be_is_named(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(**fields)
    assert key in [problem.key for problem in caught.value.problems]


def test_a_draft_caches_what_is_in_flight_too() -> None:
    """The cache holds this number of sequences of both models: one more would not fit, and the rate is theirs."""
    serving = {"model": "llama-3.1-8b", "gpu": "H100-SXM-80GB", "task": "serve", "input_tokens": 2000, "output_tokens": 400}
    draft = Companion(role="draft", model="llama-3.2-1b", draft_tokens=4, acceptance=0.8)
    alone, beside = ask(**serving, concurrency="max"), ask(**serving, concurrency="max", companions=[draft])
    assert beside.fits
    assert alone.max_concurrency is not None
    assert beside.max_concurrency is not None
    # 8B: 32 layers of 8 heads of 128, 1B: 16 of 8 of 64, so the draft adds a quarter to the cache of a sequence
    assert beside.max_concurrency < alone.max_concurrency / 1.25
    most = ask(**serving, concurrency=beside.max_concurrency, companions=[draft])
    more = ask(**serving, concurrency=beside.max_concurrency + 8, companions=[draft])
    assert most.fits
    assert more.assumed.get("waiting_per_replica", 0) or not more.fits
