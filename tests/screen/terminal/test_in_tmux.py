"""The program in a real terminal, tmux: resizing, a large paste, the mouse, and a shell that suspends and resumes it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT

pytestmark = [
    pytest.mark.process,
    pytest.mark.pty,
    pytest.mark.skipif(shutil.which("tmux") is None or shutil.which("bash") is None, reason="needs tmux and bash"),
]
SAMPLE = """
import pathlib, sys
sys.path[:0] = [{root!r}, {samples!r}, {samples!r} + "/screen"]
from tui_sample import sample_options
from widgets.launch import open_app
sys.exit(open_app(sample_options(pathlib.Path({folder!r}))))
"""
STORM = [(40 + 13 * number % 170, 12 + 7 * number % 50) for number in range(40)]
"""Sizes of a terminal that somebody drags, too small ones among them."""

STALE = {"COLUMNS": "80", "LINES": "24"}
"""What some shells, containers and test runners export: the terminal's own size goes before it."""


class Tmux:
    """The program started by an interactive shell in a tmux of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")
        (folder / "sample.py").write_text(
            SAMPLE.format(root=str(ROOT), samples=str(ROOT / "tests" / "samples"), folder=str(folder / "home"))
        )
        self._command = f"{shlex.quote(sys.executable)} {shlex.quote(str(folder / 'sample.py'))}"
        self.run("-f", os.devnull, "new-session", "-d", "-x", "120", "-y", "40", "PS1='shell> ' bash --norc --noprofile -i")
        self.until("shell>")
        self.type(self._command + "\n")
        self.until("Cheapest that meets")

    def run(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name not in {"TMUX", "NO_COLOR"}}
        done = subprocess.run(
            ["tmux", "-u", "-S", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**environment, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), **STALE},
        )
        return done.stdout

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    @property
    def lines(self) -> list[str]:
        return self.run("capture-pane", "-p").splitlines()

    def until(self, *words: str, within_s: float = 60.0) -> list[str]:
        """The screen once all `words` are on it."""
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            text = "\n".join(lines := self.lines)
            if all(word in text for word in words):
                return lines
            time.sleep(0.05)
        raise AssertionError(f"{words} did not come:\n{text}")


@pytest.fixture(scope="module")
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    folder = tmp_path_factory.mktemp("t")
    found = Tmux(folder)
    yield found
    found.run("kill-server")


def drawn_at(tmux: Tmux, width: int, height: int, *words: str) -> bool:
    """True if the screen has `words`, keeps to its size, and shows the three panes of its width beside each other."""
    lines = tmux.lines
    text = "\n".join(lines)
    sized = len(lines) == height and all(len(line) <= width for line in lines)
    return sized and lines[2].count("╮") == 3 and all(word in text for word in words)


def test_a_storm_of_sizes_ends_in_the_layout_of_the_last(tmux: Tmux) -> None:
    """Each size has its time: a terminal that changes while the one before is drawn is read only once it stands still."""
    for width, height in STORM:
        tmux.run("resize-window", "-x", str(width), "-y", str(height))
    tmux.run("resize-window", "-x", "50", "-y", "12")
    tmux.until("needs 60×18", "has 50×12")
    tmux.run("resize-window", "-x", "120", "-y", "40")
    words = ("[1] Workload", "[2] Ranking", "[5] Benchmark", "q quit")
    tmux.until(*words)
    end_s = time.monotonic() + 60.0
    while not drawn_at(tmux, 120, 40, *words):
        assert time.monotonic() < end_s, "\n".join(tmux.lines)
        time.sleep(0.05)
    time.sleep(0.5)
    assert drawn_at(tmux, 120, 40, *words), "what was drawn of an earlier size came after it"


def test_a_paste_of_a_megabyte_is_survived(tmux: Tmux, tmp_path: Path) -> None:
    (tmp_path / "large").write_text("l4 " * 350_000)
    tmux.press("/")
    tmux.run("load-buffer", str(tmp_path / "large"))
    tmux.run("paste-buffer", "-p")
    tmux.until("l4 l4 l4")
    tmux.press("Escape")
    lines = tmux.until("b benchmark", "H100 SXM5")  # out of the field: an escape and a key read together would be Alt and that key
    assert not any("l4 l4" in line for line in lines), "escape gives the filter up"
    tmux.press("?")
    tmux.until("Help", "/ searches")
    tmux.press("Escape")
    tmux.until("[2] Ranking", "Cheapest that meets")


def test_a_click_takes_the_cursor_to_its_row(tmux: Tmux) -> None:
    lines = tmux.until("2 H100 SXM5")  # in the ranking, not in the sentence above it
    assert not any("Why · 8 × H100 SXM5" in line for line in lines)
    row = next(number for number, line in enumerate(lines) if "2 H100 SXM5" in line)
    tmux.type(f"\x1b[<0;45;{row + 1}M\x1b[<0;45;{row + 1}m")
    tmux.until("Why · 8 × H100 SXM5")
    tmux.press("g")
    lines = tmux.until("Why · 4 × H200 SXM")
    assert not any("Why · 8 × H100 SXM5" in line for line in lines)


def test_the_shell_suspends_it_and_fg_draws_it_whole(tmux: Tmux) -> None:
    tmux.press("C-z")
    tmux.until("Stopped", "shell>")
    tmux.type("fg\n")
    lines = tmux.until("[1] Workload", "[2] Ranking", "[3] Memory", "Cheapest that meets", "q quit")
    assert not any("shell>" in line for line in lines)
    tmux.press("q")
    tmux.until("shell>")
    tmux.type("echo ended with $?\n")
    tmux.until("ended with 0")
