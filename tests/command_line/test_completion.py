"""Completion in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner

pytestmark = pytest.mark.process

ASK = {
    "bash": 'source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _gpu_planner_completion gpu-planner; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": "source {script}; complete -C '{line}'",
    "zsh": (
        "compdef() {{ }}; compadd() {{ print -l -- ${{(P)@[-1]}} }}; _describe() {{ print -l -- ${{${{(P)3}}%%:*}} }};"
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
        ("gpu-planner pl", "plan", "replay"),  # which contains it: of several zsh would delete what was typed
        ("gpu-planner plan qlor", "llama-3.1-70b-qlora", "llama-3.1-8b-lora"),
        ("gpu-planner gpus sh", "show", "list"),
        ("gpu-planner gpus show H10", "H100-SXM", "A100"),
    ):
        words = line.split()
        ask = ASK[shell].format(script=script, line=line, words=" ".join(words), last=len(words) - 1, place=len(words))
        environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        done = subprocess.run([shell, "-c", ask], env=environment, capture_output=True, text=True, timeout=300, check=False)
        offered = done.stdout.split()
        assert expected in offered, (done.stdout, done.stderr)
        assert unexpected not in offered


PLAIN = {"bash": "bash --norc --noprofile", "zsh": "zsh -f", "fish": "fish --no-config"}
"""Each shell without anybody's settings."""
BEFORE = {"zsh": "autoload -Uz compinit && compinit -u -D; "}


class Terminal:
    """A shell in a terminal of tmux, under a server of its own."""

    def __init__(self, shell: str, socket: Path, path: str) -> None:
        self._tmux = [shutil.which("tmux") or "tmux", "-S", str(socket), "-f", os.devnull]
        start = ["new-session", "-d", "-x", "120", "-y", "40", f"env PATH='{path}' PYTHONPATH='{ROOT}' PS1='> ' {PLAIN[shell]}"]
        subprocess.run([*self._tmux, *start], check=True, timeout=300)

    def type(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True, timeout=300)

    def shows(self, text: str, within_s: float = 60.0) -> str:
        """The screen as soon as `text` is on it, at the latest after `within_s`."""
        until_s = time.monotonic() + within_s
        while True:
            screen = subprocess.run(
                [*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True, timeout=300
            ).stdout
            if text in screen or time.monotonic() > until_s:
                return screen
            time.sleep(0.05)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, timeout=300)


@pytest.mark.parametrize("shell", PLAIN)
def test_the_tab_key_completes_in_a_terminal(shell: str, program: Path, run_planner: RunPlanner, tmp_path: Path) -> None:
    """One that fits is typed out; of several all are listed."""
    if shutil.which(shell) is None or shutil.which("tmux") is None:
        pytest.skip(f"no {shell} or no tmux on the PATH")
    script = tmp_path / "completion"
    script.write_text(run_planner("completion", shell).stdout)
    terminal = Terminal(shell, tmp_path / "tmux", f"{program}:{os.environ['PATH']}")
    try:
        terminal.type(f"{BEFORE.get(shell, '')}source {script}; echo re''ady", "Enter")
        assert "ready" in terminal.shows("ready")
        terminal.type("gpu-planner plan llama-3.1-8b-lo", "Tab")
        assert "gpu-planner plan llama-3.1-8b-lora" in terminal.shows("llama-3.1-8b-lora")
        terminal.type("C-u")
        terminal.type("gpu-planner rep", "Tab", "Tab")
        screen = terminal.shows("report")
        assert "report" in screen
        assert "replay" in screen
    finally:
        terminal.end()


def test_an_unknown_shell_is_refused(run_planner: RunPlanner) -> None:
    done = run_planner("completion", "tcsh")
    assert done.returncode == 2
    assert "bash" in done.stderr
