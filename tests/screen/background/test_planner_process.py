"""The planner process: it answers as the session itself would; without it nothing is missing, and it ends with the screen however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
import asyncio, os, sys
from pathlib import Path
from planner.errors import UserError
from widgets.state import state_files
from widgets.background import planner_process as process_module
from widgets.background import questions
from widgets.background.opened import PlanQuestion, first_question, read_saved
from widgets.background.planner_process import UnansweredError, planner_process
from widgets.options import AppOptions

process_module.YIELDING = 0  # beside other tests one that yields would wait for minutes
folder = Path(sys.argv[1])
options = AppOptions(preset=sys.argv[2] or None, state=folder / "state", config=folder / "config")

def asking(process):
    from widgets.background.planning import SessionThread

    thread = SessionThread(options.session)
    thread.process = process
    return lambda question, asked, *given: asyncio.run(thread.search(question, asked, *given)), thread

def answered_by(session, workload, basis):
    return os.getpid()

def fails_in_the_copy(session, workload, basis):
    assert os.getpid() == started
    return "answered here"

def known(session, workload, basis):
    found = len(session._rankings), hasattr(session, "seen")
    session.seen = True
    return found

started = os.getpid()
for question, answered in ((answered_by, int), (fails_in_the_copy, str), (known, tuple[int, bool])):
    setattr(questions, question.__name__, question)
    questions.answer_types()[question.__name__] = answered
"""
SAME = """
with planner_process(options) as process:
    session = options.session()
    asked = first_question(session, read_saved(state_files.load_session(options.state)), options.preset or "")
    workload = session.workload(asked.workload, asked.where)
    plan, warnings = process.first_plan(asked)
    assert plan == session.plan(workload, basis=asked.basis, levers=False), plan
    assert plan.rows
    print({row.gpu for row in plan.rows if not row.here})
    assert process.first_plan(asked._replace(basis="spec" if asked.basis == "measured" else "measured")) is None
    assert process.first_plan(asked) is not None
    ask, thread = asking(process)
    assert ask(questions.advice, asked) == session.plan(workload, basis=asked.basis, hints=True)
    row = next(row for row in plan.rows if not row.here)
    for name in ("details", "levers", "memory_detail", "time_detail", "under_load"):
        question = getattr(questions, name)
        assert ask(question, asked, row) == question(session, workload, asked.basis, row), name
    assert thread._session is None
"""
ANSWERS = """
with planner_process(options) as process:
    asked = first_question(options.session(), None, options.preset)
    ask, thread = asking(process)
    assert ask(answered_by, asked) == process._process
    try:
        ask(questions.ranking, asked._replace(workload={**asked.workload, "task": "sing"}))
    except UserError as wrong:
        assert wrong.problems[0].key == "task", wrong
    else:
        raise AssertionError("a task that is none was planned")
    assert ask(fails_in_the_copy, asked) == "answered here"
    assert ask(answered_by, asked) == process._process
    assert ask(known, asked) == (1, False)
    assert ask(known, asked) == (1, True)
    asyncio.run(thread.refresh())
    assert ask(known, asked) == (0, True)
    asyncio.run(thread.reopen())
    assert ask(known, asked) == (0, False)
    os.kill(process._process, 9)
    assert ask(answered_by, asked) == started
print("checked")
"""
ENDED = """
with planner_process(options) as process:
    number = process._process
    os.kill(number, 0)
try:
    os.kill(number, 0)
except ProcessLookupError:
    pass
else:
    raise AssertionError("the copy is there yet")
assert process.first_plan(PlanQuestion({}, "", "measured")) is None
try:
    process.ask("answered_by", PlanQuestion({}, "", "measured"), ())
except UnansweredError:
    pass
else:
    raise AssertionError("it answered")
print("checked")
"""
KILLED = """
with planner_process(options) as process:
    process.first_plan(None)
    print(process._process, flush=True)
    os.kill(os.getpid(), 9)
"""
APP = """
import os, pathlib, sys
sys.path[:0] = [{root!r}, {samples!r}, {samples!r} + "/screen"]
from tui_sample import SampleSession, sample_options
from widgets.background import planner_process
from widgets.launch import open_app
planner_process.YIELDING = 0
folder, usual = pathlib.Path({folder!r}), SampleSession.plan
def plan(self, *given, **named):
    with (folder / "planned").open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    return usual(self, *given, **named)
SampleSession.plan = plan
sys.exit(open_app(sample_options(folder, {options})))
"""


def run(code: str, folder: Path, preset: str = "", returncode: int = 0) -> str:
    """Output of a fresh Python that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(folder), preset],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == returncode, done.stderr
    return done.stdout


def runs(number: str) -> bool:
    """True if there is a process of that number which has not ended."""
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def ends(number: str, within_s: float = 60.0) -> bool:
    """True if the process of that number ends soon."""
    until_s = time.monotonic() + within_s
    while runs(number) and time.monotonic() < until_s:
        time.sleep(0.05)
    return not runs(number)


@pytest.mark.parametrize(
    "preset",
    [
        "llama-3.1-70b-chat-service",
        pytest.param("llama-3.1-8b-pretrain", marks=pytest.mark.thorough),
        pytest.param("llama-3.2-3b-offline", marks=pytest.mark.thorough),
    ],
)
def test_its_plan_is_the_one_that_the_session_makes(tmp_path: Path, preset: str) -> None:
    assert "H100" in run(SAME, tmp_path, preset)


def test_it_goes_on_where_the_last_start_ended(tmp_path: Path) -> None:
    from widgets.state import state_files

    workload = {"model": "llama-3.1-8b", "task": "serve", "input_tokens": 500, "output_tokens": 100, "concurrency": 4}
    left = {"preset": "llama-3.1-70b-chat-service", "workload": workload, "filter": "gpu:l4", "basis": "spec"}
    assert state_files.save_session(tmp_path / "state", left).kept
    assert run(SAME, tmp_path).strip() == "{'L4'}"


def test_it_leaves_no_process_behind(tmp_path: Path) -> None:
    assert run(ENDED, tmp_path, "llama-3.1-70b-chat-service") == "checked\n"


def test_it_answers_until_it_has_ended_and_fails_for_the_thread_to_say_why(tmp_path: Path) -> None:
    assert run(ANSWERS, tmp_path, "llama-3.1-8b-pretrain") == "checked\n"


def test_it_ends_where_the_screen_is_killed(tmp_path: Path) -> None:
    number = run(KILLED, tmp_path, "llama-3.1-8b-pretrain", returncode=-signal.SIGKILL).strip()
    assert number
    assert ends(number)


def test_a_preset_there_is_not_is_left_to_the_screen(tmp_path: Path) -> None:
    code = 'with planner_process(options) as process:\n    assert process.first_plan(PlanQuestion({}, "", "measured")) is None'
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
        assert terminal.process.wait(timeout=300) == 0
        assert all(not Path(f"/proc/{number}").exists() for number in planned)
    finally:
        terminal.close()


@pytest.mark.pty
@pytest.mark.parametrize(
    "ending",
    [signal.SIGTERM, signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.thorough) for one in (signal.SIGHUP, signal.SIGABRT))],
    ids=lambda ending: ending.name,
)
def test_it_ends_however_the_screen_is_ended(tmp_path: Path, ending: signal.Signals) -> None:
    code = APP.format(root=str(ROOT), samples=str(ROOT / "tests" / "samples"), folder=str(tmp_path), options="")
    terminal = Terminal(["-c", code], os.environ)
    try:
        assert b"Cheapest that meets" in terminal.read(until=b"Cheapest that meets")
        (planner,) = {*(tmp_path / "planned").read_text().split()}
        assert runs(planner)
        terminal.process.send_signal(ending)
        if ending in {signal.SIGTERM, signal.SIGHUP}:
            assert b"\x1b[?1049l" in terminal.read(until=b"\x1b[?1049l")
        terminal.process.wait(timeout=300)
        assert ends(planner)
    finally:
        terminal.close()
