"""Candidates given in full: the documented answer, faults by key, and one answer whatever stands beside it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest
from engine_sample import ask, ask_all, chip
from msgspec.structs import replace

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.evaluate.ranges import HOST_OPEN
from planner.errors import UserError
from planner.units import GIB
from planner.workload.published.spreads import published_spreads
from planner.workload.tasks import Lengths

ALWAYS = {
    "fits",
    "reason",
    "bottleneck",
    "memory_bytes",
    "probability_fits",
    "parameters",
    "flop_per_token",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "energy_j_per_token",
    "power_w",
    "evidence",
    "seconds_by_class",
    "assumed",
    "layout",
    "version",
}
TRAINING = {"step_s", "mfu"}
PREFILL = {"max_context", "prefill_s", "ttft_s", "requests_per_s", "max_concurrency"}
DECODING = {"tpot_s", "request_s", "decode_tokens_per_s", "output_tokens_per_s"}
PRICED = {"usd_per_million_tokens", "flop_per_usd"}
FIELDS = {"train": TRAINING, "finetune": TRAINING, "prefill": PREFILL, "generate": PREFILL | DECODING, "serve": PREFILL | DECODING}


def wire(answer: Answer) -> dict[str, Any]:
    """The answer as a line of the command's output."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    return found


def fault(**fields: Any) -> dict[str, str]:
    """Key -> message of every problem of a request that cannot be used."""
    with pytest.raises(UserError) as caught:
        ask(**({"model": "qwen3-8b", "gpu": "h100", "task": "generate"} | fields))
    return {problem.key: problem.message for problem in caught.value.problems}


def request_of(task: str, **fields: Any) -> dict[str, Any]:
    load = {"concurrency": 8} if task == "serve" else {}
    return {"model": "qwen3-8b", "gpu": "H100-SXM-80GB", "task": task} | load | fields


@pytest.mark.parametrize("task", FIELDS)
def test_an_answer_has_every_field_that_applies_and_no_other(task: str) -> None:
    assert set(wire(ask(**request_of(task)))) == ALWAYS | FIELDS[task]
    assert set(wire(ask(**request_of(task, id=7, price_usd_per_gpu_h=2.0)))) == ALWAYS | FIELDS[task] | PRICED | {"id"}


@pytest.mark.parametrize(("sequences", "surely", "likely"), [(1, True, True), (2, True, True), (3, False, True), (4, False, False)])
def test_the_chance_to_fit_is_what_the_range_of_memory_leaves(sequences: int, surely: bool, likely: bool) -> None:
    """Above 95 % where the whole range fits, below a half where what is predicted does not."""
    found = ask(**request_of("finetune", lora={"rank": 8}, gpus=1, micro_batch=sequences, global_batch=sequences))
    assert found.memory_bytes is not None
    assert found.probability_fits is not None
    total, capacity = found.memory_bytes.total, found.memory_bytes.capacity
    assert (found.probability_fits >= 0.95) == (total.high <= capacity) == surely
    assert (found.probability_fits >= 0.5) == (total.value <= capacity) == found.fits == likely


def test_generating_with_qwen3_8b_on_an_h100() -> None:
    answer = ask(model="qwen3-8b", gpu="H100-SXM-80GB", task="generate", id={"any": "thing"})
    assert answer.id == {"any": "thing"}
    assert answer.fits
    assert answer.reason is None
    assert answer.bottleneck == "bandwidth"
    assert answer.parameters is not None
    assert (answer.parameters.total, answer.parameters.active, answer.parameters.trainable) == (8_190_735_360, 8_190_735_360, 0)
    assert answer.parameters.embedding == 151936 * 4096
    assert answer.memory_bytes is not None
    assert answer.memory_bytes.weights == 2 * 8_190_735_360
    assert answer.memory_bytes.kv_cache == 640 * 147_456
    assert answer.memory_bytes.capacity == pytest.approx(79.2 * GIB, rel=0.01)
    assert answer.decode_tokens_per_s is not None
    assert 80 < answer.decode_tokens_per_s.value < 3350e9 / (2 * 8_190_735_360)
    assert answer.assumed == {
        "engine": "generic",
        "dtype": "bf16",
        "weight_dtype": "bf16",
        "kv_dtype": "bf16",
        "memory_fraction": 0.9,
        "attention": "flash",
        "batch": 1,
        "input_tokens": 512.0,
        "output_tokens": 128.0,
    }


def test_what_is_given_is_not_assumed() -> None:
    answer = ask(**request_of("generate", input_tokens=100, output_tokens=50, batch=2, engine="torch", dtype="fp16"))
    assert not {"input_tokens", "output_tokens", "batch", "engine", "dtype"} & set(answer.assumed)
    trained = ask(**request_of("train", gpus=8))
    assert trained.assumed | {"link": "nvlink", "dp": 8, "tp": 1, "pp": 1, "sharding": "none", "sequence": 2048} == trained.assumed


@pytest.mark.parametrize(("gpu", "dtype"), [("V100 SXM2 32GB", "fp16"), ("T4", "fp16"), ("L4", "bf16")])
@pytest.mark.parametrize("task", ["generate", "finetune"])
def test_a_part_without_bf16_computes_in_fp16(task: str, gpu: str, dtype: str) -> None:
    answer = ask(**request_of(task, model="qwen3-0.6b", gpu=gpu))
    assert answer.assumed["dtype"] == dtype
    assert answer.reason is None


def test_a_recipe_of_one_type_is_computed_in_it() -> None:
    answer = ask(**request_of("train", gpu="V100 SXM2 32GB", recipe="bf16"))
    assert answer.reason == "V100 SXM2 32GB has no known bf16 rate; it has fp16, fp32, int8"
    assert ask(**request_of("train", gpu="V100 SXM2 32GB", recipe="fp32")).assumed["dtype"] == "fp32"


@pytest.mark.parametrize("gpu", ["A100 80GB SXM", "L4"])
def test_what_was_assumed_can_be_asked_for(gpu: str) -> None:
    request = request_of("train", gpu=gpu, gpus=16)
    first = ask(**request)
    assert {"fabric", "link", "sharding", "dp", "tp"} <= set(first.assumed)
    again = ask(**request, **{key: first.assumed[key] for key in ("fabric", "link", "sharding", "dp", "tp")})
    assert first.network is not None
    assert again.network == replace(first.network, basis="given")
    assert (again.step_s, again.memory_bytes) == (first.step_s, first.memory_bytes)


@pytest.mark.parametrize(
    ("gpu", "taken"), [("V100", "V100 SXM2 16GB"), ("nvidia a800", "A800 80GB SXM"), ("M4 Max", "Apple M4 Max 128GB")]
)
def test_a_name_of_several_gpus_is_told_as_what_it_was_taken_for(gpu: str, taken: str) -> None:
    answer = ask(model="llama-3.2-1b", gpu=gpu, task="generate")
    assert answer.assumed["gpu"] == f"{taken}, the most common GPU called {gpu}"
    plainly = ask(model="llama-3.2-1b", gpu=taken, task="generate")
    assert "gpu" not in plainly.assumed
    assert answer.tpot_s == plainly.tpot_s


def test_fp32_that_may_run_as_tf32_uses_no_more_than_all_of_the_peak() -> None:
    answer = ask(**request_of("train", gpu="GB300", dtype="fp32", recipe="fp32", sequence=2044, micro_batch=12))
    assert answer.mfu is not None
    assert answer.step_s is not None
    assert answer.mfu.high == 1.0 < answer.mfu.value * answer.step_s.value / answer.step_s.low


def figures(value: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if set(value) == {"value", "low", "high", "basis"}:
            return [(path, value)]
        return list(itertools.chain.from_iterable(figures(inner, f"{path}.{name}") for name, inner in value.items()))
    return []


@pytest.mark.parametrize("gpu", ["H100-SXM-80GB", "L4", "RTX 4090", "MI300X", "A10G", "T4"])
@pytest.mark.parametrize("task", FIELDS)
def test_every_figure_lies_in_its_range_and_has_a_basis(task: str, gpu: str) -> None:
    answer = ask(**request_of(task, model="llama-3.2-1b", gpu=gpu, dtype="fp16", price_usd_per_gpu_h=1.5))
    found = figures(wire(answer))
    assert len(found) >= 6
    for path, figure in found:
        assert 0 < figure["low"] <= figure["value"] <= figure["high"] < math.inf, path
        assert figure["basis"] in {"spec", "public"}, path


def test_a_range_is_as_wide_as_published_measurements_of_its_kind() -> None:
    answer = ask(**request_of("generate", batch=8))
    assert answer.request_s is not None
    assert answer.tpot_s is not None
    assert answer.decode_tokens_per_s is not None
    spreads = published_spreads()
    for figure, kind in ((answer.request_s.mean, "batch request time"), (answer.tpot_s.mean, "decode")):
        logs = sum(spreads.slope(kind, fact) * amount for fact, amount in answer.evidence.items())
        half = math.hypot(spreads.kinds[kind].half_width * math.exp(logs), answer.evidence[HOST_OPEN])
        assert math.log(figure.high / figure.value) == pytest.approx(half, rel=1e-3)
    rate = answer.decode_tokens_per_s
    assert rate.high / rate.value == pytest.approx(answer.tpot_s.mean.value / answer.tpot_s.mean.low)


@pytest.mark.parametrize(
    ("known", "unknown", "fact"),
    [
        ({}, {"engine": "vllm"}, "release of the engine not named"),
        ({}, {"engine": None}, "engine not named"),
        ({"concurrency": 8}, {"concurrency": "max"}, "as many requests at once as there are"),
        ({"concurrency": 8}, {"concurrency": None, "request_rate_per_s": 1.0}, "requests at a rate"),
        ({"gpus": 2, "tp": 2}, {"gpus": 2, "tp": 2, "link": "pcie"}, "PCIe between GPUs"),
        ({}, {"model": "qwen3-30b-a3b"}, "mixture of experts"),
        ({"weight_dtype": "bf16"}, {"weight_dtype": "fp8"}, "weights below 16 bit"),
    ],
)
def test_knowing_less_never_narrows_a_range(known: dict[str, Any], unknown: dict[str, Any], fact: str) -> None:
    answers = [ask(**request_of("serve", **{"engine": "vllm@0.12.0"} | fields)) for fields in (known, unknown)]
    assert [fact in answer.evidence for answer in answers] == [False, True]
    for figure in ("output_tokens_per_s", "requests_per_s"):
        narrow, wide = (getattr(answer, figure) for answer in answers)
        # 5 %: the host's share of the time, which widens a range too, is less where more requests run
        assert narrow.value / narrow.low <= 1.05 * wide.value / wide.low


def test_dollars_count_the_traffic_not_the_room_beside_it() -> None:
    answer = ask(**request_of("serve", concurrency=None, request_rate_per_s=0.01, output_tokens=200, price_usd_per_gpu_h=2.0))
    assert answer.usd_per_million_tokens is not None
    assert answer.requests_per_s is not None
    assert answer.usd_per_million_tokens.value == pytest.approx(2 / (0.01 * 200 * 3600) * 1e6)
    assert answer.requests_per_s.high == pytest.approx(0.01), "no more is answered than comes"


def test_a_mean_alone_is_a_length_like_a_number() -> None:
    plain, means = (request_of("serve", input_tokens=tokens, output_tokens=tokens) for tokens in (1000, {"mean": 1000}))
    assert wire(ask(**plain)) == wire(ask(**means))


def test_a_closed_loop_of_few_requests_ends_with_a_round_that_is_not_full() -> None:
    endless = ask(**request_of("serve", concurrency=64)).requests_per_s
    for requests, share in ((64, 1.0), (96, 0.75), (640, 1.0)):
        ended = ask(**request_of("serve", concurrency=64, requests=requests)).requests_per_s
        assert ended is not None
        assert endless is not None
        assert ended.value == pytest.approx(share * endless.value, rel=0.2), "a round of half as many is a little shorter"
    burst = ask(**request_of("serve", concurrency="max", requests=20))
    assert burst.layout is not None
    assert burst.layout.batch == 20


@pytest.mark.parametrize("task", ["train", "generate", "serve"])
@pytest.mark.parametrize("gpu", ["H100-SXM-80GB", "RTX 4090", "L4"])
def test_no_range_crosses_what_is_physically_possible(task: str, gpu: str) -> None:
    bound = {"micro_batch": 8, "sequence": 4096} if task == "train" else {"input_tokens": 4000, "output_tokens": 100}
    answer = ask(**(request_of(task) | {"gpu": gpu, "engine": None} | bound))
    part, memory = chip(gpu).gpu, answer.memory_bytes
    assert memory is not None
    assert answer.tokens_per_s is not None
    assert memory.total.low >= memory.weights + memory.optimizer + memory.kv_cache
    if answer.decode_tokens_per_s is not None:
        assert answer.decode_tokens_per_s.high * 2 * (8_190_735_360 - 151936 * 4096) <= part.memory_bandwidth_bytes_per_s * 1.001, (
            "norms are no products"
        )
    if task == "train" and answer.flop_per_token is not None:
        assert answer.tokens_per_s.high * answer.flop_per_token <= part.compute_flop_per_s["bf16"] * (1 + 1e-9)


def test_a_price_is_turned_into_dollars_per_token() -> None:
    answer = ask(**request_of("generate", gpus=2, price_usd_per_gpu_h=3.0))
    assert answer.tokens_per_s is not None
    assert answer.usd_per_million_tokens is not None
    assert answer.flop_per_usd is not None
    assert answer.flop_per_token is not None
    per_hour = answer.tokens_per_s.value * 3600
    assert answer.usd_per_million_tokens.value == pytest.approx(1e6 * 6.0 / per_hour)
    assert answer.flop_per_usd.value == pytest.approx(answer.flop_per_token * per_hour / 6.0)
    assert isinstance(answer.usd_per_million_tokens, Figure)
    table = {"L4": 1.0, "H100 SXM5 80GB": 3.0}
    assert ask(**request_of("generate", gpus=2, price_usd_per_gpu_h=table)).usd_per_million_tokens == answer.usd_per_million_tokens
    assert ask(**request_of("generate", gpus=2, price_usd_per_gpu_h={"L4": 1.0})).usd_per_million_tokens is None
    low, high = answer.usd_per_million_tokens.low, answer.usd_per_million_tokens.high
    assert low == pytest.approx(1e6 * 6.0 / 3600 / answer.tokens_per_s.high)
    assert high == pytest.approx(1e6 * 6.0 / 3600 / answer.tokens_per_s.low)


def test_absent_degrees_are_chosen_so_that_they_multiply_to_the_gpus() -> None:
    for task, given in itertools.product(
        FIELDS, ({"gpus": 8}, {"gpus": 8, "tp": 2}, {"gpus": 8, "pp": 2}, {"gpus": 16, "dp": 2}, {"tp": 4})
    ):
        layout = ask(**request_of(task, model="llama-3.1-70b", **given)).layout
        assert layout is not None
        assert layout.tp * layout.pp * layout.dp * layout.cp == layout.gpus == given.get("gpus", 4)
        assert all(getattr(layout, name) == value for name, value in given.items())


def test_a_model_can_be_given_as_its_config() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    }
    own, named = ask(**request_of("generate", model=config)), ask(**request_of("generate", model="llama-3.1-8b"))
    assert own == named


def test_lengths_may_be_distributions() -> None:

    spread = ask(**request_of("serve", input_tokens=Lengths(mean=600, p95=2000), output_tokens=Lengths(mean=200)))
    assert spread.fits
    assert spread.memory_bytes is not None
    assert spread.memory_bytes.kv_cache == 8 * 800 * 147_456


# --- faults -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ({"gpu": "H100-SXM9"}, "gpu", "'H100-SXM9' is not a known GPU"),
        ({"model": "qwen3-9b"}, "model", "'qwen3-9b' is not a known model"),
        ({"model": {"model_type": "qwen4"}}, "model.model_type", "'qwen4' is not supported"),
        ({"model": {"model_type": "llama", "hidden_size": 64}}, "model.num_hidden_layers", "missing"),
        ({"gpus": 8, "tp": 2, "pp": 2, "dp": 4}, "gpus", "8 is not tp·pp·dp·cp = 2·2·4·1 = 16"),
        ({"gpus": 6, "tp": 4}, "gpus", "6 is not tp·pp·dp·cp"),
        ({"task": "train", "tp": 5}, "tp", "5 does not divide the model's 32 attention heads"),
        ({"tp": 0}, "tp", "a whole number from 1 to 1,000,000"),
        ({"pp": -1}, "pp", "from 1 to"),
        ({"gpus_per_node": 0}, "gpus_per_node", "from 1 to"),
        ({"batch": -4}, "batch", "-4 is not accepted; it has to be a whole number from 1 to 1,000,000,000."),
        ({"task": "train", "micro_batch": 0}, "micro_batch", "from 1"),
        ({"task": "train", "global_batch": -8}, "global_batch", "from 1"),
        ({"task": "train", "sequence": -1}, "sequence", "from 1"),
        ({"input_tokens": 0}, "input_tokens", "from 1"),
        ({"output_tokens": -3}, "output_tokens", "from 1"),
        ({"task": "serve", "concurrency": 0}, "concurrency", "from 1 to 1,000,000,000 or 'max'"),
        ({"task": "serve", "request_rate_per_s": -1.0}, "request_rate_per_s", "from 0.000001 to 1,000,000,000"),
        ({"memory_fraction": 1.5}, "memory_fraction", "from 0.01 to 1"),
        ({"price_usd_per_gpu_h": 0.0}, "price_usd_per_gpu_h", "from 0.000001"),
        ({"weight_dtype": "int5"}, "weight_dtype", "'int5' is not accepted"),
        ({"engine": "vlm@0.9"}, "engine", "'vlm@0.9' is not accepted"),
    ],
)
def test_a_fault_is_named_by_its_key(fields: dict[str, Any], key: str, words: str) -> None:
    found = fault(**fields)
    assert key in found
    assert words in found[key]


def test_every_fault_of_a_request_is_named() -> None:
    assert set(fault(batch=-1, input_tokens=0, memory_fraction=2.0)) == {"batch", "input_tokens", "memory_fraction"}


def test_a_bad_request_leaves_its_neighbours_alone() -> None:
    good, bad = request_of("generate", id=1), request_of("generate", id=2, gpu="H1000")
    first, error, last = ask_all(good, bad, good | {"id": 3})
    assert isinstance(first, Answer)
    assert isinstance(error, UserError)
    assert isinstance(last, Answer)
    assert msgspec.structs.replace(last, id=1) == first


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpu": "V100-SXM2-16GB", "dtype": "bf16"}, "no known bf16 rate"),
        ({"gpu": "T4", "dtype": "fp16", "engine": "tensorrt-llm"}, "compute capability 7.5, TensorRT-LLM needs 8.0"),
        ({"gpu": "A100-SXM-80GB", "weight_dtype": "nvfp4"}, "compute capability 8.0, nvfp4 weights need 10.0"),
        ({"gpu": "M2 Ultra", "engine": "vllm"}, "vLLM runs on GPUs of NVIDIA and AMD and Intel; llama.cpp and PyTorch run"),
        ({"gpu": "MI300X", "engine": "tensorrt-llm"}, "TensorRT-LLM runs on GPUs of NVIDIA"),
    ],
)
def test_what_a_gpu_cannot_run_is_an_answer_with_a_reason(fields: dict[str, Any], words: str) -> None:
    answer = ask(**request_of("generate") | fields)
    assert not answer.fits
    assert answer.reason is not None
    assert words in answer.reason
    assert answer.memory_bytes is None
