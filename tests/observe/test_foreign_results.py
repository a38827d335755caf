"""Result files of other tools: each read from a file of its own, wrong ones told in one message."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from repository import ROOT

from planner.errors import UserError
from planner.observe.results.read import READERS, is_exported, read_results, recognised
from planner.observe.results.result import CollectiveTimes, Read, Result

FILES = ROOT / "tests" / "data" / "results"


def results(name: str) -> list[Result]:
    found: Read = read_results((FILES / name).read_bytes(), name)
    assert all(isinstance(one, Result) for one in found)
    return [one for one in found if isinstance(one, Result)]


def only(name: str) -> Result:
    (found,) = results(name)
    return found


def test_every_reader_has_a_file_and_is_the_only_one_that_takes_it() -> None:
    from planner.observe.results.contents import Contents
    from planner.observe.results.read import readers

    taken = set()
    for path in sorted(FILES.glob("*.*")):
        if path.suffix != ".md" or "llama" in path.name:
            fitting = [one.tool for one in readers() if one.recognises(Contents(path.name, path.read_bytes()))]
            assert len(fitting) == 1, (path.name, fitting)
            taken.add(fitting[0])
    assert len(taken) == len(READERS)


def test_vllm_serve_by_hand() -> None:
    one = only("vllm_serve.json")
    assert one.settings == {
        "task": "serve",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "engine": "vllm",
        "input_tokens": 2048,
        "output_tokens": 2048,
        "concurrency": 32,
        "requests": 32,
    }
    assert one.seen == pytest.approx({"ttft_s": 7.27956, "tpot_s": 0.07014, "output_tokens_per_s": 434.4, "requests_per_s": 0.2121})


def test_a_rate_that_was_kept_up_with_is_a_rate_and_one_that_was_not_is_a_closed_loop() -> None:
    one = only("sglang.jsonl")
    assert one.settings["request_rate_per_s"] == 5.0
    assert (one.settings["input_tokens"], one.settings["output_tokens"]) == (302, 196)
    slow = json.loads((FILES / "sglang.jsonl").read_text()) | {"request_rate": 20.0}
    (found,) = read_results(json.dumps(slow).encode(), "slow")
    assert isinstance(found, Result)
    assert found.settings["concurrency"] == 256
    assert "request_rate_per_s" not in found.settings


def test_burstiness_is_the_shape_of_a_gamma_distribution() -> None:
    given = json.loads((FILES / "vllm_serve.json").read_text()) | {"request_rate": 0.2, "burstiness": 0.25, "max_concurrency": None}
    (found,) = read_results(json.dumps(given).encode(), "bursts")
    assert isinstance(found, Result)
    assert found.settings["arrival_variation"] == 2.0


def test_guidellm_of_a_server_whose_speed_is_known() -> None:
    one = only("guidellm.json")
    assert one.settings == {"task": "serve", "model": "known-speed", "input_tokens": 7, "output_tokens": 20, "concurrency": 4}
    assert one.seen["tpot_s"] == pytest.approx(0.010, rel=0.05)  # by the time between tokens, without the first
    assert one.seen["ttft_s"] == pytest.approx(0.050, rel=0.10)


def test_aiperf_and_genai_perf() -> None:
    one, other = only("aiperf.json"), only("genai_perf.json")
    assert (one.tool, other.tool) == ("AIPerf", "GenAI-Perf")
    assert (one.settings["concurrency"], other.settings["concurrency"]) == (2, 16)
    assert other.settings["model"] == "meta-llama/Llama-3.2-1B-Instruct"
    assert one.seen["request_s"] == pytest.approx(2.4135)


def test_inference_perf_says_that_its_client_fell_behind() -> None:
    one = only("inference_perf.json")
    assert one.seen == pytest.approx(
        {"request_s": 11.407194575, "output_tokens_per_s": 4825.5165, "requests_per_s": 37.626}, rel=1e-5
    )
    assert one.settings["request_rate_per_s"] == 129.78
    assert "behind its schedule" in one.notes[0]


def test_trtllm_bench_states_nearly_everything() -> None:
    one = only("trtllm_bench.json").settings
    assert (one["gpu"], one["gpus"], one["tp"], one["weight_dtype"], one["kv_dtype"]) == (
        "NVIDIA H100 80GB HBM3",
        1,
        1,
        "fp8",
        "fp8",
    )
    assert one["engine"] == "tensorrt-llm@1.2.0"


@pytest.mark.parametrize("name", ["llama_bench.csv", "llama_bench.json", "llama_bench.md"])
def test_llama_bench_in_its_three_forms(name: str) -> None:
    prompt, generated, *_ = results(name)
    assert prompt.settings["task"] == "prefill"
    assert prompt.seen["prefill_s"] == pytest.approx(512 / 7200, rel=0.03)
    assert generated.seen["decode_tokens_per_s"] == pytest.approx(119.7, rel=0.01)
    assert generated.settings["weight_dtype"] == "q4_k_m"


def test_a_depth_of_llama_bench_is_a_prefix() -> None:
    deep = results("llama_bench.md")[2].settings
    assert (deep["input_tokens"], deep["prefix_tokens"]) == (1024, 512)


def test_nccl_tests_by_hand() -> None:
    (found,) = read_results((FILES / "nccl_tests.txt").read_bytes(), "nccl")
    assert isinstance(found, CollectiveTimes)
    assert found.settings == {"gpu": "NVIDIA GH200 120GB", "op": "all_reduce", "ranks": 8, "nodes": 2}
    size, seconds = found.series[-1]
    assert size * 2 * 7 / 8 / seconds == pytest.approx(5.43e9, rel=2e-3)  # the bus bandwidth that it printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ((FILES / "vllm_serve.json").read_bytes()[:300], "cut off"),
        (b"", "is empty"),
        (b'{"hello": 1}', "it holds hello"),
        (b"timestamp, power\n1, 2\n", "it begins with 'timestamp, power'"),
        (b'{"benchmarks": []}', "holds no result"),
        (b'{"benchmarks": [{"config": 3}]}', "not of a form that is known"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"[" * 100_000, "nested"),
        (b"| model | test | t/s |\n|---|---|---|\n", "no row of a prompt"),
        (b"#  size count type redop root time algbw busbw #wrong\n", "fewer than two message sizes"),
    ],
)
def test_a_wrong_file_is_one_clear_message(text: bytes, said: str) -> None:
    with pytest.raises(UserError) as told:
        read_results(text, "given.json")
    assert len(told.value.problems) == 1
    assert "given.json" in str(told.value)
    assert said in str(told.value)


def test_infinity_and_nan_are_read_and_never_kept() -> None:
    given = json.loads((FILES / "sglang.jsonl").read_text()) | {"request_rate": math.inf, "mean_ttft_ms": math.nan}
    (found,) = read_results(json.dumps(given).encode(), "f")
    assert isinstance(found, Result)
    assert "ttft_s" not in found.seen
    assert found.settings["concurrency"] == 256


def test_an_export_of_ours_is_told_from_results_of_others() -> None:
    assert is_exported(b'{"schema": 1}')
    assert not is_exported((FILES / "guidellm.json").read_bytes())
    assert recognised((FILES / "guidellm.json").read_bytes(), "f")
    assert not recognised(Path(ROOT / "pyproject.toml").read_bytes(), "f")


def test_our_own_client_sees_what_guidellm_sees_of_the_same_server() -> None:
    ours, theirs = only("bench_serve.jsonl"), only("guidellm.json")
    for quantity in ("tpot_s", "request_s"):
        assert ours.seen[quantity] == pytest.approx(theirs.seen[quantity], rel=0.05)
    assert ours.seen["ttft_s"] == pytest.approx(theirs.seen["ttft_s"], abs=0.006)  # it counts from a moment earlier
