"""What a candidate has to obey, and what must hold of it whatever else is asked beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from each_case import each_case
from engine_sample import ask, ask_all, candidate, chip, memory, plan, solutions

from planner.engine.columns.limits import chunk_tokens, most_sequences
from planner.engine.job.engines import ENGINES, find_engine, usual_name
from planner.engine.job.engines.catalogue import STAND_INS
from planner.engine.job.engines.find import OTHER_NAMES
from planner.errors import UserError

Q = {"model": "qwen3-8b", "gpu": "H100-SXM-80GB"}


def test_as_many_as_fit_fit() -> None:
    for fields in ({}, {"concurrency": "max"}):
        answer = ask(**Q, task="serve", input_tokens=500, output_tokens=200, **fields)
        assert answer.fits
        assert answer.layout is not None
        assert answer.max_concurrency is not None
        assert answer.layout.batch is not None
        assert 100 < answer.layout.batch <= answer.max_concurrency


def test_a_request_rate_settles_at_littles_law() -> None:
    answer = ask(**Q, task="serve", request_rate_per_s=2.0, input_tokens=500, output_tokens=200)
    assert answer.fits
    assert answer.requests_per_s is not None
    assert answer.requests_per_s.value == pytest.approx(2.0, rel=0.01)


def test_an_answer_is_the_same_to_the_bit_in_a_batch() -> None:
    requests = [
        Q | {"task": task, "gpu": gpu} | more
        for gpu in ("H100-SXM-80GB", "L4", "RTX 4090")
        for task, more in (
            ("train", {"micro_batch": 3, "sequence": 300}),
            ("finetune", {}),
            ("generate", {"batch": 7}),
            ("serve", {"concurrency": 9}),
        )
    ]
    for request, found in zip(requests, ask_all(*requests), strict=True):
        assert ask_all(request)[0] == found


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"prefix_tokens": -4}, "prefix_tokens"),
        ({"prefix_tokens": 600, "input_tokens": 512}, "prefix_tokens"),
        ({"virtual_stages": 0}, "virtual_stages"),
        ({"link": -4.0}, "link"),
        ({"link": 0.0, "gpus": 2}, "link"),
        ({"link": "foo", "gpus": 2}, "link"),
        ({"fabric": "foo", "gpus": 16}, "fabric"),
        ({"ep": 8}, "ep"),
        ({"model": "mixtral-8x7b", "ep": 8}, "ep"),
        ({"tp": 64}, "tp"),
        ({"pp": 64}, "pp"),
        ({"task": "train", "micro_batch": 4, "global_batch": 6}, "global_batch"),
    ],
)
def test_faults(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(**(Q | {"task": "generate"} | fields))
    assert key in {problem.key for problem in caught.value.problems}


def test_replicas_need_no_communicator() -> None:
    one, two = (memory(**Q, task="serve", concurrency=8 * n, dp=n, gpus=n, tp=1) for n in (1, 2))
    assert one.overhead == two.overhead


def test_a_pipeline_keeps_micro_batches_in_flight_whether_or_not_the_batch_is_given() -> None:
    fields: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "gpu": "h100",
        "task": "train",
        "pp": 4,
        "gpus": 4,
        "micro_batch": 1,
        "sequence": 4096,
        "optimizer": "sgd",
        "recipe": "bf16",
    }
    assert memory(**fields).activations == pytest.approx(memory(**fields, global_batch=16).activations)


def test_fp32_training_computes_in_fp32() -> None:
    slow, fast = (ask(model="llama-3.1-8b", gpu="L4", task="train", recipe=r, optimizer="adamw") for r in ("fp32", "mixed"))
    assert slow.step_s is not None
    assert fast.step_s is not None
    assert slow.memory_bytes is not None
    assert fast.memory_bytes is not None
    assert slow.step_s.value > 1.5 * fast.step_s.value
    assert slow.memory_bytes.activations >= fast.memory_bytes.activations


def test_offloaded_parameters_are_not_on_the_gpu() -> None:
    fields: dict[str, Any] = {"model": "llama-3.1-8b", "gpu": "h100", "task": "train"}
    assert memory(**fields, offload="parameters").weights < 0.2 * memory(**fields).weights


def test_a_fixed_batch_is_of_the_deployment() -> None:
    for batch in (2, 4, 8):
        answer = ask(**Q, task="generate", batch=batch, gpus=4, dp=4, tp=1)
        assert answer.requests_per_s is not None
        assert answer.request_s is not None
        assert answer.requests_per_s.value * answer.request_s.mean.value == pytest.approx(batch)


def test_an_unknown_price_meets_no_budget() -> None:
    assert not [r for r in solutions(plan("llama-3.1-8b-lora", targets={"budget_usd": 0.01})) if not r.here]


def test_a_deadline_needs_an_amount() -> None:
    with pytest.raises(UserError):
        plan("llama-3.1-8b-lora", train_tokens=None, targets={"deadline_h": 1})


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(UserError):
        plan("llama-3.1-70b-chat-service", providers=["awz"])


def test_mfu_ranges_end_at_one() -> None:
    mfu = ask(model="llama-3.1-8b", gpu="h100", task="train", recipe="bf16", micro_batch=8, sequence=4096).mfu
    assert mfu is not None
    assert mfu.high <= 1


def test_all_defaults_are_reported() -> None:
    assert {"micro_batch", "checkpointing"} <= set(ask(**Q, task="train").assumed)


@pytest.mark.parametrize("stored", ["awq", "gptq-int4", "int8", "nf4", "fp8"])
def test_a_service_that_names_no_engine_is_vllms_whatever_its_weights(stored: str) -> None:
    load: dict[str, Any] = {"task": "serve", "concurrency": 16, "input_tokens": 500, "output_tokens": 200, "weight_dtype": stored}
    assert ask(**Q, **load).assumed["engine"] == "vllm"


def test_a_batch_in_a_format_of_bitsandbytes_is_of_transformers() -> None:
    usual = {stored: ask(**Q, task="generate", weight_dtype=stored).assumed["engine"] for stored in ("nf4", "int8", "awq", "bf16")}
    assert usual == {"nf4": "transformers", "int8": "transformers", "awq": "generic", "bf16": "generic"}


def test_the_longest_context_fills_the_cache_or_ends_at_the_model() -> None:
    answer = ask(**Q, task="generate", input_tokens=100, output_tokens=100)
    assert answer.max_context == 40960
    tight = ask(**Q | {"gpu": "RTX 4090"}, task="generate", input_tokens=100, output_tokens=100)
    assert tight.max_context is not None
    assert 20_000 < tight.max_context < 40_960


def test_epochs_of_a_training_set_are_as_long_as_their_tokens() -> None:
    whole = plan("llama-3.1-8b-lora", train_tokens=3e8)
    epochs = plan("llama-3.1-8b-lora", train_tokens=None, epochs=2.5, dataset_tokens=1.2e8)
    assert [(row.gpu, row.job_h, row.job_usd) for row in epochs.rows] == [(row.gpu, row.job_h, row.job_usd) for row in whole.rows]
    assert any(row.job_h for row in epochs.rows)
    assert "train_tokens" not in epochs.task
    limited = plan("llama-3.1-8b-lora", train_tokens=None, epochs=1, dataset_tokens=1e9, targets={"deadline_h": 1})
    assert any(row.verdict == "misses-target" for row in limited.rows)


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ({"epochs": 3}, "dataset_tokens", "epochs = 3 alone does not set"),
        ({"dataset_tokens": 1e9}, "epochs", "dataset_tokens = 1e+09 alone does not set"),
        ({"epochs": 3, "dataset_tokens": 1e9, "train_tokens": 3e9}, "train_tokens", "and so does epochs"),
        ({"epochs": -1, "dataset_tokens": 1e9}, "epochs", "from 0.000001 to 1,000,000,000"),
    ],
)
def test_the_length_of_a_job_is_said_once_and_whole(fields: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(**{"model": "gpt2", "gpu": "L4", "task": "train"} | fields)
    assert any(problem.key == key and words in problem.message for problem in caught.value.problems)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_runs_what_it_says_it_runs(name: str) -> None:
    releases = ENGINES[name]
    assert releases[0].since == ()
    assert all((a.since, a.released) < (b.since, b.released) for a, b in pairwise(releases))
    assert find_engine(name) == releases[-1]
    assert len(releases) == 1 or all(record.release for record in releases)
    for record in releases:
        asked = f"{name}@{'.'.join(map(str, record.since or (0,)))}"
        assert find_engine(asked) == record
        if record.generates:
            served = ask(**Q, task="serve", engine=asked, concurrency=4, input_tokens=100, output_tokens=20)
            assert served.fits
        if record.trains:
            trained = ask(model="qwen3-0.6b", gpu="H100-SXM-80GB", task="train", engine=asked, micro_batch=1, sequence=128)
            assert trained.fits
        else:
            with pytest.raises(UserError, match="does not train"):
                ask(model="qwen3-0.6b", gpu="H100-SXM-80GB", task="train", engine=asked)


@pytest.mark.parametrize("name", [name for name, records in ENGINES.items() if records[0].compute_capability > (0, 0)])
def test_an_engine_asked_for_bars_older_parts(name: str) -> None:
    older = ask(model="llama-3.2-1b", gpu="P100 PCIe 16GB", task="generate", engine=name, dtype="fp16")
    least = ".".join(map(str, ENGINES[name][0].compute_capability))
    assert older.reason == f"compute capability 6.0, {ENGINES[name][0].label} needs {least}"


@pytest.mark.parametrize(
    ("asked", "since"),
    [
        ("vllm@0.15.1rc2", (0, 14)),
        ("vllm@0.22.1", (0, 20)),
        ("vllm@v0.12.0", (0, 11, 1)),
        ("vllm@0.11.0", (0, 11)),
        ("vllm@0.8.5", (0, 8)),
        ("vllm@0.6.3", (0, 5, 4)),
        ("vllm@0.5.3", ()),
        ("vllm@2024-06", ()),
        ("vllm@2025-04", (0, 8)),
        ("vllm@nightly-5b8c30d62b754b57", (0, 28)),
        ("vllm@nightly-dev-20250416-d3bae71e", (0, 8)),
        ("vllm@26.02", (0, 14)),
        ("llama.cpp@b6918", (6325,)),
        ("llama.cpp@b5000", (3200,)),
        ("llama.cpp@2023-08", ()),
        ("llama.cpp@May-2024", (1842,)),
        ("transformers@4.57.1", (4, 45)),
        ("transformers@5.0.0rc1", (5,)),
        ("ollama@0.3", (8863,)),
        ("ollama@2024-12", (3200,)),
    ],
)
def test_a_release_is_a_version_a_build_a_date_or_the_newest(asked: str, since: tuple[int, ...]) -> None:
    assert find_engine(asked).since == since


@pytest.mark.parametrize("release", ["glm5-hopper", "x", "1..2"])
def test_what_says_nothing_of_when_is_no_release(release: str) -> None:
    with pytest.raises(UserError, match=f"'{release}' is no release"):
        find_engine(f"vllm@{release}")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("vLLM@0.15.1", "vllm@0.15.1"),
        ("TRT-LLM", "tensorrt-llm"),
        ("llama_cpp", "llama.cpp"),
        ("Megatron-LM", "megatron"),
        ("HF", "transformers"),
    ],
)
def test_names_are_known_as_people_write_them(written: str, name: str) -> None:
    assert find_engine(written) == find_engine(name)
    assert usual_name(written) == name
    task: dict[str, Any] = {"task": "generate", "input_tokens": 64, "output_tokens": 8}
    if not find_engine(name).generates:
        task = {"task": "train"}
    answer = ask(model="qwen3-0.6b", gpu="H100-SXM-80GB", engine=written, **task)
    assert answer == ask(model="qwen3-0.6b", gpu="H100-SXM-80GB", engine=name, **task)


@pytest.mark.parametrize("name", sorted(set(OTHER_NAMES.values())))
def test_other_names_are_of_engines_there_are(name: str) -> None:
    assert name in {*ENGINES, *STAND_INS}


@each_case("name", STAND_INS)
def test_a_name_that_stands_for_another_engine_says_so(name: str) -> None:
    one, engine = STAND_INS[name], find_engine(name)
    task: dict[str, Any] = {"task": "serve", "concurrency": 4, "input_tokens": 100, "output_tokens": 20}
    if not engine.generates or one.turns_on:
        task = {"task": "finetune", "micro_batch": 1, "sequence": 512}
    answer = ask(model="qwen3-0.6b", gpu="H100-SXM-80GB", engine=name, **task)
    assert answer.assumed["engine_runs"] == engine.runs
    assert engine.runs.startswith(f"{one.label} ")
    assert one.turns_on.items() <= answer.assumed.items()


@pytest.mark.parametrize(
    ("engine", "gpu", "tokens", "sequences", "share"),
    [
        ("vllm@0.19.0", "B200 SXM", 8192, 1024, 0.9),
        ("vllm@0.20.0", "B200 SXM", 8192, 1024, 0.92),
        ("vllm", "B200 SXM", 16384, 1024, 0.92),
        ("vllm", "MI300X", 16384, 1024, 0.92),
        ("vllm", "H100 SXM5 80GB", 8192, 1024, 0.92),
        ("vllm", "A100 80GB SXM", 2048, 256, 0.92),
        ("vllm", "GB10 (DGX Spark)", 2048, 256, 0.92),
        ("vllm", "L40S", 2048, 256, 0.92),
    ],
)
def test_limits_of_vllm_are_those_of_its_release_and_part(engine: str, gpu: str, tokens: int, sequences: int, share: float) -> None:
    """`EngineArgs.get_batch_defaults` and `CacheConfig` of the releases, as they are on PyPI."""
    found = candidate(chip(gpu), model="llama-3.2-1b", task="serve", engine=engine, concurrency=8, input_tokens=64, output_tokens=8)
    table = found.table()
    assert float(chunk_tokens(table)[0]) == tokens
    assert float(most_sequences(table)[0]) == sequences
    assert found.jobs[0].memory_fraction == share


@pytest.mark.parametrize("engine", ["deepspeed", "megatron-deepspeed"])
def test_pipelines_of_deepspeed_shard_no_gradients(engine: str) -> None:
    """Its code refuses ZeRO 2 and 3 there; other engines run both, and what a plan tries follows."""
    asked = {"model": "llama-3.1-8b", "gpu": "H100 SXM5 80GB", "task": "train", "pp": 2, "dp": 4, "gpus": 8}
    with pytest.raises(
        UserError, match=r"sharding: 'zero2' is not accepted with pp = 2: pipelines of .*DeepSpeed take 'zero1' at most"
    ):
        ask(**asked, engine=engine, sharding="zero2")
    assert ask(**asked, engine=engine, sharding="zero1").layout is not None
    assert ask(**asked, engine="torchtitan", sharding="zero2").layout is not None
