"""The quick suite on this machine's CPU: within its time, beside a screen that stays alive, and honest when it is disturbed.

A machine shared with other work cannot show that two quiet runs agree; the tests then say so instead of failing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from measuring_sample import MeasuredSession, needs_torch, opened
from repository import RunPlanner
from tui_sample import sample_options

from bench.machine.cpu import visible_cores
from bench.protocol import Point
from widgets.app import PlannerApp

TICK_S, LATE_S = 0.05, 0.06
AGREES = 0.10
BESIDE = 0.20
COMPILER = shutil.which("cc")
QUIET_ROUNDS, MOST_ROUNDS = 3, 12
pytestmark = needs_torch


@pytest.fixture(autouse=True)
def all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark as people start it, with a thread on each core."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def points(planner_process: RunPlanner, *arguments: str) -> dict[str, dict[str, object]]:
    """What one run of the quick suite measured, by point."""
    done = planner_process("bench", "--suite", "quick", "--device", "cpu", "--json", *arguments, timeout_s=300)
    assert done.returncode == 0, done.stderr
    return {one["point"]: one for one in map(json.loads, done.stdout.splitlines())}


@pytest.fixture
def hogs() -> Iterator[None]:
    """Two programs a core that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * visible_cores())]
    yield
    for one in busy:
        one.kill()
        one.wait()


def waited_for_a_core_s() -> float:
    """Seconds the threads of this process were ready to run while other programs had the cores, and what a hypervisor took."""
    waited = 0.0
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            waited += int((thread / "schedstat").read_text().split()[1]) / 1e9
    stolen = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    return waited + stolen / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ticked:
    """How late a 50 ms tick of the event loop was while the quick suite ran, seconds."""

    late: list[float]
    ours: list[float]
    """Seconds of the measurement that no other program is to blame for."""
    took_s: float

    @property
    def allowed_s(self) -> float:
        """Beside a crowd twice as much: waiting in turn for a lock whose holder waits for a core is counted once only."""
        crowded = sum(self.late) - sum(self.ours) > 0.05 * self.took_s
        return 2 * LATE_S if crowded else LATE_S

    def __str__(self) -> str:
        usual = sorted(self.late)[int(0.99 * len(self.late))]
        worst = f"{max(self.late) * 1e3:.0f} ms, of which {max(self.ours) * 1e3:.0f} ms its own"
        return f"{len(self.late)} ticks, 99 % within {usual * 1e3:.0f} ms late, the worst {worst}; {self.took_s:.1f} s"


async def ticked(folder: Path) -> Ticked:
    """The quick suite beside the screen."""
    from typing import cast

    options = sample_options(folder, open_session=lambda: cast("Any", MeasuredSession(folder)), suite="quick")
    app = PlannerApp(options)
    late: list[float] = []
    ours: list[float] = []
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("b")
        begun = time.monotonic()
        while app.benchmark is None or app.benchmark.run.state in {"idle", "running"}:
            before, waited = time.perf_counter(), waited_for_a_core_s()
            await asyncio.sleep(TICK_S)
            late.append(time.perf_counter() - before - TICK_S)
            ours.append(late[-1] - (waited_for_a_core_s() - waited))
            assert time.monotonic() - begun < 90
        took_s = time.monotonic() - begun
        run = app.benchmark.run
        assert run.state == "finished", run.message
    return Ticked(late, ours, took_s)


async def test_the_screen_ticks_while_the_quick_suite_runs_within_its_minute(tmp_path: Path) -> None:
    tries: list[Ticked] = []
    while len(tries) < 2 and not any(max(one.ours) < one.allowed_s for one in tries):
        folder = tmp_path / str(len(tries))
        folder.mkdir()
        tries.append(await ticked(folder))
    told = " · ".join(map(str, tries))
    print(told)  # noqa: T201  # seen with -s
    assert min(one.took_s for one in tries) < 60
    assert any(max(one.ours) < one.allowed_s for one in tries), told


def apart(planner_process: RunPlanner) -> list[float]:
    """|ln(one ÷ other)| of the points that two runs in a row were left alone with; skips where that is less than half."""
    first, second = points(planner_process, "--cap", "10"), points(planner_process, "--cap", "10")
    solid = [name for name in first if name in second and {first[name]["status"], second[name]["status"]} <= {"ok", "noisy"}]
    if len(solid) < len(first) / 2:
        pytest.skip(f"not a quiet machine: {len(solid)} of {len(first)} points were left alone")
    return [abs(math.log(float(str(first[name]["value"])) / float(str(second[name]["value"])))) for name in solid]


def agree(found: list[float]) -> bool:
    return median(found) < AGREES and sum(one < AGREES for one in found) >= 0.7 * len(found)


@pytest.mark.alone
def test_two_quiet_runs_agree(planner_process: RunPlanner) -> None:
    found = apart(planner_process)
    if not agree(found):  # a machine that is shared with others may change its pace between two runs
        found = apart(planner_process)
    assert agree(found), found


@pytest.fixture
def stream_triad(tmp_path: Path) -> Path:
    """The triad of STREAM in C, compiled for this machine."""
    if COMPILER is None:
        pytest.skip("needs a C compiler")
    program = tmp_path / "stream_triad"
    source = Path(__file__).with_name("stream_triad.c")
    command = [COMPILER, "-O3", "-march=native", "-fopenmp", str(source), "-o", str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        pytest.skip(f"needs a C compiler with OpenMP: {done.stderr.strip()}")
    return program


@pytest.fixture
def torch_threads() -> Iterator[int]:
    """A thread of torch on each core, whatever the tests before it set."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(visible_cores())
    yield visible_cores()
    torch.set_num_threads(before)


def stream_bytes_per_s(program: Path, total_bytes: int) -> list[float]:
    """Bytes per second of each of five rounds over three arrays of `total_bytes` together."""
    done = subprocess.run([program, str(total_bytes // 12), "5"], capture_output=True, text=True, check=True, timeout=300)
    return [float(line) for line in done.stdout.split()]


@pytest.mark.alone
def test_the_bandwidth_is_that_of_a_triad_in_c_beside_it(torch_here: None, torch_threads: int, stream_triad: Path) -> None:
    """In turns, so that what others do to the machine meanwhile is done to both."""
    from bench.kinds import bandwidth
    from bench.machine.environment import find_device
    from bench.points import Bench, timer_for

    device = find_device("cpu")
    total = bandwidth.working_set_bytes(device)
    here = Bench(device, timer_for(device), lambda: False, lambda _fraction, _note: None)
    point = Point(id="triad/memory", kind="triad", label="triad", device="cpu", expected_s=0.5, cap_s=0.4)
    found: list[tuple[float, str]] = []
    while len(found) < MOST_ROUNDS and sum(status in {"ok", "noisy"} for _, status in found) < QUIET_ROUNDS:
        before = stream_bytes_per_s(stream_triad, total)
        ours = bandwidth.measure_triad(here, point, total)
        after = stream_bytes_per_s(stream_triad, total)
        assert ours.value is not None
        found.append((ours.value / median(before + after), ours.status))
    told = ", ".join(f"{ratio:.2f} {status}" for ratio, status in found)
    print(f"{torch_threads} threads, {total / 2**20:.0f} MiB, torch's over C's: {told}")  # noqa: T201  # seen with -s
    quiet = [ratio for ratio, status in found if status in {"ok", "noisy"}]
    if len(quiet) < QUIET_ROUNDS:
        pytest.skip(f"not a quiet machine: {told}")
    assert median(quiet) == pytest.approx(1.0, abs=BESIDE), told


@pytest.mark.usefixtures("hogs")
@pytest.mark.alone
def test_a_run_beside_programs_that_never_rest_is_flagged(planner_process: RunPlanner) -> None:
    found = points(planner_process, "--cap", "15").values()
    whole = [one for one in found if one["status"] != "unsupported" and one["kind"] != "launch"]
    flagged = [one for one in whole if one["status"] not in {"ok", "noisy"}]
    assert len(flagged) >= 0.8 * len(whole), [(one["point"], one["status"]) for one in whole]
    assert any("other programs held the cores" in str(one["detail"]) for one in flagged)
