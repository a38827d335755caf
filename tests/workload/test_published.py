"""Published measurements: rows as requests, units as quantities, and what is left out with its reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from published_sample import GENERATED, GPUS, QUEUED, SERVED, TRAINED, asked, left_out, read, write

from planner.engine.job.engines import find_engine
from planner.engine.job.engines.catalogue import STAND_INS
from planner.errors import UserError
from planner.workload.published.experiments import read_published
from planner.workload.published.names import model_key
from planner.workload.tasks import Lengths, Lora


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
        ("llama.cpp May-2024", "llama.cpp@may-2024"),
        ("Megatron-LM 2021 (SC21)", "megatron"),
        ("NeMo 24.07", "megatron-bridge"),
        ("Megatron-Bridge 26.02", "megatron-bridge"),
        ("Megatron-DeepSpeed", "megatron-deepspeed"),
        ("litgpt lora", "litgpt"),
        ("HF trainer fms-acceleration transformers 4.48.1", "fms-acceleration@2025-01"),
        ("torchtune 0.6", "torch"),
        ("torchtitan 0.0.2 torch 2.7.0 torchao 0.10.0", "torch@2.7"),
        ("torchtitan 2025-01", "torch@2025-01"),
        ("fms-fsdp", "torch@2024-03"),
        ("FasterTransformer", "fastertransformer"),
        ("an engine of their own", None),
    ],
)
def test_the_release_is_asked_where_it_is_the_engines_own(tmp_path: Path, framework: str, engine: str | None) -> None:
    request = asked(tmp_path, SERVED | {"framework": framework}).request
    assert request.engine == engine
    assert engine is None or engine.partition("@")[0] in (find_engine(engine).name, *STAND_INS)


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


def test_rules_of_the_folder_say_what_no_column_holds(tmp_path: Path) -> None:
    rated = [SERVED | {"concurrency": "", "seq_len": "100"}, SERVED | {"metric": "request_rate", "value": "4", "unit": "req/s"}]
    folder = write(tmp_path / "p", *rated, TRAINED, TRAINED | {"config_id": "x", "gpu": "my card", "model": "odd-7b"})
    rules = [
        {
            "file": "some.*",
            "where": {"task": "serving"},
            "set": {"prefix_tokens": "=seq_len", "kv_dtype": "fp8"},
            "why": "its page",
        },
        {"file": "somebody", "where": {"task": "serving"}, "row": {"unit": "ms"}, "why": "misprinted"},
        {
            "file": "somebody",
            "where": {"config_id": TRAINED["config_id"]},
            "skip": "another model",
            "skip_metrics": "tok.*",
            "why": "",
        },
    ]
    (folder / "asked.json").write_text(json.dumps(rules))
    (folder / "gpus_extra.json").write_text(json.dumps({"my card": TRAINED["gpu"]}))
    (folder / "models_extra.json").write_text(json.dumps({"odd-7b": {"model_type": "llama"}}))
    found = read_published(folder, GPUS, lambda key: {"key": key})
    served, trained = found.experiments
    assert (served.request.prefix_tokens, served.request.kv_dtype, served.request.request_rate_per_s) == (100, "fp8", 4.0)
    assert served.values[0].value == pytest.approx(float(SERVED["value"]) * 1e-3)
    assert (trained.name, trained.gpu, trained.request.model) == ("x", TRAINED["gpu"], {"model_type": "llama"})
    assert found.left_out == {"another model": 1, "metric request_rate": 1}
    (folder / "asked.json").write_text('[{"file": "x", "when": {}}]')
    with pytest.raises(UserError, match=r"asked\.json: is not a list of rules"):
        read_published(folder, GPUS, lambda key: {"key": key})


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
        ({"task": "finetune_full", "framework": "NeMo 24.07", "sharding": ""}, {"recipe": "mixed", "sharding": "zero1"}),
        ({"framework": "Megatron-LM 2024", "sharding": "", "tp": "8"}, {"sharding": "none"}),
        ({"framework": "fms-fsdp", "checkpointing": "selective"}, {"checkpointing": "full"}),
        ({"framework": "torchtitan 0.1", "checkpointing": "selective"}, {"checkpointing": "selective-op"}),
        (
            {"framework": "NVIDIA DeepLearningExamples BERT", "precision": "fp16 AMP", "task": "finetune_full"},
            {"recipe": "mixed", "attention": "eager"},
        ),
        ({"framework": "Megatron-DeepSpeed", "n_gpus": "384", "dp": "48", "tp": "8"}, {"fabric": 6.25e9, "attention": "eager"}),
        ({"sharding": "zero1=8", "tp": "2", "pp": "2", "vp": "4"}, {"sharding": "zero1", "tp": 2, "pp": 2, "virtual_stages": 4}),
        ({"sharding": "HSDP", "n_gpus": "128"}, {"sharding": "hsdp", "gpus": 128}),
        ({"sharding": "ddp", "checkpointing": ""}, {"sharding": "none", "checkpointing": "none"}),
        ({"optimizer": "AdamW 8-bit"}, {"optimizer": "adamw-8bit"}),
        ({"note": "torch.compile; something"}, {"compile": True}),
        ({"note": "flash-attn 2, fused kernels"}, {"compile": True}),
        ({"framework": "NeMo 24.07", "task": "finetune_lora"}, {"lora": Lora(rank=32, targets=["q", "k", "v"], base="bf16")}),
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
        (SERVED | {"gpu": "A100-SXM-80GB-330W"}, {"gpu": "A100-SXM-80GB", "power_limit_w": 330.0}),
        (SERVED | {"note": "200 prompts"}, {"requests": 200, "input_tokens": 512}),
        (
            SERVED | {"isl": "215", "note": "ShareGPT; means of the run"},
            {"input_tokens": Lengths(mean=215, p50=215 * math.exp(-(0.8**2) / 2))},
        ),
        (SERVED | {"isl": "215"}, {"input_tokens": 215, "requests": None}),
        (SERVED | QUEUED | {"isl": "1000"}, {"requests": 3000, "output_tokens": Lengths(mean=1024, p50=1024)}),
        (SERVED | QUEUED | {"isl": "32768"}, {"requests": 1000, "concurrency": "max"}),
        (SERVED | QUEUED | {"isl": "512"}, {"requests": None, "output_tokens": Lengths(mean=1024, p50=1024)}),
        (SERVED | {"framework": "exllamav2"}, {"engine": "exllamav3"}),
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
        ({"metric": "peak_mem_nvml", "value": "10", "unit": "GiB"}, "used_bytes", 10 * 2**30),
        ({"metric": "peak_mem_allocated", "value": "10", "unit": "MB"}, "allocated_bytes", 10e6),
        ({"metric": "peak_mem_reserved_max", "value": "10", "unit": "bytes"}, "reserved_bytes", 10.0),
        ({"metric": "peak_mem", "value": "10", "unit": "MiB", "note": "torch peak ACTIVE memory"}, "allocated_bytes", 10 * 2**20),
        ({"metric": "peak_mem", "value": "1", "unit": "GB", "source": "github:Lightning-AI/litgpt@1:x"}, "allocated_bytes", 1e9),
        ({"metric": "peak_mem", "value": "8", "unit": "GB", "n_gpus": "4", "note": "summed over GPUs"}, "device_bytes", 2e9),
        (
            {"metric": "peak_mem_allocated", "value": "8", "unit": "GB", "n_gpus": "4", "note": "memory is the SUM over GPUs"},
            "allocated_bytes",
            2e9,
        ),
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


@pytest.mark.parametrize(
    ("ids", "ranks", "framework", "expected"),
    [
        (
            "gpt_8192x1024_c4_tp8_ep8_9",
            {"tp": "64", "ep": "8", "n_gpus": "64"},
            "vLLM 0.18.0",
            {"tp": 8, "ep": 8, "gpus": 8, "dp": None},
        ),
        (
            "m2_c8_tp4_ep4_1344",
            {"tp": "4", "dp": "4", "ep": "16", "n_gpus": "16"},
            "vLLM 0.18.0",
            {"tp": 4, "ep": 4, "gpus": 4, "dp": None},
        ),
        ("dsr1_c64_cfg183", {"tp": "1", "dp": "64", "ep": "8", "n_gpus": "64"}, "TensorRT-LLM 1.1", {"dp": 8, "ep": 8, "gpus": 8}),
        ("m2_c4_tp4_0_ep4_0_234", {"tp": "4", "ep": "4", "n_gpus": "4"}, "vLLM 0.18.0", {"tp": 4, "ep": 4, "gpus": 4}),
        ("dsr1_c16_tp8_0_ep8_0_1262", {"tp": "8", "ep": "8", "n_gpus": "8"}, "TensorRT-LLM 1.1", {"max_num_batched_tokens": 640}),
    ],
)
def test_inferencex_runs_on_one_node(
    tmp_path: Path, ids: str, ranks: dict[str, str], framework: str, expected: dict[str, Any]
) -> None:
    """Ranks of experts count once, and TensorRT-LLM's iterations hold one prompt: 512 tokens and 16 sequences are 640."""
    note = f"id={ids}; InferenceX run: random lengths"
    request = asked(tmp_path, SERVED | {"framework": framework, "note": note} | ranks).request
    assert {name: getattr(request, name) for name in expected} == expected
