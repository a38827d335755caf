"""How often the driver is asked, counted by the C stand-in: thinned while something is timed, and who uses a GPU only while asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, run_python

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")

PROCESSES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")


def calls_of(path: Path) -> list[tuple[float, str]]:
    return [(float(at), name) for at, name, _ in (line.split() for line in path.read_text().splitlines())]


def test_while_something_is_timed_the_driver_is_left_alone_but_for_the_slow_tier(
    library: Path, control: ControlFile, tmp_path: Path
) -> None:
    """Judged by what each reading asks, and by the fewest seconds that so many may take: a busy machine is only later."""
    control.devices(H100, A100)
    calls = tmp_path / "calls"
    code = """
import json, time
from planner.observe.telemetry.poller import Poller
seen, marks = [], []
poller = Poller(seen.append, interval_s=0.1, slow_interval_s=1.0)
poller.lists_processes = True
poller.start()
def read(count, present_interval_s):
    while sum(one.interval_s == present_interval_s for one in seen[marks[-1][1] :]) < count:
        time.sleep(0.01)
for thin, count in ((False, 25), (True, 4), (False, 25)):
    marks.append((time.monotonic(), len(seen)))
    poller.thinned = thin
    present_interval_s = 1.0 if thin else 0.1
    assert poller.present_interval_s == present_interval_s
    read(count, present_interval_s)
marks.append((time.monotonic(), len(seen)))
assert poller.stop(60.0)
print(json.dumps({"marks": marks, "readings": [(one.taken_at_s, one.interval_s, one.collect_s) for one in seen]}))
"""
    done = run_python(code, library, control, NVML_STUB_CALLS=str(calls))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (_, first), (thinned, before), (_, after), (_, last) = told["marks"]
    readings, every = told["readings"], calls_of(calls)
    thin = [(at, at + took) for at, pace, took in readings if pace == 1.0]
    apart = len(thin) - 1
    assert apart >= 3
    assert thin[-1][0] - thinned > 0.9 * apart
    during = [name for at, name in every if thin[1][0] <= at <= thin[-1][1]]  # a reading may be under way when it is thinned
    assert not set(during) & set(PROCESSES)
    assert during.count("nvmlDeviceGetUtilizationRates") == 2 * apart
    asked = Counter(name for _, name in every)
    assert all(asked[name] for name in PROCESSES), "somebody looks, before and afterwards"
    assert {pace for _, pace, _ in readings[first:before]} == {0.1}
    paces = [pace for _, pace, _ in readings[after:last]]
    assert paces == sorted(paces, reverse=True), "the rate in force stands in every snapshot"


def test_a_reading_follows_at_once_when_nothing_is_timed_any_more(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    code = """
import time
from planner.observe.telemetry.poller import Poller
seen = []
poller = Poller(seen.append, interval_s=0.1, slow_interval_s=600.0)
poller.start()
def read(count):
    while len(seen) < count:
        time.sleep(0.01)
read(3)
poller.thinned = True
time.sleep(0.3)
assert poller.stale_for_s() is None
count = len(seen)
poller.thinned = False
read(count + 3)
assert poller.stop(60.0)
"""
    done = run_python(code, library, control)  # which has five minutes: half of the slow interval
    assert done.returncode == 0, done.stderr


def test_who_uses_a_gpu_is_asked_only_while_somebody_looks(library: Path, control: ControlFile, tmp_path: Path) -> None:
    control.devices(H100 | {"proc0.pid": 1, "proc0.memory": 2**30})
    calls = tmp_path / "calls"
    code = """
import os, time
from pathlib import Path
from planner.observe.telemetry.poller import Poller
seen = []
poller = Poller(seen.append, interval_s=0.1)
poller.start()
def until(told):
    while not (seen and told(seen[-1].devices[0])):
        time.sleep(0.01)
until(lambda gpu: gpu.sm_active_fraction is not None)
assert seen[-1].devices[0].processes is None and "processes" not in seen[-1].devices[0].reasons
began = time.monotonic()
poller.lists_processes = True
until(lambda gpu: gpu.processes is not None)
while Path(os.environ["NVML_STUB_CALLS"]).read_text().count("nvmlDeviceGetComputeRunningProcesses_v3") < 4:
    time.sleep(0.05)
poller.lists_processes = False
until(lambda gpu: gpu.processes is None)
over = time.monotonic()
time.sleep(0.5)
assert poller.stop(60.0)
print(began, over)
"""
    done = run_python(code, library, control, NVML_STUB_CALLS=str(calls))
    assert done.returncode == 0, done.stderr
    began, over = map(float, done.stdout.split())
    asked = [at for at, name in calls_of(calls) if name == PROCESSES[0]]
    assert all(began <= at <= over for at in asked)
    assert 2 * 2 <= len(asked) <= 2 * (2 + (over - began) / 1.9)  # then every two seconds at most; each takes two calls
