"""The console script on a pseudo-terminal: it opens, keeps silent when idle, respects NO_COLOR and leaves at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT
from terminal_screen import Terminal

from widgets import launch
from widgets.options import AppOptions

pytestmark = [pytest.mark.process, pytest.mark.pty]
SAMPLE = """
import pathlib, sys
sys.path[:0] = [{root!r}, {tests!r}, {tests!r} + "/screen"]
from tui_sample import sample_options
from widgets.launch import open_app
sys.exit(open_app(sample_options(pathlib.Path({folder!r}))))
"""


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Terminal]:
    yield from _sample(tmp_path)


@pytest.fixture
def sample_without_colour(tmp_path: Path) -> Iterator[Terminal]:
    yield from _sample(tmp_path, NO_COLOR="1", COLORTERM="truecolor")


def _sample(folder: Path, **environment: str) -> Iterator[Terminal]:
    code = SAMPLE.format(root=str(ROOT), tests=str(ROOT / "tests" / "samples"), folder=str(folder))
    terminal = Terminal(["-c", code], {**os.environ, **environment})
    yield terminal
    terminal.close()


def test_an_idle_screen_sends_nothing_and_q_leaves_at_once(sample: Terminal) -> None:
    assert b"Cheapest that meets" in sample.read(until=b"Cheapest that meets")
    assert any(sample.read(within_s=1.5) == b"" for _ in range(10)), "a busy machine draws the start for longer"
    sample.type(b"q")
    began = time.monotonic()
    assert sample.process.wait(timeout=300) == 0
    assert time.monotonic() - began < 10  # 0.2 s on an idle machine


def test_no_color_means_no_colour(sample_without_colour: Terminal) -> None:
    written = sample_without_colour.read(until=b"Nothing measured")
    codes = {int(code) for codes in re.findall(rb"\x1b\[([0-9;]+)m", written) for code in codes.split(b";") if code}
    assert not codes & {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}


def test_without_a_terminal_the_command_line_takes_over() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "widgets.launch", "--version"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("gpu-planner")


def test_over_ssh_nothing_is_animated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 1 5.6.7.8 22")
    monkeypatch.setenv("TEXTUAL_FPS", "15")
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "")
    monkeypatch.delenv("TEXTUAL_ANIMATIONS")
    launch.prepare_environment()
    assert os.environ["TEXTUAL_ANIMATIONS"] == "none"
    assert os.environ["TEXTUAL_FPS"] == "15"


def test_everything_the_command_line_was_given_reaches_the_screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[AppOptions] = []

    def note(options: AppOptions) -> int:
        opened.append(options)
        return 0

    monkeypatch.setattr(launch, "open_app", note)
    folders = {"config": tmp_path / "config", "state": tmp_path / "state"}
    given = {
        "preset": "mine.toml",
        "python": "/usr/bin/python3",
        "theme": "nord",
        "ascii_only": True,
        "replay": None,
        "demo": False,
    }
    assert launch.open_from_command_line(**given, **folders) == 0
    (options,) = opened
    assert (options.preset, options.python, options.theme) == ("mine.toml", "/usr/bin/python3", "nord")
    assert options.ascii_only
    assert (options.config, options.state) == (tmp_path / "config", tmp_path / "state")


def test_a_theme_there_is_not_is_told_before_the_screen_is_taken_over(tmp_path: Path) -> None:
    terminal = Terminal(["-m", "widgets.launch", "--theme", "nrd", "--state", str(tmp_path)], os.environ)
    written = terminal.read(until=b"Did you mean 'nord'")
    assert b"'nrd' is not a theme" in written
    assert terminal.process.wait(timeout=300) == 2
    assert b"\x1b[?1049h" not in written
