"""Whole runs: a real worker, a real store, and every way a run can end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench.protocol import Bye, Hello, Plan, Point, Result, encode
from planner.hardware.measurements.store import Store
from planner.observe.benchmark.events import (
    BenchRequest,
    Event,
    Failed,
    Finished,
    PointDone,
    PointStarted,
    Preparing,
    Started,
    WorkerRestarted,
)
from planner.observe.benchmark.interpreter import Interpreter, NoInterpreter, probe_interpreter
from planner.observe.benchmark.journal import RunLock, journal_path, recover_journals
from planner.observe.benchmark.process import BenchRun
from planner.observe.host import cpu_name


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


@pytest.fixture
def few_restarts(monkeypatch: pytest.MonkeyPatch) -> int:
    """One other worker takes over, no more: each takes seconds to load torch."""
    monkeypatch.setattr("planner.observe.benchmark.progress.MOST_RESTARTS", 1)
    return 1


def bench(tmp_path: Path, store: Store, **changes: object) -> BenchRun:
    """A run of the self-test; on a busy machine a worker may be silent for long while it loads torch."""
    request = BenchRequest(**{"state": tmp_path, "suite": "smoke", "device": "cpu", "silence_s": 60.0, **changes})  # type: ignore[arg-type]  # test helper
    return BenchRun(request, store)


async def listen(run: BenchRun, react: Callable[[Event], Awaitable[None]] | None = None) -> list[Event]:
    heard = []
    async with asyncio.timeout(300):
        async for event in run.events():
            heard.append(event)
            if react is not None:
                await react(event)
    return heard


def worker_pid(run: BenchRun) -> int:
    assert run._worker is not None
    return run._worker.pid


class Lateness:
    """By how much sleeps of 10 ms came late altogether: what other programs on this machine cost whoever waits for something."""

    def __init__(self) -> None:
        self._lost_s = 0.0
        self._sleeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._sleeping = asyncio.ensure_future(self._sleep())

    def seconds(self) -> float:
        assert self._sleeping is not None
        self._sleeping.cancel()
        return self._lost_s

    async def _sleep(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            self._lost_s += max(0.0, time.monotonic() - before - 0.015)


def gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.usefixtures("torch_here")
async def test_a_run_ends_in_the_store(tmp_path: Path, store: Store) -> None:
    run = bench(tmp_path, store)
    heard = await listen(run)
    assert isinstance(heard[0], Preparing)
    started = heard[1]
    assert isinstance(started, Started)
    done = [event for event in heard if isinstance(event, PointDone)]
    assert [event.point.id for event in done] == [point.id for point in started.points]
    last = heard[-1]
    assert isinstance(last, Finished)
    assert (last.state, last.kept) == ("finished", 3)
    again = Store.open(tmp_path)
    assert again.latest(cpu_name(), started.fingerprint, suite="smoke") == tuple(event.measurement for event in done)
    assert again.latest() == ()
    (kept,) = again.runs()
    assert (kept.id, kept.state, kept.measurements, kept.device) == (run.run, "finished", 3, cpu_name())
    gemm = done[0].measurement
    assert gemm.flop == 2 * 128**3
    assert gemm.samples >= 3
    assert gemm.low is not None
    assert gemm.value is not None
    assert gemm.high is not None
    assert 1e8 < gemm.low <= gemm.value <= gemm.high < 1e14
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [f"{run.run}.jsonl"]
    assert [event.measurement.telemetry for event in done] == [{"poll_hz": 0.0}] * 3


@pytest.mark.usefixtures("torch_here", "few_restarts")
async def test_workers_killed_again_and_again_leave_what_they_measured(tmp_path: Path, store: Store) -> None:
    run = bench(tmp_path, store, suite="quick")

    done = 0

    async def kill(event: Event) -> None:
        """The first worker once it has measured a point, the others as they begin theirs."""
        nonlocal done
        done += isinstance(event, PointDone)
        if done and isinstance(event, PointDone | PointStarted):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker_pid(run), signal.SIGKILL)

    heard = await listen(run, kill)
    last = heard[-1]
    assert isinstance(last, Failed)
    assert last.state == "worker-killed"
    assert "killed (signal 9)" in last.message
    assert f"{last.kept} results kept" in last.message
    kept = Store.open(tmp_path).all()
    assert len(kept) == last.kept
    assert sum(one.value is not None for one in kept) >= 1
    assert store.runs()[0].state == "failed"


@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize("when", [Preparing, PointStarted])
async def test_stop_ends_within_a_second(tmp_path: Path, store: Store, when: type[Event]) -> None:
    run = bench(tmp_path, store, suite="quick")
    asked = 0.0
    stops: list[asyncio.Future[None]] = []
    late = Lateness()

    async def stop(event: Event) -> None:
        nonlocal asked
        if isinstance(event, when) and not stops:
            late.begin()
            asked = time.monotonic()
            stops.append(asyncio.ensure_future(run.stop()))
            await asyncio.sleep(0)

    heard = await listen(run, stop)
    took = time.monotonic() - asked
    assert took - 2 * late.seconds() < 1.0, (took, late.seconds())
    await stops[0]
    last = heard[-1]
    assert isinstance(last, Finished)
    assert last.state == "cancelled"
    assert gone(worker_pid(run))


@pytest.mark.process
async def test_stop_before_the_start_is_heard(tmp_path: Path, store: Store) -> None:
    run = bench(tmp_path, store)
    await run.stop()
    (last,) = await listen(run)
    assert isinstance(last, Finished)
    assert last.state == "cancelled"


@pytest.mark.usefixtures("torch_here")
async def test_cancelling_the_task_kills_the_worker(tmp_path: Path, store: Store) -> None:
    run = bench(tmp_path, store, suite="quick")
    ready = asyncio.Event()

    async def note(event: Event) -> None:
        if isinstance(event, PointStarted):
            ready.set()

    task = asyncio.ensure_future(listen(run, note))
    await asyncio.wait_for(ready.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if gone(worker_pid(run)):
            break
        await asyncio.sleep(0.01)
    assert gone(worker_pid(run))


@pytest.mark.usefixtures("torch_here")
async def test_a_silent_worker_is_hung(tmp_path: Path, store: Store, few_restarts: int) -> None:
    run = bench(tmp_path, store, suite="quick", silence_s=1.5)

    async def freeze(event: Event) -> None:
        if isinstance(event, PointStarted):
            os.kill(worker_pid(run), signal.SIGSTOP)

    heard = await listen(run, freeze)
    assert sum(isinstance(event, WorkerRestarted) for event in heard) == few_restarts
    last = heard[-1]
    assert isinstance(last, Failed)
    assert last.state == "hung"
    assert "no sign of life" in last.message
    assert gone(worker_pid(run))


@pytest.mark.usefixtures("torch_here")
async def test_a_measurement_says_at_which_rate_the_program_polled(tmp_path: Path, store: Store) -> None:
    began = time.monotonic()
    heard = await listen(bench(tmp_path, store, polls=lambda: int(200 * (time.monotonic() - began))))
    rates = [event.measurement.telemetry["poll_hz"] for event in heard if isinstance(event, PointDone)]
    assert rates == pytest.approx([200] * 3, rel=0.3)


@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(("changes", "state"), [({"device": "cuda:99"}, "no-device"), ({"suite": "grand"}, "no-suite")])
async def test_a_wish_that_cannot_be_met_has_its_own_end(tmp_path: Path, store: Store, changes: dict[str, str], state: str) -> None:
    last = (await listen(bench(tmp_path, store, **changes)))[-1]
    assert isinstance(last, Failed)
    assert (last.state, last.kept) == (state, 0)
    assert last.next_step.startswith("Choose")


async def test_an_interpreter_that_is_not_there_has_its_own_end(tmp_path: Path, store: Store) -> None:
    (last,) = await listen(bench(tmp_path, store, python=tmp_path / "nowhere" / "python"))
    assert isinstance(last, Failed)
    assert last.state == "no-interpreter"
    assert "There is no" in last.message
    assert "--python" in last.next_step
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def bare_venv(tmp_path: Path) -> Path:
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.mark.process
async def test_an_interpreter_without_torch_has_its_own_end(tmp_path: Path, store: Store, bare_venv: Path) -> None:
    (last,) = await listen(bench(tmp_path, store, python=bare_venv))
    assert isinstance(last, Failed)
    assert last.state == "no-torch"
    assert "gpu-planner[bench]" in last.next_step


@pytest.mark.process
async def test_a_torch_that_does_not_load_is_told(tmp_path: Path, store: Store, bare_venv: Path) -> None:
    (site,) = (bare_venv / "lib").glob("python*/site-packages")
    (site / "torch.py").write_text("raise ImportError('libcudart.so.99: cannot open shared object file')")
    heard = await listen(bench(tmp_path, store, python=bare_venv / "bin" / "python"))
    last = heard[-1]
    assert isinstance(last, Failed)
    assert last.state == "no-torch"
    assert "libcudart.so.99" in last.message


@pytest.mark.process
async def test_a_crash_brings_its_last_words_and_sees_nothing_of_ours(tmp_path: Path, store: Store, bare_venv: Path) -> None:
    (site,) = (bare_venv / "lib").glob("python*/site-packages")
    (site / "torch.py").write_text(
        "import importlib.util, os, sys\n"
        "print('msgspec', importlib.util.find_spec('msgspec'), file=sys.stderr)\n"
        "print('policy', os.environ['OMP_WAIT_POLICY'], os.environ['MALLOC_MMAP_MAX_'], file=sys.stderr)\n"
        "os._exit(7)\n"
    )
    last = (await listen(bench(tmp_path, store, python=bare_venv)))[-1]
    assert isinstance(last, Failed)
    assert last.state == "crashed"
    assert "exit status 7" in last.message
    assert last.stderr == ("msgspec None", "policy PASSIVE 0")


@pytest.mark.process
def test_interpreters_are_judged_by_looking(tmp_path: Path) -> None:
    def state(path: Path) -> str:
        found = probe_interpreter(path)
        assert isinstance(found, NoInterpreter), found
        assert found.next_step
        return found.state

    text = tmp_path / "text"
    text.write_text("no program")
    assert state(text) == "no-interpreter"
    text.chmod(0o755)
    assert state(text) == "no-interpreter"
    assert state(Path("/bin/ls")) == "not-python"
    assert state(tmp_path) == "no-interpreter"
    assert state(Path("python-that-is-nowhere")) == "no-interpreter"
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 0\n")
    silent.chmod(0o755)
    assert state(silent) == "not-python"
    (tmp_path / "torch").mkdir()
    here = probe_interpreter(None)
    assert isinstance(here, (Interpreter, NoInterpreter))


async def test_a_second_run_waits_its_turn(tmp_path: Path, store: Store, torch_here: None) -> None:
    lock = RunLock(tmp_path)
    assert lock.take()
    lock.note(4321)
    try:
        last = (await listen(bench(tmp_path, store)))[-1]
    finally:
        lock.drop()
    assert isinstance(last, Failed)
    assert last.state == "busy"
    assert "4321" in last.message


def test_what_a_cut_off_planner_left_is_adopted(tmp_path: Path, store: Store) -> None:
    point = Point(id="gemm/fp32/1x1x1", kind="gemm", label="", device="cuda:0", expected_s=1, cap_s=1)
    hello = Hello(
        schema=1, method=1, pid=1, device="cuda:0", device_name="NVIDIA X", machine={"device": "x"}, software={}, environment={}
    )
    result = Result(
        point=point.id,
        kind="gemm",
        dtype="fp32",
        parameters={},
        value=1.0,
        low=1.0,
        high=1.0,
        unit="FLOP/s",
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
    )
    newer = Result(point="q", kind="hologram", dtype=None, parameters={}, value=1.0, low=1.0, high=1.0, unit="", status="ok")
    journal = journal_path(tmp_path, "20260101T000000Z-abcdef")
    messages = (hello, Plan(suite="quick", points=(point,)), result, newer, Bye(reason="finished"))
    journal.write_bytes(b"".join(encode(message) for message in messages) + b'{"type":"resu')
    assert recover_journals(tmp_path, store, {"NVIDIA X": "X 80GB"}.get) == 1
    (found,) = store.latest("X 80GB")
    assert (found.point, found.run, found.suite) == (point.id, "20260101T000000Z-abcdef", "quick")
    assert store.runs()[0].started_at == "2026-01-01T00:00:00Z"
    assert recover_journals(tmp_path, store) == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["20260101T000000Z-abcdef.jsonl"]


@pytest.mark.usefixtures("torch_here")
def test_a_worker_outlives_a_planner_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from planner.hardware.measurements.store import Store\n"
        "from planner.observe.benchmark.events import BenchRequest\n"
        "from planner.observe.benchmark.process import BenchRun\n"
        "async def main():\n"
        "    state = pathlib.Path(sys.argv[1])\n"
        "    run = BenchRun(BenchRequest(state=state, suite='smoke', device='cpu'), Store.open(state))\n"
        "    async for event in run.events():\n"
        "        print(type(event).__name__, flush=True)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as planner:
        assert planner.stdout is not None
        for line in planner.stdout:
            if line.strip() == "PointStarted":
                planner.kill()
                break
    store = Store.open(tmp_path)
    deadline = time.monotonic() + 60
    while recover_journals(tmp_path, store) == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(store) == 3
