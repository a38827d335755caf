"""Completion in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner

pytestmark = pytest.mark.process

ASK = {
    "bash": 'source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _gpu_planner_completion gpu-planner; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "source {script}; complete -C '{line}'",
    "zsh": (
        "compdef() {{ }}; compadd() {{ print -l -- ${{(P)@[-1]}} }}; _describe() {{ print -l -- ${{(P)@[-1]}} }};"
        "words=({words}); CURRENT={place}; source {script}; _gpu_planner_completion"
    ),
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with the program under its own name."""
    there = tmp_path / "bin"
    there.mkdir()
    script = there / "gpu-planner"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m planner "$@"\n')
    script.chmod(0o755)
    return there


@pytest.mark.parametrize("shell", ASK)
def test_shells_complete_commands_presets_and_gpus(shell: str, program: Path, run_planner: RunPlanner, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on the PATH")
    script = tmp_path / "completion"
    script.write_text(run_planner("completion", shell).stdout)
    for line, expected, unexpected in (
        ("gpu-planner pl", "plan", "bench"),
        ("gpu-planner plan llama-3.1-8", "llama-3.1-8b-lora", "qwen3-8b-single-user-chat"),
        ("gpu-planner gpus show H10", "H100-SXM", "A100"),
    ):
        words = line.split()
        ask = ASK[shell].format(script=script, line=line, words=" ".join(words), last=len(words) - 1, place=len(words))
        environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        done = subprocess.run([shell, "-c", ask], env=environment, capture_output=True, text=True, timeout=60, check=False)
        offered = done.stdout.split()
        assert expected in offered, (done.stdout, done.stderr)
        assert unexpected not in offered


def test_an_unknown_shell_is_refused(run_planner: RunPlanner) -> None:
    done = run_planner("completion", "tcsh")
    assert done.returncode == 2
    assert "bash" in done.stderr
