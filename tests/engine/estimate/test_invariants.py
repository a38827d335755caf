"""What more of a thing never gives back: longer steps of training, larger loops of clients, faster links."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from engine_sample import ask_all

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Percentiles
from planner.engine.performance.operators.forward_pass import DEVICE_CLASSES

H100, STUDY = "H100 SXM5 80GB", "qwen3-study-w1024"


def answers_to(fields: dict[str, Any], **changing: list[Any]) -> list[Answer]:
    """Answers to `fields` with each value of one key in turn; none may be refused."""
    ((key, values),) = changing.items()
    found = ask_all(*({**fields, key: value} for value in values))
    assert all(isinstance(one, Answer) for one in found), found
    return [one for one in found if isinstance(one, Answer)]


def totals(answers: list[Answer]) -> list[float]:
    """Memory of each in whole kilobytes."""
    return [round(one.memory_bytes.total.value / 1e3) for one in answers if one.memory_bytes]


TRAINED = {"gpu": "GB300", "task": "train", "recipe": "amp", "loss": "chunked", "compile": True}


@pytest.mark.parametrize(
    "fields",
    [
        {**TRAINED, "model": "falcon-7b", "optimizer": "adafactor", "sharding": "zero2", "cp": 2, "gpus": 2, "micro_batch": 1},
        {**TRAINED, "model": STUDY, "gpu": H100, "optimizer": "muon", "tp": 2, "dp": 64, "gpus": 128, "global_batch": 64},
    ],
)
def test_longer_sequences_take_no_less_although_the_moment_of_the_peak_moves(fields: dict[str, Any]) -> None:
    found = totals(answers_to(fields, sequence=[32, 64, 119, 176, 238, 352, 500, 704, 1000, 1500]))
    assert found == sorted(found)


def test_longer_prompts_take_no_less_although_the_moment_of_the_peak_moves() -> None:
    fields = {
        "model": "mistral-7b-v0.3",
        "gpu": "L40S",
        "task": "serve",
        "dtype": "fp16",
        "weight_dtype": "int8",
        "gpus": 2,
        "tp": 2,
    }
    found = totals(answers_to({**fields, "output_tokens": 78, "concurrency": 2}, input_tokens=[8, 32, 80, 89, 97, 120, 300, 900]))
    assert found == sorted(found)


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
@pytest.mark.parametrize("model", ["gpt-oss-120b", "opt-1.3b"])
def test_more_clients_are_never_answered_sooner(model: str, engine: str) -> None:
    fields = {"model": model, "gpu": "B200 SXM", "task": "serve", "dtype": "bf16", "engine": engine, "gpus": 4, "tp": 4}
    loops = answers_to({**fields, "input_tokens": 81, "output_tokens": 38}, concurrency=[4, 16, 30, 60, 90, 115, 150, 172, 250])
    lasted = [one.request_s.mean.value for one in loops if one.request_s]
    rates = [one.output_tokens_per_s.value for one in loops if one.output_tokens_per_s]
    assert all(later >= 0.995 * sooner for sooner, later in itertools.pairwise(lasted)), lasted
    assert rates == sorted(rates)


@pytest.mark.parametrize("output", [2, 3, 40])
def test_a_faster_link_slows_nobody_whose_host_is_waited_for(output: int) -> None:
    fields = {"model": "gpt2-medium", "gpu": "A40", "task": "serve", "dtype": "fp32", "engine": "tensorrt-llm", "tp": 2, "pp": 2}
    request = {**fields, "gpus": 4, "concurrency": 4, "input_tokens": 189, "output_tokens": output}
    rates = [one.output_tokens_per_s.value for one in answers_to(request, link=[2e10, 8e10, 3.2e11]) if one.output_tokens_per_s]
    assert rates == sorted(rates)


def test_a_faster_link_slows_no_training_whose_host_is_waited_for() -> None:
    """The host launches all stages alike, so none waits longer for the last one than for its own launches: 3 of 16 micro batches are idle."""
    fields: dict[str, Any] = {
        "model": "ministral-3-3b",
        "gpu": "RTX 4070 Ti SUPER",
        "task": "finetune",
        "recipe": "fp32",
        "dtype": "fp32",
    }
    fields |= {"engine": "transformers", "lora": {"rank": 8, "base": "fp32"}, "checkpointing": "full", "sharding": "zero1"}
    layout = {"tp": 4, "pp": 4, "cp": 2, "gpus": 32, "micro_batch": 4, "sequence": 113}
    found = answers_to(fields | layout, link=[1e11, 2e11, 4e11, 1e12, 4e12])
    steps = [one.step_s.value for one in found if one.step_s]
    assert steps == sorted(steps, reverse=True)
    for one in found[2:]:
        micro_batches = sum(one.seconds_by_class[name] for name in (*DEVICE_CLASSES, "launch"))
        assert one.seconds_by_class["bubble"] == pytest.approx(3 / 16 * micro_batches, rel=0.02), (
            "but for what stages send each other"
        )


PIPELINED: dict[str, Any] = {"gpu": H100, "task": "train", "recipe": "bf16", "dtype": "bf16", "engine": "torch", "tp": 2}


def sequences_of_step(one: Answer, sequence: int) -> float:
    """Sequences that a step of `one` takes."""
    assert one.step_s
    assert one.tokens_per_s
    return one.step_s.value * one.tokens_per_s.value / sequence


@pytest.mark.parametrize(
    ("pp", "sharding", "checkpointing"), [(2, "none", "none"), (4, "zero2", "full"), (8, "zero3", "selective")]
)
def test_larger_micro_batches_of_a_pipeline_take_no_less_and_are_no_slower(pp: int, sharding: str, checkpointing: str) -> None:
    """Those that no number of stages divides are no exception."""
    fields = {
        **PIPELINED,
        "model": "phi-4-mini",
        "pp": pp,
        "dp": 4,
        "gpus": 8 * pp,
        "sharding": sharding,
        "checkpointing": checkpointing,
    }
    found = answers_to({**fields, "sequence": 512}, micro_batch=[1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 24, 37])
    rates = [one.tokens_per_s.value for one in found if one.tokens_per_s]
    assert totals(found) == sorted(totals(found))
    assert all(later >= 0.998 * sooner for sooner, later in itertools.pairwise(rates)), rates
    assert max(later / sooner for sooner, later in itertools.pairwise(rates[6:10])) < 1.3


@pytest.mark.parametrize("engine", ["torch", "megatron"])
def test_larger_global_batches_of_a_pipeline_are_no_slower_and_take_all_their_sequences(engine: str) -> None:
    batches = [32, 64, 96, 160, 256, 1024]
    fields = {**PIPELINED, "model": "cerebras-gpt-2.7b", "engine": engine, "pp": 4, "dp": 4, "gpus": 32, "micro_batch": 8}
    found = answers_to({**fields, "sequence": 699}, global_batch=batches)
    rates = [one.tokens_per_s.value for one in found if one.tokens_per_s]
    assert rates == sorted(rates)
    assert [sequences_of_step(one, 699) for one in found] == pytest.approx(batches)


@pytest.mark.parametrize("engine", ["torch", "megatron"])
@pytest.mark.parametrize("micro", [None, 1, 9, 32])
def test_the_global_batch_that_a_pipeline_is_assumed_to_take_gives_the_same_answer(engine: str, micro: int | None) -> None:
    fields = {
        **PIPELINED,
        "model": "phi-4-mini",
        "engine": engine,
        "pp": 4,
        "dp": 2,
        "gpus": 16,
        "sequence": 512,
        "micro_batch": micro,
    }
    (first,) = answers_to(fields, global_batch=[None])
    batch = first.assumed["global_batch"]
    (second,) = answers_to(fields, global_batch=[batch])
    assert second.step_s == first.step_s
    assert sequences_of_step(first, 512) == pytest.approx(batch)


def ends(one: Answer, name: str) -> list[tuple[float, float, float]]:
    """(low, value, high) of the figures `name` of an answer: one, or a percentile each; none where it has none."""
    found = getattr(one, name)
    if isinstance(found, Percentiles):
        found = [found.mean, found.p95]
    elif name == "memory_bytes":
        found = [found.total]
    return [(figure.low, figure.value, figure.high) for figure in (found if isinstance(found, list) else [found]) if figure]


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "serve", "model": "llama-3.1-8b", "input_tokens": 100, "output_tokens": 100, "concurrency": 4},
        {
            "task": "serve",
            "model": "mixtral-8x7b",
            "tp": 4,
            "gpus": 4,
            "input_tokens": 2000,
            "output_tokens": 300,
            "request_rate_per_s": 2.0,
        },
        {"task": "generate", "model": "llama-3.1-8b", "weight_dtype": "nf4", "input_tokens": 100, "output_tokens": 100, "batch": 4},
        {"task": "generate", "model": "t5-large", "input_tokens": 100, "output_tokens": 20, "batch": 4},
    ],
)
def test_naming_the_engine_that_is_assumed_widens_no_range(fields: dict[str, Any]) -> None:
    (open_answer,) = answers_to({"gpu": H100, **fields}, engine=[None])
    (named,) = answers_to({"gpu": H100, **fields}, engine=[open_answer.assumed["engine"]])
    for name in ("prefill_s", "ttft_s", "tpot_s", "request_s", "requests_per_s", "tokens_per_s", "memory_bytes"):
        for (low, value, high), (least, same, most) in zip(ends(named, name), ends(open_answer, name), strict=True):
            assert value == pytest.approx(same)
            assert least <= low * 1.0001, name
            assert high <= most * 1.0001, name
