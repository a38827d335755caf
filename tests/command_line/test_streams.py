"""What becomes of a command whose stdout is full, closed or left, whose stderr is full, or which is interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner
from terminal_screen import Screen, Terminal

from planner.cli.commands import COMMANDS
from planner.cli.exits import MEANINGS

pytestmark = pytest.mark.process
FULL = "error: cannot write to stdout: No space left on device"
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
    found = [(one.communicate(timeout=300)[1].strip(), one.returncode) for one in started]
    for (words, code, said), (told, ended) in zip(CASES[:-1], found, strict=False):
        assert (words, ended, told) == (words, code, said)
    assert found[-1] in {("", 141), ("", 0)}  # it may be through before nobody reads


EVERY_COMMAND = """
import json, os, sys
import click
from planner.cli import main
from planner.cli.root import root

def paths(command, path=()):
    yield path
    for name in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
        yield from paths(command.get_command(click.Context(command), name), (*path, name))

def left():
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)

CASES = {
    "full": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1),
    "closed": lambda: os.close(1),
    "left": left,
    "stderr full": lambda: (os.dup2(os.open("/dev/null", os.O_WRONLY), 1), os.dup2(os.open("/dev/full", os.O_WRONLY), 2)),
}
main(argv=["plan", "--help"])  # loads what all children need
found = []
for path in list(paths(root)):
    for name, change in CASES.items():
        if (child := os.fork()) == 0:
            change()
            os._exit(main(argv=[*path, "--help"]))
        found.append((" ".join(path), name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
print(json.dumps(found))
"""


@pytest.mark.sweep
def test_every_command_ends_as_documented_when_its_streams_cannot_be_written(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    expected = {"full": 74, "closed": 0, "left": 141, "stderr full": 0}
    assert {path for path, _, _ in found} >= set(COMMANDS)
    assert [one for one in found if one[2] != expected[one[1]]] == []
    assert set(done.stderr.splitlines()) == {FULL}


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
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert (module, done.returncode, done.stderr.strip()) == (module, 128 + signal.SIGINT, "interrupted")


@pytest.mark.parametrize(
    ("first", "at"),
    [
        *(("widgets.entry", at) for at in ("", "contextlib", "enum", "widgets.launch", "planner.startup")),
        *(("planner.__main__", at) for at in ("", "contextlib", "typing", "planner.cli")),
    ],
)
def test_ctrl_c_from_the_first_line_of_the_program_leaves_no_traceback(first: str, at: str) -> None:
    code = f"""
import os, sys, _signal
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), _signal.SIGINT)
for name in ("contextlib", "enum", "typing"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Interrupt())
_signal.signal(_signal.SIGINT, _signal.default_int_handler)
import {first}
if not {at!r}:
    os.kill(os.getpid(), _signal.SIGINT)
{first}.main()
print("went on")
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
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
        assert watch.process.wait(timeout=300) == -number
        watch.close()


def ended(*words: str, at: str = "", number: signal.Signals | None = None, folder: Path) -> int:
    """Exit status of this Python with these arguments, sent signal `number` once it has said `at`."""
    process = subprocess.Popen(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder)}, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if number is not None and at in line:
                process.send_signal(number)
                at = "\0"
    return process.wait(timeout=300)


def screen_ended_by(number: signal.Signals, folder: Path) -> int:
    screen = Screen(folder)
    assert b"\x1b[?1049h" in screen.read(until=b"\x1b[?1049h")
    screen.process.send_signal(number)
    screen.read(until=b"\x1b[?1049l")
    code = screen.process.wait(timeout=300)
    screen.close()
    return code


BROKEN = """
import sys
import planner.session.session
from planner.cli import main
planner.session.session.Session.plan = lambda *_, **__: 1 / 0
sys.exit(main(argv=["plan"]))
"""
FULL_STDOUT = """
import os, sys
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
from planner.cli import main
sys.exit(main(argv=["gpus"]))
"""
INTERRUPTED_EARLY = "import os, widgets.entry; os.kill(os.getpid(), 2)"
NOTHING_FITS = ("fit", "--gpu", "T4", "--set", "model=llama-3.1-405b")
DEMO = ("-m", "planner", "watch", "--demo", "--json")
TERM, INT = signal.SIGTERM, signal.SIGINT
DOCUMENTED: dict[str, dict[int, Callable[[Path], int]]] = {
    "0": {0: lambda at: ended("-m", "planner", "gpus", folder=at)},
    "1": {1: lambda at: ended("-m", "planner", *NOTHING_FITS, folder=at)},
    "2": {2: lambda at: ended("-m", "planner", "gpus", "--nosuch", folder=at)},
    "70": {70: lambda at: ended("-c", BROKEN, folder=at)},
    "74": {74: lambda at: ended("-c", FULL_STDOUT, folder=at)},
    "130": {
        130: lambda at: ended(*DEMO, at="{", number=INT, folder=at),
        -2: lambda at: ended("-c", INTERRUPTED_EARLY, folder=at),
    },
    "143": {143: lambda at: ended("-m", "planner", "bench", "--suite", "smoke", at="loading torch", number=TERM, folder=at)},
    "128 + N": {
        -15: lambda at: ended(*DEMO, at="{", number=TERM, folder=at),
        129: lambda at: screen_ended_by(signal.SIGHUP, at),
    },
}
"""Exit code as the documentation names it -> the status that each process of this kind has (by signal N: -N). 141 has a test above."""


def test_exit_codes_are_worded_once(run_planner: RunPlanner) -> None:
    page = (ROOT / "docs" / "evidence" / "reliability.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page.partition("|---|---|")[2].partition("\n\n")[0], re.MULTILINE)
    assert rows == list(MEANINGS.items())
    shown = run_planner("--help").stdout.partition("Exit codes:\n")[2].splitlines()
    assert [(line[4:12].strip(), line[13:]) for line in shown] == rows


@pytest.mark.pty
@pytest.mark.usefixtures("torch_here")
def test_every_documented_exit_code_is_what_a_process_ends_with(tmp_path: Path) -> None:
    assert [code for code in MEANINGS if code != "141"] == list(DOCUMENTED)
    cases = [(code, status, run) for code, statuses in DOCUMENTED.items() for status, run in statuses.items()]
    for code, status, _ in cases:
        (tmp_path / code / str(status)).mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda case: case[2](tmp_path / case[0] / str(case[1])), cases))
    assert [(code, status) for (code, _, _), status in zip(cases, found, strict=True)] == [case[:2] for case in cases]
