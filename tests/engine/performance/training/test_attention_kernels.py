"""Kernels of fused attention: FlashAttention 2 uses the instructions of Ampere, with which newer tensor cores reach about half of their rate; on parts of AMD
PyTorch ran what Triton compiled."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from engine_sample import ask, candidate, chip, evaluated
from msgspec.structs import replace

from planner.engine.columns import Table
from planner.engine.explain.details import detail_of
from planner.engine.explain.range_ends import SLOWER_BEFORE
from planner.engine.job.engines import find_engine
from planner.engine.performance.operators.attention import (
    WIDE_FLOP_PER_CYCLE,
    attention_flop,
    attention_time,
    backward_factor,
    forward_flop_per_s,
    hidden_elements,
    wide_heads_s,
)

LLAMA: dict[str, Any] = {
    "model": "llama-3.1-8b", "task": "train", "engine": "torch", "micro_batch": 1, "global_batch": 1, "sequence": 8192, "checkpointing": "none",
}  # fmt: skip
H100, B200 = "H100-SXM-80GB", "B200 SXM"


def table_of(gpu: str, **differs: Any) -> Table:
    return candidate(chip(gpu), **{**LLAMA, **differs}).table()


def attention_s(gpu: str, **differs: Any) -> float:
    """Seconds that a step's attention takes."""
    seconds = ask(gpu=gpu, **{**LLAMA, **differs}).seconds_by_class
    assert seconds is not None
    return seconds["attention"]


def test_attention_of_a_step_by_hand() -> None:
    """32 layers · 4 FLOP · 4,096 elements of queries · 8,192 tokens · 4,096 before each, 1.76e13, take 61 ms forward at 1,200 FLOP a cycle of 132
    multiprocessors at 1.83 GHz and 2.5 times as long backward."""
    flop = 32 * 4 * 4096 * 8192 * 4096
    forward_s = flop / (1200 * 132 * 1.83e9)
    assert forward_s == pytest.approx(0.0607, rel=0.01)
    assert attention_s(H100, attention="flash-2") == pytest.approx(3.5 * forward_s * find_engine("torch").device_factor, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "forward", "backward"),
    [
        (H100, (284e12, 333e12), (287e12, 318e12)),  # Dao-AILab/flash-attention#1791, arXiv:2407.08608: 8,192 tokens, heads of 128
        (B200, (343e12, 362e12), (329e12, 334e12)),  # Dao-AILab/flash-attention#1589, meta-pytorch/tritonbench#171
    ],
)
def test_flash_attention_2_reaches_what_was_measured(gpu: str, forward: tuple[float, float], backward: tuple[float, float]) -> None:
    t = table_of(gpu, attention="flash-2")
    rates = forward_flop_per_s(t), 2.5 * forward_flop_per_s(t) / backward_factor(t)
    for rate, (least, most) in zip(rates, (forward, backward), strict=True):
        assert 0.95 * least < float(rate[0]) < 1.05 * most


@pytest.mark.parametrize(
    ("gpu", "forward", "backward"),
    [
        ("MI350X", (573e12, 848e12), (132e12, 239e12)),
        ("MI355X", (573e12, 848e12), (143e12, 259e12)),
        ("MI300X", (320e12, 500e12), None),
    ],
)
def test_triton_reaches_on_amd_what_was_measured(
    gpu: str, forward: tuple[float, float], backward: tuple[float, float] | None
) -> None:
    """HipKittens' baselines of Triton and of PyTorch's backward, 4,096 to 16,384 tokens; on MI300X assembly of 520 to 590 TFLOP/s is 1.2 to 1.6 times as fast."""
    t = table_of(gpu, engine="torch@2.8")
    assert forward[0] < float(forward_flop_per_s(t)[0]) < forward[1]
    if backward:
        assert backward[0] < float((2.5 * forward_flop_per_s(t) / backward_factor(t))[0]) < backward[1]


@pytest.mark.parametrize(
    ("differs", "compiled"),
    [
        ({"engine": "torch@2.8"}, True), ({"engine": "torch@2.9.0.dev20250811"}, True), ({"engine": "torch@2.9"}, False), ({}, False),
        ({"engine": "torch@2.8", "attention": "flash"}, True), ({"engine": "torch@2.8", "attention": "flash-2"}, False),
        ({"engine": "torchtitan@2025-08"}, True), ({"engine": "transformers@4.49"}, True), ({"engine": "verl@2025-05"}, False), ({"engine": "megatron"}, False),
    ],
)  # fmt: skip
def test_pytorch_before_2_9_runs_what_triton_compiled_on_amd(differs: dict[str, Any], compiled: bool) -> None:
    assert (float(forward_flop_per_s(table_of("MI300X", **differs))[0]) < 400e12) is compiled


def test_a_release_that_is_not_named_may_run_triton() -> None:
    assert ask(gpu="MI300X", **LLAMA).evidence[SLOWER_BEFORE] > 0.2


@pytest.mark.parametrize("gpu", ["A100 80GB SXM", "L40S", "RTX 4090", "RTX PRO 6000 Blackwell Server", "MI300X", "H20"])
def test_other_parts_take_as_long_with_either(gpu: str) -> None:
    older, plain = (table_of(gpu, attention=kernel) for kernel in ("flash-2", "flash"))
    assert np.all(forward_flop_per_s(older) == forward_flop_per_s(plain))
    assert float(backward_factor(older)[0]) == pytest.approx(2.5 / 0.8)


def test_backward_is_bounded_as_forward_is() -> None:
    """A faster part never takes longer: backward is not yet bounded where the part's own rate is just above the bound."""
    bound = 1200 * 132 * 1.83e9
    steps = [
        candidate(replace(chip(H100), attention_flop_per_s=rate * bound), **{**LLAMA, "attention": "flash-2"}).table()
        for rate in (0.5, 1.0, 1.1, 1.25, 2.0)
    ]
    backward = [float((backward_factor(t) / forward_flop_per_s(t))[0]) for t in steps]
    assert all(slower >= faster for slower, faster in pairwise(backward))
    assert [float(backward_factor(t)[0]) for t in steps] == pytest.approx([3.125, 3.125, 2.5 / 0.88, 2.5, 2.5])


@pytest.mark.parametrize(
    ("engine", "older"),
    [
        ("torch@2.10", True), ("torch", False), ("torchtitan@2025-06", True), ("transformers@4.49", True), ("transformers", False), ("verl", True),
        ("axolotl", True), ("megatron", False),
    ],
)  # fmt: skip
def test_the_release_of_the_engine_says_which_kernel_runs(engine: str, older: bool) -> None:
    """PyTorch's scaled_dot_product_attention has cuDNN's first since 2.11; verl and Axolotl set FlashAttention 2; Megatron has Transformer Engine's."""
    usual, fast, slow = (
        float(forward_flop_per_s(table_of(H100, engine=engine, **said))[0])
        for said in ({}, {"attention": "flash-3"}, {"attention": "flash-2"})
    )
    assert slow < 0.6 * fast
    assert usual == (slow if older else fast)


def test_a_release_that_is_not_named_may_run_the_older_kernel() -> None:
    open_, older = (ask(gpu=H100, **{**LLAMA, "engine": engine}) for engine in ("torch", "torch@2.10"))
    assert open_.step_s is not None
    assert older.step_s is not None
    assert open_.step_s.value * math.exp(open_.evidence[SLOWER_BEFORE]) == pytest.approx(older.step_s.value, rel=0.02)
    assert SLOWER_BEFORE not in older.evidence
    assert SLOWER_BEFORE not in ask(gpu=H100, **{**LLAMA, "attention": "flash-3"}).evidence


@pytest.mark.parametrize(
    ("gpu", "kernel", "runs"),
    [("T4", "flash-2", False), ("A100 80GB SXM", "flash-2", True), ("A100 80GB SXM", "flash-3", False), (H100, "flash-3", True)],
)
def test_a_kernel_needs_the_instructions_it_is_written_for(gpu: str, kernel: str, runs: bool) -> None:
    found = ask(gpu=gpu, **{**LLAMA, "model": "llama-3.2-1b", "sequence": 512, "dtype": "fp16", "attention": kernel})
    assert ("FlashAttention" in (found.reason or "")) is not runs


GEMMA: dict[str, Any] = {
    "model": "gemma-3-27b", "task": "train", "engine": "transformers", "micro_batch": 1, "global_batch": 1, "checkpointing": "none", "recipe": "bf16",
}  # fmt: skip


def scores_flop(**differs: Any) -> float:
    """FLOPs of attention in the forward pass, as the list of operators has them."""
    told = detail_of(evaluated(chip("B200 SXM"), **{**GEMMA, **differs}))
    return sum(one.flop for one in told.operators if one.kind == "attention" and one.phase == "forward")


@pytest.mark.parametrize("kernel", [{}, {"attention": "memory-efficient"}])
def test_a_window_that_is_a_mask_saves_nothing(kernel: dict[str, Any]) -> None:
    """Gemma 3 27B, 8,192 tokens: 52 of 62 layers see 1,024 tokens; 4 FLOP for each of 32 heads · 128 elements and every token up to the 8,192nd, hidden or
    not, and in ten layers half as many. Kernels that know windows leave out 7/8 of the 52."""
    square, element = 8192**2, 4 * 32 * 128
    masked = scores_flop(sequence=8192, **kernel)
    assert masked == pytest.approx(element * square * (52 + 10 / 2))
    known = scores_flop(sequence=8192, attention="flash-2")
    assert known == pytest.approx(element * square * (52 / 8 + 10 / 2))
    asked = {**GEMMA, "sequence": 8192}
    c, tokens = chip("B200 SXM"), np.full(1, 8192.0)
    t = candidate(c, **asked).table()
    hidden = 2 * hidden_elements(t, tokens / 2, tokens) * tokens
    assert hidden == pytest.approx(masked - known)
    assert attention_flop(t, tokens / 2) * tokens == pytest.approx(known), "those of the model are as before"


def test_stored_scores_of_a_window_are_those_of_the_square() -> None:
    """Gemma 3 27B, 8,192 tokens: all 62 layers multiply whole squares, and store them."""
    assert scores_flop(sequence=8192, attention="eager") == pytest.approx(4 * 32 * 128 * 8192**2 * 62)
    c, tokens = chip("B200 SXM"), np.full(1, 8192.0)
    t = candidate(c, **{**GEMMA, "sequence": 8192, "attention": "eager"}).table()
    layer_s = attention_time(t, tokens, tokens / 2, tokens).eager_s
    assert layer_s == pytest.approx(32 * 8192**2 * 28 / c.bandwidth_bytes_per_s)


def test_a_sequence_inside_the_window_needs_no_mask() -> None:
    assert scores_flop(sequence=1024) == pytest.approx(scores_flop(sequence=1024, attention="flash-2"))
    assert "windows" not in ask(**GEMMA, gpu="B200 SXM", sequence=1024).assumed
    assert "attention = flash asks" in ask(**GEMMA, gpu="B200 SXM", sequence=8192).assumed["windows"]
    assert "windows" not in ask(**GEMMA, gpu="B200 SXM", sequence=8192, attention="flash").assumed


def test_kernels_of_recurrences_are_told_where_they_have_to_be_installed() -> None:
    given = {"task": "generate", "gpu": "H100 SXM5 80GB", "input_tokens": 512, "output_tokens": 64}
    assert "flash-linear-attention" in ask(**given, model="qwen3.5-0.8b", engine="transformers").assumed["recurrences"]
    assert "recurrences" not in ask(**given, model="qwen3.5-0.8b", engine="vllm").assumed
    assert "recurrences" not in ask(**given, model="qwen3-0.6b", engine="transformers").assumed


@pytest.mark.parametrize("engine", ["torch", "unsloth", "axolotl", "megatron"])
def test_programs_with_kernels_that_know_windows_compute_no_more(engine: str) -> None:
    assert scores_flop(sequence=8192, engine=engine) == pytest.approx(scores_flop(sequence=8192, attention="flash-2"))


def test_a_decoding_step_reads_its_window_alone() -> None:
    t = candidate(
        chip(H100), model="gemma-3-27b", task="generate", engine="transformers", input_tokens=8192, output_tokens=10
    ).table()
    assert hidden_elements(t, np.full(1, 8192.0), np.ones(1))[0] == 0
    assert hidden_elements(t, np.full(1, 4096.0), np.full(1, 8192.0))[0] > 0


def wide_s(gpu: str, tokens: float, **asked: Any) -> float:
    """Seconds of a forward pass of one sequence that heads take longer for being wide."""
    t = candidate(chip(gpu), **{**GEMMA, "sequence": int(tokens), **asked}).table()
    of = np.full(1, tokens)
    return float(wide_heads_s(t, of / 2, of)[0] * tokens)


def longer_s(gpu: str, **asked: Any) -> float:
    """Seconds of one FLOP with wide heads over those of others."""
    t = candidate(chip(gpu), **{**GEMMA, "sequence": 8192, **asked}).table()
    return float(1 / (WIDE_FLOP_PER_CYCLE * t.chip.cycles_per_s[0]) - 1 / forward_flop_per_s(t)[0])


def test_heads_beyond_flash_attention_take_pytorchs_slow_kernel() -> None:
    """Gemma 4 26B, 16,384 tokens: 5 layers of 16 heads of 512 see all tokens before; the others' windows are FlashAttention's own."""
    asked = {"model": "gemma-4-26b-a4b", "engine": "axolotl", "attention": "flash-2"}
    flop = 5 * 16 * 4 * 512 * 16384 * 8192
    assert wide_s("B300 SXM", 16384, **asked) == pytest.approx(flop * longer_s("B300 SXM", **asked))


def test_masked_windows_take_the_slow_kernel_where_their_heads_are_wide() -> None:
    """Gemma 3 12B, 8,192 tokens: 40 of 48 layers have windows of 1,024, all 16 heads of 256 elements; of Gemma 3 27B they have 128."""
    flop = 40 * 16 * 4 * 256 * 8192**2
    assert wide_s("B200 SXM", 8192, model="gemma-3-12b") == pytest.approx(flop * longer_s("B200 SXM"))
    assert wide_s("B200 SXM", 8192) == 0
    assert wide_s("B200 SXM", 1024, model="gemma-3-12b") == 0, "no mask"
    assert wide_s("B200 SXM", 8192, model="gemma-3-12b", attention="flash-2") == 0


def test_engines_with_kernels_of_their_own_have_no_slow_one() -> None:
    assert wide_s("B200 SXM", 8192, model="gemma-4-26b-a4b", engine="megatron") == 0
    assert wide_s("MI300X", 8192, model="gemma-4-26b-a4b") == 0, "AMD's kernels were not measured"


@pytest.mark.parametrize(("gpu", "least", "most"), [("L20", 54e12, 63e12), ("A30", 18e12, 25e12), ("RTX 4090", 78e12, 94e12)])
def test_the_slow_kernel_reaches_what_was_measured(gpu: str, least: float, most: float) -> None:
    """Heads of 320 to 1,024, forward (Dao-AILab/flash-attention#1483)."""
    assert least < WIDE_FLOP_PER_CYCLE * chip(gpu).cycles_per_s < most
