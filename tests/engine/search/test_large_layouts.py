"""Layouts that large models are run in: pipelines with virtual stages, divided sequences, divided and shared experts."""

from __future__ import annotations

import pytest
from engine_sample import ask, plan, session, workload

from planner.engine.search.layouts import _inference
from planner.errors import UserError
from planner.workload.huggingface.config import read_architecture
from planner.workload.models import ModelShelf

H100 = "H100 SXM5 80GB"
PUBLISHED_GPU_HOURS = 30.84e6
"""Hours of Llama 3.1 405B (arXiv:2407.21783 and its model card), restarts included."""
PUBLISHED_TOKENS_PER_S = 14.8e12 / 2.664e6 / 3600
"""Rate of a GPU while DeepSeek-V3 read its 14.8 T tokens in 2.664 M hours of H800 (arXiv:2412.19437, table 1)."""
SHELF: ModelShelf = session().models
SHARED_ON = {"H100 SXM5 80GB": 8, "B200 SXM": 8, "GB200": 4}
SHARED_RATE = 19.0
"""Requests each second: no multiple of a group that shares experts."""


def mixtures() -> list[str]:
    return [name for name in SHELF.names() if read_architecture(SHELF.config(name)).experts]


EVERY = mixtures()
FEW = ["nemotron-3-super-120b-a12b", "nemotron-3-ultra-550b-a55b", *EVERY[::8]]


def test_405b_is_trained_in_a_pipeline_near_its_published_hours() -> None:
    changes = {"train_tokens": 15.6e12, "sequence": 8192, "global_batch": 2048, "max_gpus": 16384, "engine": "megatron"}
    best = plan("llama-3.1-405b-pretrain", **changes, gpus_considered=[H100]).rows[0]
    layout = best.answer.layout
    assert layout is not None
    assert best.job_h is not None
    assert layout.tp in {4, 8}
    assert layout.pp >= 8
    assert layout.virtual_stages > 1
    assert 0.6 < layout.gpus * best.job_h.value / PUBLISHED_GPU_HOURS < 1.2


def test_deepseek_v3_fits_and_trains_as_fast_as_published_in_its_own_layout() -> None:
    layout = {"gpus": 2048, "tp": 1, "pp": 16, "dp": 128, "ep": 64, "sharding": "zero1", "micro_batch": 1, "global_batch": 15360}
    asked = {"model": "deepseek-v3", "gpu": "H800 SXM", "task": "train", "dtype": "fp8", "sequence": 4096} | layout
    own = ask(**asked, checkpointing="selective-op")
    assert own.fits
    assert own.tokens_per_s_per_gpu is not None
    assert 0.8 < own.tokens_per_s_per_gpu.value / PUBLISHED_TOKENS_PER_S < 1.2
    assert not ask(**asked, checkpointing="none").fits


def test_a_plan_trains_deepseek_v3_in_a_pipeline_with_divided_experts() -> None:
    """The makers took no tensor parallelism, 16 stages and 64 parts; NVIDIA's playbook for H100 says 2, 8 and 64 (Megatron-Bridge)."""
    changes = {
        "train_tokens": 14.8e12,
        "sequence": 4096,
        "global_batch": 15360,
        "max_gpus": 2048,
        "dtype": "fp8",
        "objective": "fastest",
        "confidence": 0.5,  # its memory is near the limit, and ranges of training memory are wide
    }
    best = plan("llama-3.1-405b-pretrain", model="deepseek-v3", **changes, gpus_considered=["H800 SXM"]).rows[0]
    layout = best.answer.layout
    assert layout is not None
    assert layout.gpus == 2048
    assert layout.pp >= 4
    assert layout.tp <= 2
    assert layout.ep == 64
    assert best.answer.tokens_per_s_per_gpu is not None
    assert 0.8 < best.answer.tokens_per_s_per_gpu.value / PUBLISHED_TOKENS_PER_S < 1.2


def test_experts_are_shared_by_replicas_of_the_attention() -> None:
    of = workload("deepseek-v3-service", gpus_considered=["H200 SXM"])
    job = session().job(of, session().plan(of, basis="spec").rows[0])
    spreads = list(_inference(job, 8, 64, several=True))
    assert any((one.gpus, one.tp, one.dp, one.ep) == (8, 1, 8, 8) for one in spreads)
    assert any((one.tp, one.ep) == (8, 1) for one in spreads)


@pytest.mark.sweep
def test_an_engine_that_does_not_divide_experts_is_never_planned_so() -> None:
    """llama.cpp divides layers or rows of matrices among GPUs, never the experts of a layer."""
    shared = {engine: _layouts_of(engine) for engine in ("llama.cpp", "vllm")}
    assert any(ep > 1 for ep in shared["vllm"])
    assert set(shared["llama.cpp"]) == {1}
    with pytest.raises(UserError, match=r"ep: 2 is not accepted; llama\.cpp does not divide experts among GPUs"):
        ask(model="gpt-oss-120b", gpu="L40S", task="serve", engine="llama.cpp", gpus=2, ep=2, dp=2, concurrency=8)


def _layouts_of(engine: str) -> list[float]:
    """Expert parallelism of every layout of gpt-oss-120b on a node of L40S that is looked at."""
    asked = workload("qwen3-30b-a3b-service", model="gpt-oss-120b", engine=engine, gpus_considered=["L40S"])
    row = session().plan(asked, basis="spec", levers=False).rows[0]
    return [one.ep for one in _inference(session().job(asked, row), 8, 64, several=True)]


def test_narrow_weights_compute_as_they_are_stored_where_the_part_can() -> None:
    asked = {"model": "llama-3.1-8b", "task": "generate"}
    assert ask(**asked, gpu=H100, weight_dtype="fp8").assumed["dtype"] == "fp8"
    assert ask(**asked, gpu="A100 80GB SXM", weight_dtype="fp8").assumed["dtype"] == "bf16"
    assert ask(**asked, gpu="B200 SXM", weight_dtype="nvfp4").assumed["dtype"] == "fp4"


def test_parts_without_flash_attention_have_another_fused_one() -> None:
    asked = {"model": "llama-3.2-1b", "task": "generate", "gpu": "V100 SXM2 16GB", "engine": "transformers"}
    old = ask(**asked, attention="flash")
    assert old.reason is not None
    assert "flash attention needs 7.5" in old.reason
    left_open, given = ask(**asked), ask(**asked, attention="memory-efficient")
    assert left_open.assumed["attention"] == "memory-efficient"
    assert (left_open.prefill_s, left_open.memory_bytes) == (given.prefill_s, given.memory_bytes)
    assert ask(**asked | {"gpu": H100}).assumed["attention"] == "flash"
    assert ask(**asked | {"engine": "llama.cpp"}, attention="flash").fits


def test_adapters_on_packed_weights_have_no_tensor_parallelism() -> None:
    """bitsandbytes keeps a matrix as one flat run of blocks, which no plan by columns and rows divides; ZeRO shards it as it is."""
    packed, whole = (
        {row.answer.layout.tp for row in plan("llama-3.1-70b-qlora", **base).rows if row.answer.layout}
        for base in ({}, {"lora": {"rank": 16, "base": "bf16"}})
    )
    assert packed == {1}
    assert max(whole) > 1


@pytest.mark.sweep
@pytest.mark.parametrize("model", [*FEW, *(pytest.param(name, marks=pytest.mark.thorough) for name in EVERY if name not in FEW)])
def test_replicas_that_share_experts_come_in_whole_groups(model: str) -> None:
    """A group has one rank for each part of the experts, which every layer has as many of, and takes a node or several whole ones."""
    asked = {
        "model": model, "task": "serve", "input_tokens": 1500, "output_tokens": 400, "request_rate_per_s": SHARED_RATE,
        "gpus_considered": [*SHARED_ON], "max_gpus": 4096,
    }  # fmt: skip
    found = session().plan(session().workload(asked, "test"), basis="spec", levers=False)
    a = read_architecture(SHELF.config(model))
    shared = 0
    for row in found.rows:
        layout = row.answer.layout
        if layout is None or layout.ep == 1:
            continue
        shared += 1
        assert layout.dp % layout.ep == 0
        assert layout.gpus == layout.tp * layout.pp * layout.dp
        assert a.experts % layout.ep == 0
        inside = min(layout.gpus_per_node, layout.gpus)
        assert layout.ep % inside == 0 or inside % layout.ep == 0
    assert len(found.rows) > shared, "replicas that share nothing are planned beside them"
