"""`gpu-planner validate`: rows of published measurements as requests, their units, the statistics, and the command as a process."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, RunPlanner

from planner.engine.answers import Answer, Figure, MemoryBytes, Percentiles
from planner.engine.job.engines import find_engine
from planner.engine.validation import Comparison, by_kind, compared, quantile, score, worst
from planner.errors import UserError
from planner.hardware.measurement import Measurement
from planner.hardware.store import Store
from planner.workload.published.experiments import COLUMNS, Experiment, PublishedSet, read_published
from planner.workload.published.names import model_key
from planner.workload.published.values import METRICS

GPUS = frozenset({"a100-sxm-80gb", "h100-sxm-80gb"})
SERVED = {
    "config_id": "s-1",
    "task": "serving",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "model": "Llama-2-7B",
    "framework": "vllm 0.6.3",
    "precision": "fp16",
    "concurrency": "16",
    "isl": "512",
    "osl": "128",
    "metric": "tpot_s",
    "value": "0.02",
    "unit": "s",
}
TRAINED = {
    "config_id": "t-1",
    "task": "pretrain",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "8",
    "model": "Llama-2-7B",
    "framework": "torch 2.4",
    "precision": "bf16",
    "micro_batch": "2",
    "global_batch": "64",
    "seq_len": "2048",
    "sharding": "FULL_SHARD",
    "checkpointing": "full",
    "metric": "tokens_per_s_per_gpu",
    "value": "3000",
    "unit": "tok/s/GPU",
}
GENERATED = SERVED | {"config_id": "g-1", "task": "inference_batch", "concurrency": "", "micro_batch": "4"}


def write(folder: Path, *rows: dict[str, str], name: str = "somebody.csv") -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def read(folder: Path, *rows: dict[str, str]) -> PublishedSet:
    return read_published(write(folder, *rows), GPUS, lambda key: {"key": key} if key != "unheard-of-7b" else None)


def asked(folder: Path, row: dict[str, str]) -> Experiment:
    (experiment,) = read(folder, row).experiments
    return experiment


def left_out(folder: Path, row: dict[str, str]) -> str:
    found = read(folder, row)
    assert not found.experiments or not found.experiments[0].values
    (reason,) = found.left_out
    return reason


def test_rows_of_one_configuration_are_one_experiment(tmp_path: Path) -> None:
    found = read(tmp_path / "p", SERVED, SERVED | {"metric": "ttft_s", "value": "300", "unit": "ms"}, TRAINED)
    assert [len(one.values) for one in found.experiments] == [2, 1]
    served = found.experiments[0]
    assert [(value.quantity, value.value, value.line) for value in served.values] == [("tpot_s", 0.02, 2), ("ttft_s", 0.3, 3)]
    assert (served.source, served.request.task, served.request.concurrency) == ("somebody", "serve", 16)
    assert (served.request.input_tokens, served.request.output_tokens, served.request.dtype) == (512, 128, "fp16")
    assert found.folder == "p"


@pytest.mark.parametrize(
    ("framework", "engine"),
    [
        ("vllm 0.6.3", "vllm@0.6.3"),
        ("vLLM", "vllm"),
        ("trtllm 1.0.0rc3", "tensorrt-llm@1.0.0rc3"),
        ("TensorRT-LLM 0.9.0", "tensorrt-llm@0.9.0"),
        ("HF transformers 4.35.2 exllama v2", "transformers@4.35.2"),
        ("HF Trainer 4.33.0.dev0", "transformers@4.33.0.dev0"),
        ("HF PEFT 0.19.2.dev0 torch 2.13.0", "transformers"),
        ("llama.cpp May-2024", "llama.cpp"),
        ("Megatron-LM 2021 (SC21)", "megatron"),
        ("NeMo 24.07", "megatron"),
        ("torchtune 0.6", "torch"),
        ("FasterTransformer", None),
    ],
)
def test_the_release_is_asked_where_it_is_the_engines_own(tmp_path: Path, framework: str, engine: str | None) -> None:
    request = asked(tmp_path, SERVED | {"framework": framework}).request
    assert request.engine == engine
    assert engine is None or find_engine(engine).name == engine.partition("@")[0]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("NousResearch/Llama-2-13b-hf", "llama-2-13b"),
        ("llama2-70b", "llama-2-70b"),
        ("Llama 7B", "llama-1-7b"),
        ("TheBloke/vicuna-7B-v1.5-GPTQ", "llama-2-7b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Mixtral 8x7B", "mixtral-8x7b"),
        ("GPT3-175B", "gpt-3-175b"),
        ("GPT-2 124M", "gpt2"),
        ("internlm2-chat-7b", "internlm2-7b"),
    ],
)
def test_a_models_name_is_unified_not_guessed(name: str, key: str) -> None:
    assert model_key(name) == key


def test_configs_of_the_folder_win_over_the_catalogue(tmp_path: Path) -> None:
    folder = write(tmp_path / "p", SERVED)
    (folder / "models.json").write_text(json.dumps({"llama-2-7b": {"model_type": "llama", "mine": True}}))
    (one,) = read_published(folder, GPUS, lambda key: {"key": key}).experiments
    assert one.request.model == {"model_type": "llama", "mine": True}


def test_a_gpt_without_a_name_is_read_by_its_sizes(tmp_path: Path) -> None:
    row = TRAINED | {"model": "GPT-22B", "n_layers": "48", "d_model": "6144", "n_heads": "64", "vocab": "51200"}
    write(tmp_path, row)
    (one,) = read_published(tmp_path, GPUS, lambda _: None).experiments
    assert isinstance(one.request.model, dict)
    assert one.request.model["n_embd"] == 6144
    assert one.request.model["n_positions"] == 2048


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"recipe": "mixed", "sharding": "zero3", "checkpointing": "full", "micro_batch": 2, "global_batch": 64, "gpus": 8}),
        ({"precision": "bf16-true"}, {"recipe": "bf16", "dtype": "bf16"}),
        ({"precision": "bf16-mixed"}, {"recipe": "amp", "dtype": "bf16"}),
        ({"precision": "fp32"}, {"recipe": "fp32", "dtype": "fp32"}),
        ({"task": "finetune_full"}, {"recipe": "bf16", "lora": None}),
        ({"task": "finetune_full", "framework": "NeMo 24.07"}, {"recipe": "mixed"}),
        ({"sharding": "zero1=8", "tp": "2", "pp": "2", "vp": "4"}, {"sharding": "zero1", "tp": 2, "pp": 2, "virtual_stages": 4}),
        ({"sharding": "HSDP", "n_gpus": "128"}, {"sharding": "hsdp", "gpus": 128}),
        ({"sharding": "ddp", "checkpointing": ""}, {"sharding": "none", "checkpointing": "none"}),
        ({"optimizer": "AdamW 8-bit"}, {"optimizer": "adamw-8bit"}),
        ({"note": "torch.compile; something"}, {"compile": True}),
        ({"framework": "Megatron-LM 2021 (SC21)"}, {"attention": "eager", "engine": "megatron"}),
        ({"framework": "litgpt lora", "task": "finetune_lora"}, {"loss": "chunked"}),
    ],
)
def test_training_rows(tmp_path: Path, change: dict[str, str], expected: dict[str, Any]) -> None:
    request = asked(tmp_path, TRAINED | change).request
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("note", "task", "quant", "rank", "targets", "base"),
    [
        ("", "finetune_lora", "", 8, "all-linear", "bf16"),
        ("LoRA r=16 q,v only", "finetune_lora", "", 16, ["q", "v"], "bf16"),
        ("method=LORA; r=32; target=['v_proj', 'q_proj']", "finetune_lora", "", 32, ["q", "v"], "bf16"),
        ("", "finetune_qlora", "", 8, "all-linear", "nf4"),
        ("", "finetune_qlora", "bnb.nf4-dq", 8, "all-linear", "nf4-dq"),
    ],
)
def test_adapters(tmp_path: Path, note: str, task: str, quant: str, rank: int, targets: Any, base: str) -> None:
    lora = asked(tmp_path, TRAINED | {"task": task, "note": note, "weight_quant": quant}).request.lora
    assert lora is not None
    assert (lora.rank, lora.targets, lora.base) == (rank, targets, base)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1, {"compile": False, "loss": "full", "checkpointing": "none", "optimizer_in_backward": None, "offload": None}),
        (3, {"compile": True, "loss": "chunked", "checkpointing": "none"}),
        (5, {"checkpointing": "full", "optimizer_in_backward": True, "offload": None}),
        (7, {"optimizer_in_backward": True, "offload": "activations"}),
        (8, {"optimizer_in_backward": None, "offload": "activations"}),
    ],
)
def test_torchtunes_switches_add_up(tmp_path: Path, step: int, expected: dict[str, Any]) -> None:
    row = TRAINED | {"framework": "torchtune 0.6", "task": "finetune_full", "checkpointing": "", "note": f"step {step}: on"}
    request = asked(tmp_path, row).request
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GENERATED, {"task": "generate", "batch": 4, "input_tokens": 512, "output_tokens": 128, "concurrency": None}),
        (GENERATED | {"isl": "", "osl": ""}, {"input_tokens": 1, "output_tokens": 128}),
        (GENERATED | {"task": "prefill", "osl": ""}, {"task": "prefill", "output_tokens": 1}),
        (GENERATED | {"n_gpus": "4", "sharding": "layer split"}, {"pp": 4, "tp": 1}),
        (GENERATED | {"n_gpus": "4", "framework": "exllamav2"}, {"pp": 4, "tp": 1}),
        (GENERATED | {"n_gpus": "2", "note": "PCIe not NVLink"}, {"link": "pcie"}),
        (GENERATED | {"model": "TheBloke/LLaMa-7B-GPTQ"}, {"weight_dtype": "gptq-int4"}),
        (GENERATED | {"model": "somebody/vicuna-7b-v1.5-awq-gemm"}, {"weight_dtype": "awq"}),
        (GENERATED | {"weight_quant": "Q4_K_M", "precision": "fp16-act"}, {"weight_dtype": "q4_k_m", "dtype": "fp16"}),
        (GENERATED | {"weight_quant": "bnb-4bit"}, {"weight_dtype": "nf4"}),
        (GENERATED | {"kv_precision": "fp8"}, {"kv_dtype": "fp8"}),
        (GENERATED | {"note": "attention=fa2; HF generate"}, {"attention": "flash"}),
        (SERVED | {"concurrency": ""}, {"concurrency": "max"}),
        (SERVED | {"concurrency": "", "request_rate": "2.5"}, {"concurrency": None, "request_rate_per_s": 2.5}),
    ],
)
def test_inference_rows(tmp_path: Path, row: dict[str, str], expected: dict[str, Any]) -> None:
    request = asked(tmp_path, row).request
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (SERVED | {"note": "OUTLIER by its authors"}, "flagged in its note"),
        (SERVED | {"metric": "mfu_pct"}, "metric mfu_pct"),
        (SERVED | {"gpu": "A100"}, "GPU A100"),
        (SERVED | {"gpu": ""}, "GPU not stated"),
        (SERVED | {"model": "unheard-of-7B"}, "architecture of unheard-of-7B not known"),
        (SERVED | {"task": "serving_disagg"}, "task serving_disagg"),
        (SERVED | {"isl": ""}, "token lengths not stated"),
        (SERVED | {"precision": "fp6"}, "precision fp6 not modelled"),
        (TRAINED | {"micro_batch": ""}, "sequence length or micro batch not stated"),
        (TRAINED | {"n_gpus": "64", "sharding": ""}, "layout of more than one node not stated"),
        (TRAINED | {"optimizer": "lora-fa"}, "optimizer lora-fa not modelled"),
        (TRAINED | {"framework": "torchtune 0.6"}, "torchtune recipe or padding not stated"),
        (TRAINED | {"task": "finetune_lora", "note": "method=ADALORA; r=8"}, "an adapter that is not LoRA"),
        (TRAINED | {"task": "finetune_lora", "framework": "litgpt adapter_v2"}, "an adapter that is not LoRA"),
        (TRAINED | {"note": "dynamic padding, max 768"}, "sequences shorter than stated"),
    ],
)
def test_what_is_left_out_has_its_reason(tmp_path: Path, row: dict[str, str], reason: str) -> None:
    assert left_out(tmp_path, row) == reason


def test_a_note_that_only_sounds_like_a_flag_is_compared(tmp_path: Path) -> None:
    assert asked(tmp_path, GENERATED | {"note": "decode rate excludes prefill when given"}).values


@pytest.mark.parametrize(
    ("change", "quantity", "value"),
    [
        ({"metric": "peak_mem", "value": "10", "unit": "GB"}, "device_bytes", 10e9),
        ({"metric": "peak_mem_nvml", "value": "10", "unit": "GiB"}, "device_bytes", 10 * 2**30),
        ({"metric": "peak_mem_allocated", "value": "10", "unit": "MB"}, "allocated_bytes", 10e6),
        ({"metric": "peak_mem_reserved_max", "value": "10", "unit": "bytes"}, "reserved_bytes", 10.0),
        ({"metric": "peak_mem", "value": "10", "unit": "MiB", "note": "torch peak ACTIVE memory"}, "allocated_bytes", 10 * 2**20),
        ({"metric": "peak_mem", "value": "1", "unit": "GB", "source": "github:Lightning-AI/litgpt@1:x"}, "allocated_bytes", 1e9),
        ({"metric": "peak_mem", "value": "8", "unit": "GB", "n_gpus": "4", "note": "summed over GPUs"}, "device_bytes", 2e9),
        ({"metric": "decode_ms_per_token", "value": "20", "unit": "ms"}, "decode_tokens_per_s", 50.0),
        ({"metric": "prefill_tokens_per_s", "value": "1024", "unit": "tok/s"}, "prefill_s", 4 * 512 / 1024),
        (
            {"metric": "throughput_out_tokens_per_s_per_gpu", "value": "5", "unit": "tok/s/GPU", "n_gpus": "4"},
            "output_tokens_per_s",
            20.0,
        ),
        ({"metric": "oom", "value": "1", "unit": "bool"}, "fits", 0.0),
        ({"metric": "oom", "value": "0", "unit": "bool"}, "fits", 1.0),
    ],
)
def test_units_and_meanings(tmp_path: Path, change: dict[str, str], quantity: str, value: float) -> None:
    (found,) = asked(tmp_path, GENERATED | change).values
    assert found.quantity == quantity
    assert found.value == pytest.approx(value)


def test_samples_become_tokens(tmp_path: Path) -> None:
    (found,) = asked(tmp_path, TRAINED | {"metric": "samples_per_s_total", "value": "3", "unit": "seq/s"}).values
    assert (found.quantity, found.value) == ("tokens_per_s", 3 * 2048)


def test_every_bad_row_is_named_with_file_and_line(tmp_path: Path) -> None:
    rows = (SERVED, SERVED | {"value": "fast"}, SERVED | {"n_gpus": "two"}, SERVED | {"unit": "furlong"}, TRAINED | {"task": ""})
    with pytest.raises(UserError) as wrong:
        read(tmp_path / "p", *rows)
    places = [(problem.where.rpartition("/")[2], problem.key) for problem in wrong.value.problems]
    assert places == [
        ("somebody.csv:3", "value"),
        ("somebody.csv:4", "n_gpus"),
        ("somebody.csv:5", "unit"),
        ("somebody.csv:6", "task"),
    ]


def test_a_file_without_the_columns_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("config_id,task,gpu\n1,serving,A100\n")
    with pytest.raises(UserError, match=r"odd\.csv: has no column n_gpus, model, framework, metric, value, unit"):
        read_published(tmp_path, GPUS, lambda _: None)


# --- statistics ---------------------------------------------------------------------------------------------------------------


def comparison(measured: float, predicted: float | None, spread: float = 1.25, **more: Any) -> Comparison:
    given: dict[str, Any] = {"kind": "decode", "source": "s", "framework": "f", "experiment": "e", "line": 2, "gpu": "g"}
    low, high = (predicted / spread, predicted * spread) if predicted is not None else (None, None)
    given |= {"model": "m", "gpus": 1, "measured": measured, "predicted": predicted, "low": low, "high": high}
    return Comparison(**given | more)


def test_the_statistics_by_hand() -> None:
    group = [comparison(100, 110), comparison(100, 80), comparison(100, 150), comparison(100, 100), comparison(100, None)]
    found = score("decode", group)
    assert (found.n, found.answered) == (5, 4)
    assert found.median_error == pytest.approx(0.15)  # of 0, 0.1, 0.2, 0.5
    assert found.p90_error == pytest.approx(0.2 + 0.7 * 0.3)
    assert found.signed_error == pytest.approx(0.05)  # of -0.2, 0, 0.1, 0.5
    assert found.coverage == pytest.approx(3 / 4)  # 150 / 1.25 is above 100; 80 * 1.25 just reaches it
    assert found.width == pytest.approx(1.25**2)


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.9) == 3.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == pytest.approx(3.0)


def test_a_wrong_fits_is_told_from_a_wrong_does_not() -> None:
    pairs = ((0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    (found,) = by_kind([comparison(was, said, kind="fits") for was, said in pairs])
    assert (found.n, found.right, found.wrongly_fit, found.median_error) == (5, 2, 2, None)


def test_the_worst_come_first_and_need_three_values() -> None:
    groups = (
        [comparison(100, 300, source="tiny")] * 2 + [comparison(100, 130, source="b")] * 3 + [comparison(100, 50, source="a")] * 3
    )
    assert [one.source for one in worst(groups)] == ["a", "b"]


def answer(**fields: Any) -> Answer:
    return Answer(fits=True, reason=None, bottleneck=None, assumed={"engine": "transformers"}, **fields)


def test_memory_is_compared_as_it_was_counted(tmp_path: Path) -> None:
    rows = [
        GENERATED | {"metric": name, "value": "9", "unit": "GB", "framework": "HF transformers 4.46"}
        for name in METRICS
        if "peak" in name
    ]
    (experiment,) = read(tmp_path, *rows).experiments
    parts = dict.fromkeys(("gradients", "optimizer", "activations", "logits", "buffers"), 0.0)
    total = Figure(10e9, 8e9, 12e9, "spec")
    memory = MemoryBytes(weights=6e9, kv_cache=2e9, overhead=2e9, total=total, capacity=80e9, **parts)
    found = {one.quantity: one for one in experiment.values}
    predicted = dict(
        zip((value.quantity for value in experiment.values), compared([experiment], [answer(memory_bytes=memory)]), strict=True)
    )
    context = find_engine("transformers@4.46").context_bytes
    assert set(found) == {"device_bytes", "reserved_bytes", "allocated_bytes"}
    assert predicted["device_bytes"].predicted == 10e9
    assert predicted["reserved_bytes"].predicted == pytest.approx(10e9 - context)
    assert (predicted["allocated_bytes"].predicted, predicted["allocated_bytes"].low, predicted["allocated_bytes"].high) == (
        8e9,
        6e9,
        10e9,
    )
    assert predicted["device_bytes"].kind == "inference memory"
    assert predicted["device_bytes"].known_bytes == 8e9


def test_latencies_are_compared_by_their_mean_and_refusals_stay_unanswered(tmp_path: Path) -> None:
    experiment = asked(tmp_path, SERVED | {"metric": "ttft_s"})
    figure = Figure(0.03, 0.01, 0.05, "spec")
    answered, refused = compared([experiment, experiment], [answer(ttft_s=Percentiles(mean=figure)), UserError(())])
    assert (answered.kind, answered.predicted, answered.inside) == ("time to first token", 0.03, True)
    assert answered.error == pytest.approx(0.5)
    assert (refused.predicted, refused.error, refused.inside) == (None, None, None)


# --- the command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return write(
        tmp_path / "collected",
        TRAINED,
        TRAINED | {"metric": "peak_mem_nvml", "value": "60", "unit": "GB"},
        SERVED | {"framework": "vllm 0.12.0"},
        SERVED | {"config_id": "s-2", "gpu": "Abacus 3000"},
        GENERATED | {"weight_quant": "exl2-4.0bpw", "metric": "decode_tokens_per_s", "value": "90", "unit": "tok/s"},
    )


def test_the_command_in_json(run_planner: RunPlanner, published: Path) -> None:
    done = run_planner("validate", str(published), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["folder"] == "collected"
    kinds = {one["kind"]: one for one in found["kinds"]}
    assert set(kinds) == {"training speed", "training memory", "time per output token", "decode"}
    assert kinds["training speed"]["answered"] == 1
    assert kinds["training speed"]["width"] > 1
    assert kinds["decode"]["answered"] == 0
    assert found["not_asked"] == {"GPU Abacus 3000": 1}
    assert any("exl2-4.0bpw" in words for words in found["refused"])
    assert str(published) not in done.stdout


def test_the_command_in_its_other_forms(run_planner: RunPlanner, published: Path, tmp_path: Path) -> None:
    text = run_planner("validate", str(published), "--rows", str(tmp_path / "rows.csv"))
    assert text.returncode == 0, text.stderr
    assert "By kind (collected: 3 experiments)" in text.stdout
    assert "GPU Abacus 3000 (1)" in text.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert [row["kind"] for row in rows] == ["training speed", "training memory", "time per output token", "decode"]
    assert (rows[0]["measured"], rows[0]["line"], rows[3]["predicted"]) == ("3000.0", "2", "")
    assert float(rows[0]["low"]) < float(rows[0]["predicted"]) < float(rows[0]["high"])
    page = run_planner("validate", str(published), "--markdown")
    assert "| kind | n | answered | median | p90 | signed | inside | width |" in page.stdout
    scores = list(csv.DictReader(io.StringIO(run_planner("validate", str(published), "--csv").stdout)))
    assert {row["table"] for row in scores} == {"kind", "source"}
    assert {row["n"] for row in scores} == {"1"}


def test_exit_codes(run_planner: RunPlanner, published: Path, tmp_path: Path) -> None:
    nothing = run_planner("validate")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing was measured here yet" in nothing.stderr
    unknown = write(tmp_path / "unknown", SERVED | {"gpu": "Abacus 3000"})
    assert run_planner("validate", str(unknown)).returncode == 1
    write(published, SERVED | {"value": "fast"}, name="wrong.csv")
    wrong = run_planner("validate", str(published))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "wrong.csv:2: value: 'fast' is not accepted" in wrong.stderr
    assert run_planner("validate", str(published), "--only", "somebody").returncode == 0
    assert run_planner("validate", "--only", "somebody").returncode == 2
    assert run_planner("validate", str(tmp_path / "missing")).returncode == 2


def test_own_measurements_against_the_vendors_figures(run_planner: RunPlanner, tmp_path: Path) -> None:
    def point(name: str, kind: str, **more: Any) -> Measurement:
        fields: dict[str, Any] = {
            "device": "H100 SXM5 80GB",
            "fingerprint": "m-s",
            "status": "ok",
            "taken_at": "2026-01-02T03:04:05Z",
        }
        return Measurement(point=name, kind=kind, suite="quick", run="r", **fields | more)  # type: ignore[arg-type]

    store = Store.open(tmp_path / "state" / "measurements.sqlite3")
    flop = 2.0 * 8192**3
    shape: dict[str, Any] = {"flop": flop, "bytes": 3.0 * 2 * 8192**2, "dtype": "bf16"}
    step: dict[str, Any] = {"model": "qwen3-0.6b", "batch": 8, "sequence": 2048, "recipe": "amp"}
    store.add(point("gemm/bf16/8192", "gemm", value=700e12, **shape))
    store.add(point("gemm/bf16/8192b", "gemm", value=70e12, **shape | {"status": "throttled"}))
    store.add(point("copy/1g", "copy", value=2.8e12, bytes=2e9))
    store.add(point("train/x", "train", value=3e14, flop=5.6e13, dtype="bf16", parameters=step))
    store.add(point("launch/eager", "launch", value=4e-6))
    store.close()
    done = run_planner("--state", str(tmp_path / "state"), "validate", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = {one["kind"]: one for one in found["own"]}
    assert set(own) == {"own matrix products", "own memory copies", "own training steps"}
    assert all((one["n"], one["answered"], one["source"]) == (1, 1, "H100 SXM5 80GB") for one in own.values())
    assert own["own matrix products"]["median_error"] < 0.2
    assert own["own memory copies"]["coverage"] == 1
    assert sum(found["own_left_out"].values()) == 2


def test_the_documents_name_every_column_and_metric() -> None:
    page = (ROOT / "docs" / "validation.md").read_text()
    missing = [name for name in (*COLUMNS, *METRICS) if f"`{name}`" not in page]
    assert not missing


def test_every_reason_is_about_something_and_says_it_once() -> None:
    from planner.cli.validate_tables import known_reasons

    keys = [(one.source, one.framework, one.kind) for one in known_reasons()]
    assert len(keys) == len(set(keys))
    assert all(one.text.endswith(".") and len(one.text) > 40 for one in known_reasons())
