"""The head start: a copy of the process answers what the screen asks first, as the session itself would; without it nothing is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT
from terminal_screen import Terminal

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="a copy has no processor of its own here"
    ),
]
BEGIN = """
import os, sys
from pathlib import Path
from widgets import state_files
from widgets.background.head_start import head_start
from widgets.background.opened import Asked, first_question, read_left
from widgets.options import AppOptions

folder = Path(sys.argv[1])
options = AppOptions(preset=sys.argv[2] or None, state=folder / "state", config=folder / "config")
"""
SAME = """
with head_start(options) as early:
    session = options.session()
    asked = first_question(session, read_left(state_files.load_session(options.state)), options.preset or "")
    workload = session.workload(asked.workload, asked.where)
    plan, warnings = early.plan(asked)
    assert plan == session.plan(workload, basis=asked.basis, levers=False), plan
    assert plan.rows
    print({row.gpu for row in plan.rows if not row.here})
    assert early.plan(asked._replace(basis="spec" if asked.basis == "measured" else "measured")) is None
    assert early.plan(asked) is not None
    assert early.advice() in (session.plan(workload, basis=asked.basis, hints=True), None)
"""
ENDED = """
options = AppOptions(preset=sys.argv[2], state=options.state, config=options.config)
with head_start(options) as early:
    number = early._process
    os.kill(number, 0)
try:
    os.kill(number, 0)
except ProcessLookupError:
    pass
else:
    raise AssertionError("the copy is there yet")
assert early.plan(Asked({}, "", "measured")) is None
assert early.advice() is None
"""
APP = """
import os, pathlib, sys
sys.path[:0] = [{root!r}, {samples!r}, {samples!r} + "/screen"]
from tui_sample import SampleSession, sample_options
from widgets.launch import open_app
folder, usual = pathlib.Path({folder!r}), SampleSession.plan
def plan(self, *given, **named):
    with (folder / "planned").open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    return usual(self, *given, **named)
SampleSession.plan = plan
sys.exit(open_app(sample_options(folder, {options})))
"""


def run(code: str, folder: Path, preset: str = "") -> str:
    """What a fresh Python prints that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(folder), preset],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-8b-pretrain", "llama-3.2-3b-offline"])
def test_its_plan_is_the_one_that_the_session_makes(tmp_path: Path, preset: str) -> None:
    assert "H100" in run(SAME, tmp_path, preset)


def test_it_goes_on_where_the_last_start_ended(tmp_path: Path) -> None:
    from widgets import state_files

    workload = {"model": "llama-3.1-8b", "task": "serve", "input_tokens": 500, "output_tokens": 100, "concurrency": 4}
    left = {"preset": "llama-3.1-70b-chat-service", "workload": workload, "filter": "gpu:l4", "basis": "spec"}
    assert state_files.save_session(tmp_path / "state", left).kept
    assert run(SAME, tmp_path).strip() == "{'L4'}"


def test_it_leaves_no_process_behind(tmp_path: Path) -> None:
    run(ENDED, tmp_path, "llama-3.1-70b-chat-service")


def test_a_preset_there_is_not_is_left_to_the_screen(tmp_path: Path) -> None:
    code = 'with head_start(options) as early:\n    assert early.plan(Asked({}, "", "measured")) is None'
    run(code, tmp_path, "nothing-of-that-name")


@pytest.mark.pty
@pytest.mark.parametrize("narrowed", ["", 'preset="study-600m"'])
def test_the_screen_shows_its_plan_and_makes_none_itself(tmp_path: Path, narrowed: str) -> None:
    code = APP.format(root=str(ROOT), samples=str(ROOT / "tests" / "samples"), folder=str(tmp_path), options=narrowed)
    terminal = Terminal(["-c", code], os.environ)
    try:
        assert b"Cheapest that meets" in terminal.read(until=b"Cheapest that meets")
        planned = (tmp_path / "planned").read_text().split()
        assert planned
        assert str(terminal.process.pid) not in planned
        terminal.type(b"q")
        terminal.read(until=b"\x1b[?1049l")
        assert terminal.process.wait(timeout=5) == 0
        assert all(not Path(f"/proc/{number}").exists() for number in planned)
    finally:
        terminal.close()
