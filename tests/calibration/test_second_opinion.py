"""The second opinion: what aiconfigurator is asked, what becomes of its answers, and the page, as a process without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import second_opinion
from other_planner.ask import OUT_OF_MEMORY, reason
from other_planner.questions import question_of
from repository import ROOT

from planner.engine.answers.answer import Answer, LayoutAnswer
from planner.engine.answers.figure import Figure, Percentiles
from planner.workload.published.experiments import Experiment, PublishedValue, read_published
from planner.workload.published.rules import NotPredicted
from planner.workload.tasks import Lengths, Request

MEASURED = ROOT / "tests" / "data" / "second_opinion"
"""Runs that others published, with `answers.jsonl`: what aiconfigurator 0.12.0 said of them."""
GPUS = frozenset({"a100-sxm-80gb", "h100-sxm-80gb"})
LLAMA = {"model_type": "llama", "hidden_size": 4096}
H100 = "H100 SXM5 80GB"
SERVED = Request(
    model=dict(LLAMA),
    task="serve",
    gpu="H100-SXM-80GB",
    gpus=4,
    engine="vllm@0.12.0",
    dtype="bf16",
    weight_dtype="fp8",
    kv_dtype="fp8",
    concurrency=33,
    input_tokens=Lengths(mean=700.4),
    output_tokens=128,
    prefix_tokens=64,
)
LAYOUT = LayoutAnswer(gpus=4, tp=2, pp=1, dp=2)


def answer(layout: LayoutAnswer | None = LAYOUT, **given: Any) -> Answer:
    return Answer(fits=True, reason=None, bottleneck=None, layout=layout, **given)


def asked(request: Request = SERVED, part: str = H100, layout: LayoutAnswer = LAYOUT, **config: Any) -> dict[str, Any]:
    return question_of(request, answer(layout), part, LLAMA | config)


def changed(**given: Any) -> Request:
    return msgspec.structs.replace(SERVED, **given)


def test_a_service_in_its_words() -> None:
    question = asked()
    assert question.pop("key")
    assert question == {
        "replicas": 2,
        "config": LLAMA | {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 131072},
        "mode": "agg",
        "system_name": "h100_sxm",
        "backend_name": "vllm",
        "isl": 700,
        "osl": 128,
        "batch_size": 17,  # 33 over two replicas, the fuller one
        "tp_size": 2,
        "pp_size": 1,
        "prefix": 64,
        "gemm_quant_mode": "fp8",
        "kvcache_quant_mode": "fp8",
    }


def test_experts_are_spread_as_in_the_layout() -> None:
    spread = asked(layout=LayoutAnswer(gpus=4, tp=4, ep=2), model_type="mixtral", num_local_experts=8)
    assert (spread["moe_tp_size"], spread["moe_ep_size"], spread["moe_quant_mode"]) == (2, 2, "fp8")
    assert spread["config"]["architectures"] == ["MixtralForCausalLM"]


@pytest.mark.parametrize(
    ("request_", "mode", "osl", "batch"),
    [
        (changed(task="generate", concurrency=None, batch=8), "static", 128, 4),
        (changed(task="prefill", concurrency=None, batch=1), "static_ctx", 1, 1),
    ],
)
def test_a_fixed_batch_is_static(request_: Request, mode: str, osl: int, batch: int) -> None:
    question = asked(request_)
    assert (question["mode"], question["osl"], question["batch_size"]) == (mode, osl, batch)


def test_defaults_of_the_planner_are_asked_too() -> None:
    open_ = changed(engine=None, weight_dtype=None, kv_dtype=None)
    told = answer(assumed={"engine": "sglang", "weight_dtype": "int8", "kv_dtype": "bf16"})
    question = question_of(open_, told, H100, LLAMA)
    assert (question["backend_name"], question["gemm_quant_mode"], question["kvcache_quant_mode"]) == (
        "sglang",
        "int8_wo",
        "bfloat16",
    )
    whole = question_of(changed(dtype="int8", weight_dtype="int8"), told, H100, LLAMA)
    assert whole["gemm_quant_mode"] == "sq"


def test_the_key_is_of_what_is_asked() -> None:
    assert asked()["key"] == asked(changed(id=7, price_usd_per_gpu_h=3.0))["key"]
    assert asked()["key"] != asked(changed(concurrency=35))["key"]
    assert asked()["key"] == asked(changed(concurrency=34))["key"]


@pytest.mark.parametrize(
    ("request_", "part", "config", "why"),
    [
        (changed(engine="transformers@4.40"), H100, {}, "engine transformers"),
        (SERVED, "RTX 4090", {}, "part RTX 4090"),
        (SERVED, H100, {"model_type": "falcon"}, "architecture falcon"),
        (changed(concurrency="max"), H100, {}, "requests at once"),
        (changed(concurrency=None, request_rate_per_s=3.0), H100, {}, "requests at once"),
        (changed(weight_dtype="nf4"), H100, {}, "weights in nf4"),
        (changed(task="train"), H100, {}, "task train"),
    ],
)
def test_what_it_has_no_word_for_is_not_asked(request_: Request, part: str, config: dict[str, Any], why: str) -> None:
    with pytest.raises(NotPredicted, match=why):
        asked(request_, part, **config)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("OOM: the model '/tmp/x' does not fit in GPU memory", OUT_OF_MEMORY),
        ("perf database error: GEMM perf data missing for quant 'int4_wo' at /a/b/c; available", "no timings of GEMM in int4_wo"),
        ("perf database error: context attention data missing for ContextKey { fmha", "no timings of context attention"),
        ("No database found for system=l4, backend=vllm", "no timings of that engine"),
        ("Odd thing in /home/me/made/config.json\nand more", "Odd thing in config.json"),
        ("", "nothing said"),
    ],
)
def test_a_reason_is_one_line_without_folders(said: str, told: str) -> None:
    assert told in reason(RuntimeError(said))
    assert "/" not in reason(RuntimeError(said))


def experiment(name: str, *values: PublishedValue) -> Experiment:
    return Experiment("somebody", name, "vllm 0.12.0", "H100-SXM-80GB", "Llama", SERVED, list(values))


def exactly(value: float) -> Figure:
    return Figure(value, value, value, "spec")


def alike(value: float) -> Percentiles:
    return Percentiles(mean=exactly(value), p50=exactly(value), p95=exactly(value), p99=exactly(value))


def test_both_errors_are_of_the_very_same_values() -> None:
    runs = [
        experiment(
            "a", PublishedValue("tpot_s", 0.010, 2), PublishedValue("ttft_s", 1.0, 3), PublishedValue("device_bytes", 1.0, 4)
        ),
        experiment("b", PublishedValue("tpot_s", 0.010, 5)),
        experiment("c", PublishedValue("tpot_s", 0.010, 6)),
        experiment("d", PublishedValue("tpot_s", 0.010, 7)),
    ]
    ours = [answer(tpot_s=alike(0.011), ttft_s=alike(2.0)), answer(tpot_s=alike(0.008)), answer(tpot_s=alike(0.9)), answer()]
    questions: list[dict[str, Any] | str] = [{"key": "a"}, {"key": "b"}, "it does not know this", {"key": "d"}]
    said: dict[str, dict[str, Any]] = {
        "a": {"tpot_s": 0.015, "tables": "vllm 1"},
        "b": {"tpot_s": 0.009, "tables": "vllm 1"},
        "d": {"tpot_s": 1.0},
    }
    found = second_opinion.opinions(runs, ours, questions, said)
    assert [one.line for one in found.ours] == [one.line for one in found.theirs] == [2, 5]
    assert [one.predicted for one in found.theirs] == [0.015, 0.009]
    assert found.unanswered == Counter(
        {"it does not predict ttft_s": 1, "it does not know this": 1, "the planner does not answer either": 1}
    )
    assert found.tables == Counter({"vllm 0.12.0 by vllm 1": 2})
    # ours: +10 % and -20 %; theirs: +50 % and -10 %
    assert second_opinion.by_kind(found).splitlines()[2:] == [
        "| time per output token | 2 | 15.0% | 19.0% | -5.0% | 30.0% | 46.0% | +20.0% | 1 |",
        "| time to first token | 0 | — | — | — | — | — | — | 1 |",
    ]
    assert second_opinion.by_source(found).splitlines()[2:] == [
        "| time per output token | somebody | 2 | 15.0% | 19.0% | -5.0% | 30.0% | 46.0% | +20.0% |"
    ]


def test_an_answer_that_was_given_again_counts_as_it_is_now(tmp_path: Path) -> None:
    record = tmp_path / "answers.jsonl"
    assert second_opinion.read_record(record) == ({}, {})
    lines: list[dict[str, Any]] = [
        {"versions": {"x": "1"}},
        {"key": "a", "error": "no"},
        {"versions": {"x": "2"}},
        {"key": "a", "tpot_s": 1},
    ]
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert second_opinion.read_record(record) == ({"x": "2"}, {"a": {"key": "a", "tpot_s": 1}})


def compare(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "calibration" / "second_opinion.py"), *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.process
def test_recorded_answers_need_no_other_planner(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    record = tmp_path / "answers.jsonl"
    record.write_text((MEASURED / "answers.jsonl").read_text())
    done = compare(MEASURED, "--answers", record, "--python", tmp_path / "nowhere", "--out", out)
    assert done.returncode == 0, done.stderr
    assert out.read_text().strip() == done.stdout.strip()
    assert "aiconfigurator 0.12.0" in done.stdout
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| time", "| batch"))]
    assert {(row[0].strip("| "), row[1]) for row in rows if not row[1].isdigit()} == {
        ("batch throughput", "serve_trtllm_v05_v09"),
        ("time per output token", "serve_aiconfigurator_silicon"),
        ("time to first token", "serve_aiconfigurator_silicon"),
        ("time to first token", "serve_trtllm_v05_v09"),
    }
    assert "| it does not know the engine transformers | 1 |" in done.stdout
    assert "trtllm 1.0.0rc3 by trtllm" in done.stdout


@pytest.mark.process
def test_without_it_and_without_a_record_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = compare(MEASURED, "--python", tmp_path / "nowhere")
    assert done.returncode == 1
    assert "make second-opinion" in done.stderr
    assert "Traceback" not in done.stderr


INSTALLED = any(second_opinion.PYTHON.parent.parent.glob("lib/python*/site-packages/aiconfigurator-*.dist-info"))


@pytest.mark.skipif(not INSTALLED, reason="aiconfigurator is not installed (make second-opinion installs it)")
def test_aiconfigurator_itself_answers_as_recorded(tmp_path: Path) -> None:
    record = tmp_path / "answers.jsonl"
    done = compare(MEASURED, "--answers", record)
    assert done.returncode == 0, done.stderr
    versions, now = second_opinion.read_record(record)
    recorded, before = second_opinion.read_record(MEASURED / "answers.jsonl")
    assert now.keys() == before.keys()
    if versions == recorded:
        for key, figures in before.items():
            assert now[key] == {name: value if isinstance(value, str) else pytest.approx(value) for name, value in figures.items()}


def test_every_recorded_answer_is_of_a_question_that_is_asked() -> None:
    from planner.session import Session

    session = Session.open(state=MEASURED / "no-state", config=MEASURED / "no-config")
    found = read_published(MEASURED, GPUS, lambda _: None).experiments
    questions = second_opinion.questions_of(session, found, session.estimate([one.request for one in found], basis="spec"))
    _, answers = second_opinion.read_record(MEASURED / "answers.jsonl")
    assert {question["key"] for question in questions if isinstance(question, dict)} == answers.keys()
