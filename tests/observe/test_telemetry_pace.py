"""How often the driver is asked, counted by the C stand-in: thinned while something is timed, and who uses a GPU only while asked for."""

from __future__ import annotations

import json
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
    control.devices(H100, A100)
    calls = tmp_path / "calls"
    code = """
import json, time
from planner.observe.telemetry.poller import Poller
seen, marks = [], []
poller = Poller(seen.append, interval_s=0.1, slow_interval_s=1.0)
poller.lists_processes = True
poller.start()
while len(seen) < 3:
    time.sleep(0.01)
for thin in (False, True, False):
    poller.thinned = thin
    marks.append((time.monotonic(), len(seen)))
    time.sleep(3.0)
    assert poller.pace_s == (1.0 if thin else 0.1)
    assert poller.stale_for_s() is None
marks.append((time.monotonic(), len(seen)))
assert poller.stop(5.0)
print(json.dumps({"marks": marks, "paces": [(one.taken_at_s, one.interval_s) for one in seen]}))
"""
    done = run_python(code, library, control, NVML_STUB_CALLS=str(calls))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (began, _), (thinned, _), (again, _), (ended, _) = told["marks"]
    every = calls_of(calls)

    def rate(since: float, until: float) -> float:
        return sum(since <= at < until for at, _ in every) / (until - since)

    before, during, after = rate(began, thinned), rate(thinned, again), rate(again, ended)
    assert during < before / 4, (before, during, after)  # ten readings a second against one with all of the slow tier
    assert after > during * 3, (before, during, after)
    settled = thinned + 0.5  # a reading may be under way
    assert not [name for at, name in every if settled < at < again and name in PROCESSES]
    assert sum(settled < at < again and name == "nvmlDeviceGetUtilizationRates" for at, name in every) <= 2 * (3.0 / 1.0 + 1)
    paces = {round(pace, 3) for at, pace in told["paces"] if settled < at < again}
    assert paces == {1.0}  # the rate in force stands in every snapshot
    assert {round(pace, 3) for at, pace in told["paces"] if at > again + 0.5 or at < thinned} == {0.1}
    first_again = min(at for at, _ in told["paces"] if at >= again)
    assert first_again - again < 0.9  # read at once, not at the end of the slow interval


def test_who_uses_a_gpu_is_asked_only_while_somebody_looks(library: Path, control: ControlFile, tmp_path: Path) -> None:
    control.devices(H100 | {"proc0.pid": 1, "proc0.memory": 2**30})
    calls = tmp_path / "calls"
    code = """
import time
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
time.sleep(2.5)
poller.lists_processes = False
until(lambda gpu: gpu.processes is None)
over = time.monotonic()
time.sleep(0.5)
assert poller.stop(5.0)
print(began, over)
"""
    done = run_python(code, library, control, NVML_STUB_CALLS=str(calls))
    assert done.returncode == 0, done.stderr
    began, over = map(float, done.stdout.split())
    asked = [at for at, name in calls_of(calls) if name == PROCESSES[0]]
    assert all(began <= at <= over for at in asked)
    assert 2 * 2 <= len(asked) <= 2 * 2 * (1 + (over - began) / 2.0)  # at once, then every two seconds; each takes two calls
    assert min(asked) - began < 0.9
