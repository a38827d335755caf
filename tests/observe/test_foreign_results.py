"""Result files of other tools: each read from a file of its own, wrong ones told in one message."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from each_case import each_case
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
    from planner.observe.results.result import Contents

    taken = set()
    for path in sorted(FILES.glob("*.*")):
        if path.suffix != ".md" or "llama" in path.name:
            fitting = [one.tool for one in READERS if one.recognises(Contents(path.name, path.read_bytes()))]
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


def test_vllm_serve_of_a_server_whose_speed_is_known() -> None:
    one = only("vllm_serve_0_33.json")
    assert one.settings == {
        "task": "serve",
        "model": "known-speed",
        "input_tokens": 14,
        "output_tokens": 20,
        "concurrency": 4,
        "requests": 24,
    }
    assert one.seen["tpot_s"] == pytest.approx(0.010, rel=0.05)
    assert one.seen["ttft_s"] == pytest.approx(0.050, abs=0.03)  # its client shared two busy processors


def test_vllm_throughput_sends_everything_at_once() -> None:
    one = only("vllm_throughput.json")
    assert one.settings == {"task": "serve", "engine": "vllm", "model": "known-speed", "concurrency": 24, "requests": 24}
    assert one.seen == pytest.approx({"requests_per_s": 24 / 37.659592131})


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


def test_aiperf_of_a_server_whose_speed_is_known() -> None:
    one = only("aiperf.json")
    assert one.settings == {
        "task": "serve",
        "model": "known-speed",
        "input_tokens": 32,
        "output_tokens": 20,
        "concurrency": 4,
        "requests": 24,
    }
    assert one.seen["tpot_s"] == pytest.approx(0.010, rel=0.05)
    assert one.seen["ttft_s"] == pytest.approx(0.050, abs=0.04)  # its client shared two busy processors
    rated = json.loads((FILES / "aiperf.json").read_text())
    rated["input_config"]["phases"] = [{"name": "profiling", "kind": "profiling", "type": "poisson", "requests": 24, "rate": 12.0}]
    (found,) = read_results(json.dumps(rated).encode(), "rated")
    assert isinstance(found, Result)
    assert found.settings["request_rate_per_s"] == 12.0


def test_aiperf_of_an_earlier_release_and_genai_perf() -> None:
    one, other = only("aiperf_0_10.json"), only("genai_perf.json")
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


def test_the_report_that_trtllm_bench_prints() -> None:
    one = only("trtllm_bench.txt")
    assert one.settings == {
        "task": "serve",
        "engine": "tensorrt-llm@0.21.0rc0",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpus": 1,
        "tp": 1,
        "pp": 1,
        "dtype": "bf16",
        "input_tokens": 128,
        "output_tokens": {"mean": 128.0, "p50": 128.0},
        "concurrency": 95,
        "requests": 100,
    }
    assert one.seen == pytest.approx(
        {
            "ttft_s": 0.1626706,
            "tpot_s": 7.3272e-3,
            "request_s": 1.0932284,
            "output_tokens_per_s": 11076.77,
            "requests_per_s": 86.5373,
        }
    )


def test_mlperf_by_hand_with_the_model_of_its_folder() -> None:
    data = (FILES / "mlperf_log_summary.txt").read_bytes()
    (one,) = read_results(data, "results/llama2-70b-99.9/Server/performance/run_1/mlperf_log_summary.txt")
    assert isinstance(one, Result)
    assert one.settings == {"task": "serve", "model": "llama-2-70b", "output_tokens": 296, "request_rate_per_s": 104.0}
    assert one.seen == pytest.approx(
        {
            "ttft_s": 0.963332124,
            "tpot_s": 0.126269215,
            "request_s": 37.75680707,
            "output_tokens_per_s": 29522.56,
            "requests_per_s": 99.86,
        }
    )
    assert "model" not in only("mlperf_log_summary.txt").settings
    offline = data.replace(b"Scenario : Server", b"Scenario : Offline").replace(
        b"samples_per_query : 1", b"samples_per_query : 73260"
    )
    (one,) = read_results(offline.replace(b": VALID", b": INVALID"), "f")
    assert isinstance(one, Result)
    assert (one.settings["concurrency"], one.settings["requests"]) == (73260, 73260)
    assert "request_s" not in one.seen
    assert "not valid" in one.notes[0]


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
        (b'{"benchmarks": [{"config": 3}]}', "but its form is not known"),
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


def names() -> list[str]:
    return sorted(path.name for path in FILES.glob("*.*") if path.name != "SOURCES.md")


def figures(one: Result | CollectiveTimes) -> set[tuple[Any, float]]:
    return set(one.seen.items() if isinstance(one, Result) else one.series)


@pytest.mark.parametrize("name", names())
def test_a_file_that_was_cut_off_is_told_or_gives_what_the_whole_gives(name: str) -> None:
    data = (FILES / name).read_bytes()
    whole = read_results(data, name)
    told = list[list[str]]()
    for end in {round(len(data) * part / 60) for part in range(60)} | set(range(len(data) - 40, len(data) - 2)):
        try:
            found = read_results(data[:end], name)
        except UserError as wrong:
            told.append([problem.where.partition(":")[0] for problem in wrong.problems])
        else:
            for one, same in zip(found, whole, strict=False):
                assert figures(one) <= figures(same), end
    assert len(told) > 10
    assert all(files == [name] for files in told)


@pytest.mark.sweep
@each_case("name, wrong", product([name for name in names() if ".json" in name], [None, "x", [], {"x": -1}, True]))
def test_a_value_of_another_kind_is_told_or_left_out(name: str, wrong: object) -> None:
    data = (FILES / name).read_text()
    whole = json.loads(data) if data.lstrip().startswith("[") or name.endswith(".json") else json.loads(data.splitlines()[0])
    one = whole[0] if isinstance(whole, list) else whole
    for place in (one, *(value for value in one.values() if isinstance(value, dict))):
        for key, right in list(place.items()):
            place[key] = wrong
            try:
                said: object = read_results(json.dumps(whole).encode(), name)
            except UserError as told:
                said = [one.where for one in told.problems]
            assert said
            place[key] = right


def test_more_results_than_are_read_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.observe.results.read.MOST_RESULTS", 1)
    with pytest.raises(UserError, match=r"holds 2 results; 1 is the most"):
        results("llama_bench.json")


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
