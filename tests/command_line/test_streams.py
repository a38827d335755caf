"""What becomes of a command whose stdout is full, closed or left, whose stderr is full, or which is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT
from terminal_screen import Terminal

pytestmark = pytest.mark.process
FULL = "error: stdout cannot be written: No space left on device"
CASES = (
    ("gpus > /dev/full", 74, FULL),
    ("--version > /dev/full", 74, FULL),
    ("watch --demo --speed 0 --json > /dev/full", 74, FULL),
    ("gpus >&-", 0, ""),
    ("gpus <&- >&- 2>&-", 0, ""),
    ("nosuch 2> /dev/full", 2, ""),
    ("watch --demo --speed 0 --json | head -c 1 > /dev/null", 141, ""),
    ("gpus list --json | true", 141, ""),
)


def test_a_stdout_that_takes_nothing_is_told_and_never_1(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            ["bash", "-c", f"{sys.executable} -m planner {words}; exit ${{PIPESTATUS[0]}}"],
            env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for words, _, _ in CASES
    ]  # fmt: skip
    found = [(one.communicate(timeout=60)[1].strip(), one.returncode) for one in started]
    for (words, code, said), (told, ended) in zip(CASES[:-1], found, strict=False):
        assert (words, ended, told) == (words, code, said)
    assert found[-1] in {("", 141), ("", 0)}  # it may be through before nobody reads


def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(tmp_path: Path) -> None:
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from planner.cli import main
sys.exit(main(argv=["plan", "--top", "1"]))
"""
    for module in ("click", "planner.session", "numpy", "planner.engine.search.plan"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), "AT": module}, cwd=tmp_path,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (module, done.returncode, done.stderr.strip()) == (module, 128 + signal.SIGINT, "interrupted")


@pytest.mark.parametrize("at", ["", "contextlib", "enum", "widgets.launch", "planner.startup"])
def test_ctrl_c_from_the_first_line_of_the_console_script_leaves_no_traceback(at: str) -> None:
    code = f"""
import os, sys, _signal
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), _signal.SIGINT)
for name in ("contextlib", "enum"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Interrupt())
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
import widgets.entry
if not {at!r}:
    os.kill(os.getpid(), _signal.SIGINT)
widgets.entry.main()
print("went on")
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.pty
def test_a_watch_ended_by_a_signal_shows_the_cursor_again(tmp_path: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    watches = [Terminal(["-m", "planner", "watch", "--demo"], environment) for _ in numbers]
    for watch, number in zip(watches, numbers, strict=True):
        assert b"\x1b[?25l" in watch.read(until=b"logical CPUs")
        watch.process.send_signal(number)
        assert watch.read(until=b"\x1b[?25h").endswith(b"\x1b[?25h")
        assert watch.process.wait(timeout=10) == -number
        watch.close()
