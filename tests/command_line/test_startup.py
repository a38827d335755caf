"""What a start sets for itself alone: one thread of numpy's, and no trace of it in the programs it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

from planner.startup import SCHED_SETATTR, SHORT_TURN_NS

NAME = "OPENBLAS_NUM_THREADS"
CODE = f"""
import os
from planner import startup
startup.prepare()
startup.prepare()
import numpy
from planner.observe.benchmark.worker import worker_environment
print(len(os.listdir("/proc/self/task")), os.environ.get("{NAME}"), worker_environment("cuda:0").get("{NAME}"))
"""


def said(**given: str) -> list[str]:
    """Threads after the import of numpy, and the variable here and in the environment of the benchmark."""
    environment = {name: value for name, value in os.environ.items() if name != NAME} | {"PYTHONPATH": str(ROOT)} | given
    return subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_numpy_starts_no_threads_and_the_benchmark_does_not_hear_of_it() -> None:
    assert said() == ["1", "1", "None"]


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_a_number_of_threads_that_was_given_stays() -> None:
    assert said(**{NAME: "2"})[1:] == ["2", "2"]


TURNS = """
import subprocess, sys, threading, time
from pathlib import Path
from planner.startup import take_short_turns

def turn(process, thread):
    lines = Path(f"/proc/{process}/task/{thread}/sched").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.startswith("se.slice"))

main = threading.get_native_id()
before = threading.Thread(target=time.sleep, args=(0.5,))
before.start()
usual = turn("self", main)
take_short_turns()
after = threading.Thread(target=time.sleep, args=(0.5,))
after.start()
with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
    print(usual, turn("self", main), turn("self", before.native_id), turn("self", after.native_id), turn(child.pid, child.pid))
    child.communicate(b" ")
"""


def grants_short_turns() -> bool:
    """Whether this is a Linux that lets a thread ask for a short turn and tells how long it is."""
    shown = Path("/proc/self/sched")
    if not shown.is_file() or "se.slice" not in shown.read_text():
        return False
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12) and os.uname().machine in SCHED_SETATTR


@pytest.mark.process
@pytest.mark.skipif(not grants_short_turns(), reason="needs Linux 6.12 or newer that shows /proc/self/sched")
def test_threads_there_are_take_short_turns_and_what_they_start_the_usual_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TURNS], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    usual, main, before, after, child = map(int, done.stdout.split())
    assert main == before == SHORT_TURN_NS < usual
    assert after == child == usual
