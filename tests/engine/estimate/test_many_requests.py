"""Many requests at once: the answer to each is that to it alone, whatever stands beside it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from engine_sample import architecture, ask, ask_all, chip

from planner.engine.answers.answer import Answer
from planner.engine.evaluate.candidates import Candidates
from planner.errors import UserError
from planner.workload.tasks import Lengths


def wire(answer: Answer) -> dict[str, Any]:
    """The answer as a line of the command's output."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return found


def request_of(task: str, **fields: Any) -> dict[str, Any]:
    load = {"concurrency": 8} if task == "serve" else {}
    return {"model": "qwen3-8b", "gpu": "H100-SXM-80GB", "task": task} | load | fields


def mixed(number: int) -> list[dict[str, Any]]:
    kinds = [
        request_of("generate", batch=4),
        request_of("prefill", model="qwen3-32b", weight_dtype="fp8"),
        request_of("train", model="llama-3.1-8b", gpus=8, sharding="zero3", micro_batch=2),
        request_of("train", model="gpt2", gpu="L4", recipe="amp", sequence=1024),
        request_of("serve", model="mixtral-8x7b", gpus=2, tp=2, concurrency=32),
        request_of("serve", model="gpt-oss-20b", gpu="A100-SXM-80GB", concurrency=5),
        request_of("generate", model="gemma-2-9b", gpu="RTX 4090", input_tokens=3000),
        request_of("generate", gpu="H1000"),
    ]
    return [kinds[place % len(kinds)] | {"id": place} for place in range(number)]


def close(one: Any, other: Any) -> bool:
    """Equal, numbers to 12 digits."""
    if isinstance(one, dict):
        return set(one) == set(other) and all(close(one[name], other[name]) for name in one)
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-12)
    return bool(one == other)


def test_an_answer_does_not_depend_on_its_neighbours() -> None:
    requests = mixed(40)
    for given, found in zip(requests, ask_all(*requests), strict=True):
        (alone,) = ask_all(given)
        if isinstance(alone, UserError):
            assert isinstance(found, UserError)
            assert alone.problems == found.problems
            continue
        assert isinstance(found, Answer)
        assert close(wire(alone), wire(found)), given


LENGTHS = (Lengths(mean=300.5, p95=800), Lengths(mean=200, p50=150, p95=500))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "load", [{"concurrency": 12}, {"concurrency": "max"}, {"request_rate_per_s": 3.0}, {"request_rate_per_s": 9.0}]
)
def test_a_simulated_answer_does_not_depend_on_its_neighbours(load: dict[str, Any]) -> None:
    common = {"input_tokens": LENGTHS[0], "output_tokens": LENGTHS[1]}
    asked = request_of("serve", model="llama-3.1-8b", gpu="L4") | common | load
    others = [
        request_of("serve", model="qwen3-8b", gpu=gpu, gpus=2, request_rate_per_s=rate) | common
        for gpu in ("L40S", "H100-SXM-80GB")
        for rate in (0.5, 30.0)
    ]
    (alone,) = ask_all(asked)
    among = ask_all(*others, asked, *others)[len(others)]
    assert isinstance(alone, Answer)
    assert isinstance(among, Answer)
    assert wire(alone) == wire(among)


def test_lengths_of_no_whole_mean_fill_a_small_cache() -> None:
    """Requests longer than what is left of the memory are cut, also where it holds no whole number of tokens."""
    lengths = {"input_tokens": Lengths(mean=8000.5, p95=30000), "output_tokens": Lengths(mean=500.25, p95=2000)}
    answer = ask(**request_of("serve", model="llama-3.1-8b", gpu="L4", request_rate_per_s=0.02) | lengths)
    assert answer.fits
    assert answer.max_concurrency is not None
    assert answer.max_concurrency < 8
    assert answer.request_s is not None


def test_the_order_of_requests_does_not_matter() -> None:
    requests = mixed(16)
    forward, backward = ask_all(*requests), ask_all(*reversed(requests))
    for one, other in zip(forward, reversed(backward), strict=True):
        if isinstance(one, Answer):
            assert isinstance(other, Answer)
            assert close(wire(one), wire(other))


@pytest.mark.sweep
def test_two_thousand_requests_are_a_handful_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_all(*mixed(8))
    built, plain = [], Candidates.table

    def counted(self: Candidates) -> Any:
        built.append(len(self.job_index))
        return plain(self)

    monkeypatch.setattr(Candidates, "table", counted)
    began = time.process_time()
    answers = ask_all(*mixed(2000))
    assert time.process_time() - began < 5
    assert len(built) <= 20
    assert max(built) >= 500
    assert sum(isinstance(answer, UserError) for answer in answers) == 250
    assert [answer.id for answer in answers if isinstance(answer, Answer)] == [n for n in range(2000) if n % 8 != 7]


def test_the_same_question_has_the_same_answer() -> None:
    assert ask_all(*mixed(16))[:7] == ask_all(*mixed(16))[:7]


def test_capacity_is_what_the_driver_leaves() -> None:
    for gpu in ("H100-SXM-80GB", "A100-SXM-80GB", "L4", "RTX 4090", "H200"):
        found = ask(**request_of("generate", model="gpt2", gpu=gpu)).memory_bytes
        assert found is not None
        assert found.capacity == chip(gpu).capacity_bytes
        assert 0.85 * chip(gpu).gpu.memory_bytes < found.capacity <= chip(gpu).gpu.memory_bytes


def test_trainable_parameters() -> None:
    from planner.workload.tasks import Lora

    whole = ask(**request_of("finetune")).parameters
    light = ask(**request_of("finetune", lora=Lora(rank=16))).parameters
    assert whole is not None
    assert light is not None
    assert whole.trainable == architecture("qwen3-8b").total
    assert light.trainable == 43_646_976
