"""The suite `study` measured for real on this machine's CPU, under a time limit, and taken in by the study."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
from repository import RunPlanner

from planner.engine.answers.study import StudyAnswer
from planner.observe.host import processors


@pytest.mark.usefixtures("torch_here")
@pytest.mark.alone
def test_a_capped_run_is_kept_resumed_and_shown(planner_process: RunPlanner, tmp_path: Path) -> None:
    if not {"avx512_bf16", "amx_bf16", "bf16"} & processors()[0].flags:
        pytest.skip("this processor has no BF16 arithmetic: a step of the study would take longer than a test may")
    begun = time.monotonic()
    # one layer and a small vocabulary: a step takes milliseconds
    wish = ("--suite", "study", "--device", "cpu", "--axis", "batch", "--depth-law", "1", "--vocabulary", "512")
    done = planner_process("bench", *wish, "--cap", "12", "--json")
    assert time.monotonic() - begun < 60
    assert done.returncode == 0, done.stderr
    measured = [json.loads(line) for line in done.stdout.splitlines()]
    assert 1 <= len(measured) <= 5
    first = measured[0]
    if first["status"] == "unsupported":
        pytest.skip(f"this CPU has no bfloat16: {first['detail']}")
    assert first["point"] == "train/qwen3-study-w256-d1-v512/bf16/4x256"
    shape = {"width": 256, "depth": 1, "vocabulary": 512, "batch": 4, "sequence": 256, "recipe": "amp", "optimizer": "adamw"}
    assert first["parameters"].items() >= shape.items()

    again = planner_process("bench", *wish, "--cap", "3", "--resume", "--json")
    assert again.returncode in {0, 1}, again.stderr
    solid = {one["point"] for one in measured if one["status"] in {"ok", "noisy"}}
    repeated = {json.loads(line)["point"] for line in again.stdout.splitlines()}
    assert not solid & repeated
    assert again.stderr.count("measured before") == len(solid)

    asked = ("study", "--json", "--axis", "batch", "--depth-law", "1", "--vocabulary", "512", "--width", "256")
    answer = msgspec.json.decode(planner_process(*asked).stdout, type=StudyAnswer)
    here = [curve for curve in answer.curves if curve.here and curve.measured_points]
    assert here
    assert {point.sequences for point in here[0].points if point.flop_per_s and point.flop_per_s.basis == "measured"} <= {
        1,
        2,
        4,
        8,
        16,
    }


def test_what_concerns_the_study_is_refused_elsewhere(planner_process: RunPlanner) -> None:
    done = planner_process("bench", "--suite", "quick", "--axis", "batch")
    assert done.returncode == 2
    assert "suite study" in done.stderr
    done = planner_process("bench", "--suite", "study", "--depth-law", "tall")
    assert done.returncode == 2
    assert "log2" in done.stderr
