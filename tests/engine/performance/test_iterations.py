"""What a serving engine's iterations take beside products: its host's work for each sequence, and prompts among running sequences."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from engine_sample import ask, candidate, chip
from msgspec.structs import replace

from planner.engine.columns import Table
from planner.engine.performance.operators.forward_pass import forward
from planner.engine.performance.operators.launches import kernel_latencies_s
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.prefill_decode.passes import mean_if_any
from planner.errors import UserError

H100 = "H100 SXM5 80GB"
LOOP = {"model": "llama-3.1-8b", "task": "serve", "input_tokens": 1024, "output_tokens": 128}


def table_of(clients: int, engine: str = "tensorrt-llm", tp: float = 8.0, **more: Any) -> Table:
    return candidate(
        chip(H100), {"sequences": float(clients), "tp": tp}, **LOOP | {"engine": engine, "concurrency": clients} | more
    ).table()


def with_engine(table: Table, **columns: float) -> Table:
    return replace(table, engine=replace(table.engine, **{name: np.array([value]) for name, value in columns.items()}))


@pytest.mark.parametrize("clients", [1, 16, 128])
def test_every_running_sequence_takes_the_host_its_time(clients: int) -> None:
    table = table_of(clients, "vllm")
    none, some = (serve_of(with_engine(table, host_sequence_s=seconds), continuous=True) for seconds in (0.0, 50e-6))
    assert some.step_s[0] - none.step_s[0] == pytest.approx(50e-6 * clients, rel=1e-9)
    assert some.prefill_s[0] == none.prefill_s[0]
    assert some.by_class["host"][0] - none.by_class["host"][0] == pytest.approx(127 * 50e-6 * clients, rel=1e-9)


def test_prompts_beside_running_sequences_wait_for_the_host() -> None:
    """By hand: 16 clients and 127 steps after the first token, 16/127 prompts begin with each step, 1.0643 where any do; 8 share a pass."""
    table = with_engine(table_of(16), mixed_factor=1.0, host_step_s=0.0)
    batch, one, fresh = np.full(1, 16.0), np.ones(1), np.full(1, 1024.0)
    step = forward(table, batch, np.full(1, 1024.0 + 64), one, head_rows=batch)
    prompts = forward(table, 8 * fresh, fresh / 2, fresh, head_rows=8 * one)
    launch_s = 32 * 180 * chip(H100).launch_s
    assert launch_s > step.device[0] + prompts.device[0] / 8, "or the host would not show"
    together = 16 / 127 / (1 - np.exp(-16 / 127))
    assert together == pytest.approx(1.0643, abs=1e-4)
    waited_s = (launch_s - step.device[0]) / together - prompts.device[0] / 8
    none, some = (serve_of(with_engine(table, mixed_launches_per_layer=launches), continuous=True) for launches in (0.0, 180.0))
    assert some.prefill_s[0] - none.prefill_s[0] == pytest.approx(waited_s, rel=1e-9)
    assert some.request_s.mean[0] - none.request_s.mean[0] == pytest.approx(16 * waited_s, rel=1e-9)
    assert some.by_class["launch"][0] == pytest.approx(waited_s, rel=1e-9)


@pytest.mark.parametrize(
    ("engine", "model", "launches"),
    [
        pytest.param("sglang@0.5.6", "qwen3-235b-a22b", 94 * (70 + 130), id="each operator, and those of experts"),
        pytest.param("sglang@0.5.6", "deepseek-v3", 61 * (70 + 70) + 58 * 130, id="and those of latent attention"),
        pytest.param("sglang@0.5.6", "gpt-oss-120b", 36 * 70, id="experts in 4 bit choose for themselves"),
        pytest.param("tensorrt-llm@1.1", "qwen3-235b-a22b", 94 * 120, id="PyTorch, whose graphs are of decoding alone"),
        pytest.param("tensorrt-llm@0.21", "deepseek-v3", 61 * (120 + 300), id="latent attention, which no compiled engine runs"),
        pytest.param("vllm@0.12", "qwen3-235b-a22b", 94 * 24, id="graphs of the pieces between attention"),
        pytest.param("tensorrt-llm@0.17", "llama-3.1-8b", 0, id="a compiled engine"),
    ],
)
def test_a_prompt_alone_is_launched_as_one_among_others(engine: str, model: str, launches: int) -> None:
    """16 tokens take the device less than the host at 5 us a launch, with and without a number of requests, whose kernels are compiled; decoding is replayed."""
    asked: dict[str, Any] = {"model": model, "gpu": "B200", "gpus": 8, "tp": 8, "task": "serve", "concurrency": 1, "engine": engine}
    asked |= {"input_tokens": 16, "output_tokens": 8}
    for requests in ({}, {"requests": 20, "warmup_requests": 10}):
        found = ask(**asked, **requests)
        assert found.ttft_s is not None
        assert found.tpot_s is not None
        waited_s, token_s = found.ttft_s.mean.value, found.tpot_s.mean.value
        assert launches * 5e-6 < waited_s < launches * 5e-6 + 3 * token_s + 7e-3, "front end, a token later, the device's own"
        assert token_s < max(0.016, launches * 5e-6 / 2)


@pytest.mark.parametrize("output", [1, 2, 40])
def test_a_loop_that_waits_for_the_host_takes_all_its_steps_launched_at_most(output: int) -> None:
    """More clients share the same iterations: prompts of 64 tokens never take longer than every step launched operator by operator."""
    launch_s = 32 * 180 * chip(H100).launch_s
    loops = []
    for clients in (2, 8, 32, 128):
        table = with_engine(
            table_of(clients, input_tokens=64, output_tokens=output),
            mixed_factor=1.0,
            mixed_launches_per_layer=180.0,
            host_step_s=0.0,
            host_sequence_s=0.0,
        )
        found = serve_of(table, continuous=True)
        loops.append(found.request_s.mean[0])
        alone = serve_of(with_engine(table, mixed_launches_per_layer=0.0), continuous=True)
        assert found.request_s.mean[0] <= max(alone.request_s.mean[0], (output + 1) * launch_s) * 1.01
    assert loops == sorted(loops)


def test_who_is_alone_or_has_long_prompts_waits_for_nobody() -> None:
    for table in (table_of(1), table_of(64, tp=1.0, input_tokens=8000)):
        none, some = (serve_of(with_engine(table, mixed_launches_per_layer=launches), continuous=True) for launches in (0.0, 180.0))
        assert some.prefill_s[0] == none.prefill_s[0]


def test_prompts_that_fill_a_pass_hardly_wait_for_each_other() -> None:
    """Nine of ten rounds wait for 1.25 prompts where none share a pass, for 3.25 where two do; the first round for half of all."""
    for tokens, waiting in ((4000, 3.25), (4200, 1.25), (8192, 1.25), (20000, 1.25)):
        found = serve_of(with_engine(table_of(16, tp=1.0, input_tokens=tokens), mixed_launches_per_layer=0.0), continuous=True)
        shared = 2 if tokens < 4096 else 1
        single_s = serve_of(
            with_engine(table_of(1, tp=1.0, input_tokens=tokens), mixed_launches_per_layer=0.0, mixed_factor=1.0), continuous=True
        ).prefill_s[0]
        rounds_s = (16 + shared) / 2 / 10 + 0.9 * waiting
        assert found.ttft_s.mean[0] - 0.5 * found.step_s[0] == pytest.approx(1.15 * single_s * rounds_s, rel=0.02)


def test_a_mixed_iteration_takes_prompts_longer_but_not_a_batch_that_is_fixed() -> None:
    table = with_engine(table_of(64), mixed_launches_per_layer=0.0)
    plain, slow = (with_engine(table, mixed_factor=factor) for factor in (1.0, 1.2))
    host_s = table.engine.host_step_s[0] / 8  # eight prompts of 1,024 tokens share a pass
    assert serve_of(slow, continuous=True).prefill_s[0] - host_s == pytest.approx(
        1.2 * (serve_of(plain, continuous=True).prefill_s[0] - host_s), rel=1e-9
    )
    assert serve_of(slow, continuous=False).prefill_s[0] == serve_of(plain, continuous=False).prefill_s[0]


def test_arrivals_by_chance_come_together() -> None:
    assert mean_if_any(np.array([0.0, 1e-6, 1.0, 50.0])) == pytest.approx([1.0, 1.0, 1 / (1 - np.exp(-1)), 50.0], rel=1e-5)


@pytest.mark.parametrize(
    ("engine", "dtype", "given", "kept"),
    [
        ("tensorrt-llm", "fp8", None, "fp8"),
        ("tensorrt-llm", "fp8", "bf16", "bf16"),
        ("tensorrt-llm", "bf16", None, "bf16"),
        ("vllm", "fp8", None, "bf16"),
    ],
)
def test_the_cache_is_kept_as_the_engines_checkpoints_ask(engine: str, dtype: str, given: str | None, kept: str) -> None:
    asked = {**LOOP, "gpu": H100, "engine": engine, "dtype": dtype, "concurrency": 8}
    found, wanted = ask(**asked, kv_dtype=given), ask(**asked, kv_dtype=kept)
    assert found.memory_bytes is not None
    assert wanted.memory_bytes is not None
    assert found.memory_bytes.kv_cache == wanted.memory_bytes.kv_cache
    assert found.tpot_s == wanted.tpot_s


def test_inputs_that_are_rounded_apart_take_four_kernels_a_layer() -> None:
    table = candidate(
        chip(H100, "fp8", "fp8"), {"sequences": 8.0}, **LOOP, engine="tensorrt-llm", dtype="fp8", concurrency=8
    ).table()
    one, rows = np.ones(1), np.full(1, 8.0)
    apart, fused = (
        forward(with_engine(table, rounds_apart=value), rows, np.full(1, 1024.0), one, head_rows=rows).latency[0]
        for value in (1.0, 0.0)
    )
    assert apart - fused == pytest.approx(32 * 4 * 1.5e-6, rel=1e-9)


@pytest.mark.parametrize(
    ("engine", "model", "dtype", "kernels"),
    [
        ("sglang", "qwen3-235b-a22b", "fp8", 4),
        ("sglang", "llama-3.1-70b", "fp8", 4),
        ("sglang", "llama-3.1-70b", "bf16", 0),
        ("vllm", "qwen3-235b-a22b", "fp8", 4),
        ("vllm", "llama-3.1-70b", "fp8", 0),
    ],
)
def test_inputs_are_rounded_by_kernels_of_their_own(engine: str, model: str, dtype: str, kernels: int) -> None:
    """Four more kernels of 1.5 us a layer beside the six small ones of an engine that launches 11: SGLang always, vLLM for scales of blocks."""
    fields = {
        "task": "serve",
        "engine": engine,
        "model": model,
        "concurrency": 8,
        "input_tokens": 512,
        "output_tokens": 128,
        "dtype": dtype,
    }
    table = candidate(chip("H100 SXM5 80GB", dtype, dtype), {"tp": 8.0, "gpus": 8.0}, **fields).table()
    *_, small = kernel_latencies_s(table, np.ones(1))
    assert small[0] == pytest.approx((6 + kernels) * 1.5e-6)


@pytest.mark.parametrize(("gpu", "clock_hz"), [("A100 80GB SXM", 1.41e9), ("RTX 4090", 2.52e9)])
@pytest.mark.parametrize(("engine", "by_clock"), [("llama.cpp@b6413", True), ("gpt-fast", False)])
def test_kernels_of_llama_cpp_go_by_the_clock(gpu: str, clock_hz: float, engine: str, by_clock: bool) -> None:
    """Thirteen short kernels of 1.5 us a layer on an H100 of 1.98 GHz take 27 us on an A100 of 1.41 GHz; four of gpt-fast 6 us on every part."""
    workload: dict[str, Any] = {
        "task": "generate",
        "engine": engine,
        "model": "llama-3.1-8b",
        "batch": 1,
        "input_tokens": 8,
        "output_tokens": 128,
    }
    own = chip(gpu)
    assert own.clock_hz == pytest.approx(clock_hz, rel=0.01)
    as_told, here = (
        kernel_latencies_s(candidate(msgspec.structs.replace(own, clock_hz=hz), **workload).table(), np.ones(1))
        for hz in (1.98e9, own.clock_hz)
    )
    slower = 1.98e9 / own.clock_hz if by_clock else 1.0
    assert [part[0] for part in here] == pytest.approx([part[0] * slower for part in as_told])
    assert as_told[2][0] == pytest.approx((13 if by_clock else 4) * 1.5e-6)


WITHOUT_GRAPHS = {
    "bf16": {(512, 256, 4): 79.43, (512, 256, 8): 148.58, (512, 256, 16): 264.83, (2048, 512, 4): 74.15, (2048, 512, 8): 131.14},
    "awq": {(512, 256, 4): 99.60, (512, 256, 8): 185.15, (512, 256, 16): 303.52, (2048, 512, 4): 92.89, (2048, 512, 8): 161.10},
}
"""Weights -> lengths and clients -> tokens a second of Qwen3 32B by vLLM 0.19 with --enforce-eager on one A100 80GB PCIe
(cssnoeasy, a100-quantization-capacity.md of 2026-08)."""


@pytest.mark.parametrize("weights", WITHOUT_GRAPHS)
def test_without_cuda_graphs_the_host_bounds_steps_of_few_bytes(weights: str) -> None:
    run = {"model": "qwen3-32b", "gpu": "A100 80GB PCIe", "tp": 1, "task": "serve", "engine": "vllm@0.19", "weight_dtype": weights}
    for (read, written, clients), seen in WITHOUT_GRAPHS[weights].items():
        load = run | {"input_tokens": read, "output_tokens": written, "concurrency": clients, "memory_fraction": 0.9}
        eager, usual = (ask(**load, cuda_graphs=graphs).output_tokens_per_s for graphs in (False, None))
        assert eager is not None
        assert usual is not None
        assert eager.value == pytest.approx(seen, rel=0.3)
        assert usual.value == pytest.approx(eager.value) if weights == "bf16" else usual.value > 1.5 * eager.value


def test_what_is_not_known_without_cuda_graphs_is_said() -> None:
    one, two = (
        ask(gpu=H100, **LOOP | {"engine": "exllamav3", "concurrency": 4, "cuda_graphs": graphs}) for graphs in (False, None)
    )
    assert "not known" in one.assumed["cuda_graphs"]
    assert one.output_tokens_per_s == two.output_tokens_per_s
    with pytest.raises(UserError, match="cuda_graphs"):
        ask(gpu=H100, model="llama-3.1-8b", task="train", cuda_graphs=False)
