"""`estimate` as scripts meet it: a line in, a line out, in order, at once, whatever the line before was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from repository import ROOT, RunPlanner

from planner.engine.answers.answer import Answer

ONE_REQUEST = {
    "id": 1,
    "model": "Qwen/Qwen3-8B",
    "gpu": "H100 SXM5 80GB",
    "task": "generate",
    "batch": 1,
    "input_tokens": 128,
    "output_tokens": 128,
}


def test_estimate_answers_one_line(planner_process: RunPlanner) -> None:
    done = planner_process("estimate", "-", stdin=json.dumps(ONE_REQUEST) + "\n")
    assert done.returncode == 0, done.stderr
    answer = msgspec.json.decode(done.stdout, type=Answer)
    assert answer.id == 1
    assert answer.fits
    assert answer.reason is None
    assert answer.memory_bytes is not None
    assert answer.decode_tokens_per_s is not None
    assert answer.assumed


def test_estimate_goes_on_after_bad_lines_and_keeps_the_order(planner_process: RunPlanner) -> None:
    lines = [
        json.dumps(ONE_REQUEST | {"id": "good"}),
        '{"id": 2, "model": ',
        json.dumps(ONE_REQUEST | {"id": {"any": "thing"}, "inptu_tokens": 1, "task": "generat"}),
        json.dumps(ONE_REQUEST | {"id": 4, "gpu": "H200 SMX"}),
        json.dumps(ONE_REQUEST | {"id": 5, "model": "Qwen/Qwen3-8b-typo"}),
        "",
        "[1, 2]",
        '{"id": 7, "gpu": "T4", "model": 3, "task": }',
        json.dumps(ONE_REQUEST | {"id": "last", "model": {"model_type": "no-such-type"}}),
        json.dumps(ONE_REQUEST | {"id": 9}),
    ]
    done = planner_process("estimate", stdin="\n".join(lines))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == ["good", None, {"any": "thing"}, 4, 5, None, None, "last", 9]
    assert ["error" in answer for answer in answers] == [False, True, True, True, True, True, True, True, False]
    assert "input_tokens" in answers[2]["error"]
    assert "'generate'" in answers[2]["error"]
    assert "'H200 SXM'" in answers[3]["error"]
    assert "Qwen/Qwen3-8B" in answers[4]["error"]


def test_estimate_reads_a_file_and_names_a_missing_one(planner_process: RunPlanner, tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(ONE_REQUEST | {"id": n}) + "\n" for n in range(1500)))
    done = planner_process("estimate", "lines.jsonl")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list(range(1500))
    missing = planner_process("estimate", "nowhere.jsonl")
    assert missing.returncode == 2
    assert "nowhere.jsonl" in missing.stderr
    line = planner_process("estimate", '{"model": "gpt2-xl"}')
    assert (line.returncode, line.stdout) == (2, "")
    assert "is a line, not a file" in line.stderr


@pytest.mark.process
def test_estimate_does_not_hold_answers_back(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "estimate", "-"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for n in range(3):
            process.stdin.write(json.dumps(ONE_REQUEST | {"id": n}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == n
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.process
def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "plan", "--json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    _, complaints = process.communicate(timeout=300)
    assert complaints == ""
    assert process.returncode == 141


@pytest.mark.process
def test_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "estimate", "-"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(ONE_REQUEST) + "\n")
    process.stdin.flush()
    process.stdout.readline()
    time.sleep(0.1)
    process.send_signal(2)
    _, complaints = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in complaints
