"""Ranges of training memory by what a question says of its program."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from engine_sample import ask, memory

from planner.engine.memory import total as total_module
from planner.engine.memory.total import GROWING, MAY_DIVIDE, MAY_KEEP
from planner.workload.published.spreads import ENGINE_OPEN, PROGRAM_OPEN, Spreads, published_spreads

SEVEN: dict[str, Any] = {
    "model": "llama-2-7b",
    "gpu": "A100 80GB SXM",
    "task": "train",
    "recipe": "mixed",
    "sequence": 4096,
    "micro_batch": 1,
    "global_batch": 64,
    "checkpointing": "full",
}


@pytest.mark.parametrize(
    ("engine", "engine_open", "program_open"),
    [(None, 1, 0), ("torch", 0, 1), ("transformers@4.46", 0, 1), ("unsloth", 0, 1), ("litgpt", 0, 0), ("megatron-bridge", 0, 0)],
)
def test_an_answer_tells_what_is_open_of_its_program(engine: str | None, engine_open: int, program_open: int) -> None:
    """Libraries and programs without published peaks are not known as well as those whose peaks were compared."""
    evidence = ask(**SEVEN | {"engine": engine}).evidence
    assert (evidence.get(ENGINE_OPEN, 0), evidence.get(PROGRAM_OPEN, 0)) == (engine_open, program_open)


def test_nothing_is_open_of_a_program_that_generates() -> None:
    evidence = ask(
        model="llama-2-7b", gpu="A100 80GB SXM", task="generate", batch=1, input_tokens=128, output_tokens=8, engine="torch"
    ).evidence
    assert not evidence.keys() & {PROGRAM_OPEN, MAY_DIVIDE}


def test_less_said_of_the_program_is_never_narrower() -> None:
    """With factors as the fit writes them: 1.5 for a library, 2.3 without any engine."""
    shipped = published_spreads()
    kind = shipped.kinds["training memory"]
    slopes = {PROGRAM_OPEN: math.log(1.5), ENGINE_OPEN: math.log(2.3)}
    fitted: Spreads = Spreads(
        source=shipped.source,
        retrieved=shipped.retrieved,
        method=shipped.method,
        kinds={"training memory": type(kind)(half_width=0.2, values=1, sources=1, engines=slopes)},
        wider={},
        quantiles=shipped.quantiles,
    )
    named, library, nothing = (
        fitted.half_width("training memory", {name: np.ones(1) for name in facts})[0]
        for facts in ((), (PROGRAM_OPEN,), (ENGINE_OPEN,))
    )
    assert (named, library, nothing) == pytest.approx((0.2, 0.3, 0.46))


def test_the_range_of_undivided_states_reaches_down_to_divided_ones_and_16_bit_gradients() -> None:
    """12 B of states for each of 6.74 G parameters, seven eighths of them other replicas' where states are divided: 70.8 GB; 2 of 4 B of a gradient: 13.5 GB."""
    away, narrower = 12 * 6.738e9 * 7 / 8, 2 * 6.738e9
    whole, divided = (ask(**SEVEN, gpus=8, dp=8, sharding=sharding, engine=None) for sharding in ("none", "zero1"))
    assert whole.memory_bytes is not None
    assert divided.memory_bytes is not None
    total, other = whole.memory_bytes.total, divided.memory_bytes.total
    assert whole.evidence[MAY_DIVIDE] == pytest.approx(math.log(total.value / (total.value - away - narrower)), rel=0.01)
    assert total.low < other.value < total.value
    assert divided.evidence[MAY_DIVIDE] == pytest.approx(math.log(other.value / (other.value - narrower)), rel=0.02)
    assert not whole.fits


@pytest.mark.parametrize(
    "said",
    [
        {"engine": "litgpt"},
        {"engine": None, "gpus": 1, "dp": 1, "recipe": "bf16"},
        {"engine": None, "offload": "optimizer", "recipe": "bf16"},
    ],
)
def test_states_of_a_known_program_of_one_replica_or_of_the_host_stay_whole(said: dict[str, Any]) -> None:
    found = ask(**SEVEN | {"gpus": 8, "dp": 8, "sharding": "none"} | said)
    assert MAY_DIVIDE not in found.evidence


def test_the_range_of_adapters_under_fsdp_reaches_up_to_gradients_of_frozen_weights() -> None:
    """FSDP's first version keeps one gradient for frozen and trained weights of a block: 13.5 GB over two ranks, whole between micro batches."""
    tuned = {
        "task": "finetune",
        "recipe": "bf16",
        "lora": {"rank": 8, "targets": ["q", "v"]},
        "gpus": 2,
        "dp": 2,
        "sharding": "zero3",
    }
    open_, named, packed = (
        ask(**SEVEN | tuned | said)
        for said in (
            {"engine": "torch", "global_batch": 2},
            {"engine": "litgpt", "global_batch": 2},
            {"engine": "torch", "global_batch": 2, "lora": {"rank": 8, "targets": ["q", "v"], "base": "nf4"}},
        )
    )
    several = ask(**SEVEN | tuned | {"engine": "torch"})
    assert open_.memory_bytes is not None
    assert several.memory_bytes is not None
    total, frozen = open_.memory_bytes.total.value, 2 * 6.738e9
    assert open_.evidence[MAY_KEEP] == pytest.approx(math.log1p(frozen / 2 / total), rel=0.02)
    assert several.evidence[MAY_KEEP] == pytest.approx(math.log1p(frozen / several.memory_bytes.total.value), rel=0.02)
    assert not {MAY_KEEP} & (named.evidence.keys() | packed.evidence.keys())


def test_the_range_of_16_bit_weights_under_accelerate_reaches_up_to_fp32() -> None:
    """For each of 6.74 G parameters weights, gradients and two states of 2 B are doubled, 53.9 GB over two ranks, and half of the gradients may stay reserved."""
    tuned = {"task": "finetune", "recipe": "bf16", "gpus": 2, "dp": 2, "sharding": "zero3", "global_batch": 2}
    open_, named, other = (ask(**SEVEN | tuned | {"engine": engine}) for engine in ("trl", "fms-acceleration", "torch"))
    assert open_.memory_bytes is not None
    total = open_.memory_bytes.total
    assert open_.evidence[MAY_KEEP] == pytest.approx(math.log1p(10 * 6.738e9 / 2 / total.value), rel=0.02)
    assert total.high > total.value + 10 * 6.738e9 / 2
    assert not {MAY_KEEP} & (named.evidence.keys() | other.evidence.keys())


def test_the_range_of_a_cache_that_grows_reaches_up_to_a_second_one() -> None:
    """Sixteen sequences of 1,024 tokens of Llama 2 7B hold 16 · 1,024 · 2 · 32 · 4,096 · 2 B = 8.6 GB; vLLM's pages do not grow."""
    batch = {"task": "generate", "batch": 16, "input_tokens": 512, "output_tokens": 512, "gpus": 1}
    grows, pages = (ask(**SEVEN | batch | {"engine": engine}) for engine in ("transformers", "vllm"))
    assert grows.memory_bytes is not None
    total = grows.memory_bytes.total
    assert grows.evidence[GROWING] == pytest.approx(math.log1p(8.59e9 / total.value), rel=0.01)
    assert total.high > total.value + 8.59e9
    assert GROWING not in pages.evidence


def test_ranges_of_memory_reach_further_up_than_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half width of 0.2 and a skew of a quarter: exp(0.25) up, exp(0.15) down; what is a quarter below the limit is likelier to pass it."""
    shipped = published_spreads()
    kind = msgspec.structs.replace(shipped.kinds["training memory"], half_width=0.2, skew=0.25, engines={})
    skewed = msgspec.structs.replace(shipped, kinds={**shipped.kinds, "training memory": kind}, wider={})
    monkeypatch.setattr(total_module, "published_spreads", lambda: skewed)
    found = ask(**SEVEN, engine="megatron-bridge", gpus=8, dp=8, sharding="zero3").memory_bytes
    assert found is not None
    total = found.total
    assert math.log(total.high / total.value) == pytest.approx(0.25)
    assert math.log(total.value / total.low) == pytest.approx(0.15)


def test_logits_may_be_whole_on_every_rank_of_tensor_parallelism() -> None:
    """KempnerForge: Llama 3.1 8B on 4 GPUs in tensor parallelism, 42.3 GB allocated, where logits in four parts would make it 24."""
    asked = {
        "model": "llama-3.1-8b",
        "gpu": "H200 SXM",
        "task": "train",
        "gpus": 4,
        "recipe": "bf16",
        "checkpointing": "full",
        "compile": True,
    }
    asked |= {"optimizer": "adamw-fused", "micro_batch": 4, "global_batch": 16, "sequence": 4096}
    found = {(engine, tp): ask(**asked, engine=engine, tp=tp) for engine in ("torch", "torchtitan", "megatron") for tp in (1, 4)}
    logits, total = (getattr(found["torch", 4].memory_bytes, name) for name in ("logits", "total"))
    assert found["torch", 4].evidence[MAY_KEEP] == pytest.approx(math.log1p(3 * logits / total.value), rel=0.01)
    assert total.low < 42.3e9 < total.high
    assert {key for key, answer in found.items() if MAY_KEEP in answer.evidence} == {("torch", 4)}


def test_a_compiled_loop_of_pytorch_may_compile_its_loss_or_not() -> None:
    """Llama 3.1 8B on 8 H100: the range holds the bytes of both, whichever was asked; a program whose release is known to compile it has one."""
    eight = SEVEN | {"model": "llama-3.1-8b", "gpu": "H100 SXM5 80GB", "gpus": 8, "sharding": "zero3", "global_batch": 16}
    plain = eight | {"micro_batch": 2, "sequence": 8192, "compile": True, "engine": "torch"}
    full, compiled = (memory(**plain | {"loss": loss}).total for loss in ("full", "fused"))
    assert compiled.high > full.value > compiled.value > full.low
    entries = 2 * 8192 * 128_256
    assert ask(**plain | {"loss": "fused"}).evidence[MAY_KEEP] == pytest.approx(math.log1p(entries * 10 / compiled.value), abs=5e-4)
    assert MAY_KEEP not in ask(**plain | {"loss": "fused", "engine": "torchtitan@2025-06"}).evidence
    assert MAY_KEEP not in ask(**plain | {"loss": "fused", "compile": False}).evidence
