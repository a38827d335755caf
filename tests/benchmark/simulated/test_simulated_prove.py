"""`bench --suite prove` on a simulated H200, by the command itself: the table, the JSON, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from patched_python import patched_python
from repository import ROOT, RunPlanner

from planner.hardware.measurements.measurement import Measurement

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("torch_here")]

WORKER = """
import sys
sys.path.insert(0, {samples!r})
from simulated_machine import run_on
from simulated_gpu import Truth
_measure = run_on(_measure, Truth(**{truth!r}), {never!r})
"""
RATES = {"bf16": 760e12, "fp16": 750e12, "fp32": 50e12, "tf32": 390e12, "fp8": 1150e12, "fp8-fast": 1350e12, "int8": 910e12}
H200 = {"bandwidth_bytes_per_s": 4.2e12, "flop_per_s": RATES}
LIKE_OTHERS = (
    "prefill/qwen3-0.6b/bf16/1x2048",
    "prefill/qwen3-8b/bf16/1x2048",
    "decode/qwen3-0.6b/bf16/1x512",
    "decode/qwen3-0.6b/bf16/32x4096",
    "decode/qwen3-8b/bf16/8x2048",
)
"""Points that take seconds to simulate and show what others do."""
MODELS = (*LIKE_OTHERS, "train/qwen3-study-w1024/bf16/4x256", "train/qwen3-study-w256/bf16/1x64", "decode/qwen3-8b/bf16/1x512")
TINY = ("launch/eager", "gemm/bf16/256x256x256", "gemm/bf16/1024x3072x1024")
"""Points whose kernels are so short that thousands of them are simulated."""
Prove = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prove(tmp_path: Path, planner_process: RunPlanner) -> Prove:
    """(exit code, stdout, stderr) of the suite on a GPU with that truth."""

    def run(truth: dict[str, object], *options: str, never: tuple[str, ...] = LIKE_OTHERS) -> tuple[int, str, str]:
        body = WORKER.format(samples=str(ROOT / "tests" / "samples" / "benchmark"), truth=H200 | truth, never=never)
        python = patched_python(tmp_path / "patched", "bench.worker", body)
        done = planner_process(
            "--state", str(tmp_path), "bench", "--suite", "prove", "--python", str(python), *options, timeout_s=300
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.measuring
def test_a_gpu_as_it_is_expected_is_within(prove: Prove) -> None:
    code, out, said = prove({})
    assert code == 0, out + said
    table = out[out.index("What H200 SXM shows") :]
    assert " outside" not in table
    for name in (
        "fault/busy-neighbour",
        "decode/qwen3-8b/bf16/1x512",
        "train/qwen3-study-w1024/bf16/4x256",
        "copy/memory dram_active",
    ):
        (line,) = (line for line in table.splitlines() if line.startswith(f"{name} "))
        assert "within" in line


def test_a_gpu_that_is_slower_than_its_kind_is_told_and_the_exit_code_says_so(prove: Prove) -> None:
    code, out, said = prove({"flop_per_s": RATES | {"bf16": 500e12}, "link_bytes_per_s": 12e9}, "--json", never=(*MODELS, *TINY))
    assert code == 1, said
    results, verdict_lines = out[: out.index("\n[")], out[out.index("\n[") + 1 :]
    measured = [msgspec.json.decode(line, type=Measurement) for line in results.splitlines()]
    assert {one.kind for one in measured} >= {"gemm", "copy", "transfer"}, "each result is a line of its own"
    assert len({one.fingerprint for one in measured}) == 1
    assert "kept" in said
    verdicts = {one["point"]: one["verdict"] for one in json.loads(verdict_lines)}
    assert verdicts["gemm/bf16/8192x8192x8192"] == verdicts["transfer/h2d"] == "outside"
    assert verdicts["gemm/fp8/8192x8192x8192"] == verdicts["copy/memory"] == "within"
