"""Workers that break on a point, with real processes: the point is marked, another worker goes on, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from patched_python import patched_python
from repository import RunPlanner

from bench.protocol import Hello, Plan, Point, Result, Skip, Start, encode
from planner.hardware.measurements.store import Store
from planner.observe.benchmark.events import (
    BenchRequest,
    Event,
    Failed,
    Finished,
    PointDone,
    PointSkipped,
    PointStarted,
    Started,
    WorkerRestarted,
)
from planner.observe.benchmark.journal import journal_path, recover_journals
from planner.observe.benchmark.process import BenchRun
from planner.observe.benchmark.progress import LOADING_S, MOST_RESTARTS, RunProgress, how_ended


@pytest.fixture
def python_with(tmp_path: Path, torch_here: None) -> Callable[[str, str], Path]:
    """An interpreter with this one's packages in which `body` is executed in `module` of the benchmark once that is loaded."""
    return lambda module, body: patched_python(tmp_path / "patched", module, body)


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


def not_too_busy(heard: list[Event]) -> None:
    """Skip where others have the cores: a point is then left out because a call of it would take longer than it may."""
    slow = [event.reason for event in heard if isinstance(event, PointSkipped) and "too slow here" in event.reason]
    if slow:
        pytest.skip(f"the machine is too busy: {slow[0]}")


def of_kind(heard: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in heard if isinstance(event, kind)]


KILLED = "import os, signal\ndef measure_copy(*_): os.kill(os.getpid(), signal.SIGKILL)"
BREAKS = {
    "sticky": "illegal memory access",
    "killed": "the worker was killed (signal 9)",
    "segmentation": "the worker crashed (signal 11, SIGSEGV)",
    "exited": "the worker crashed (exit status 9)",
}
"""Ways to break a worker, and what is said of each."""
BREAKING = """
import ctypes, os, signal
def sticky(_): raise RuntimeError("CUDA error: an illegal memory access was encountered")
def killed(_): os.kill(os.getpid(), signal.SIGKILL)
def segmentation(_): ctypes.string_at(0)
def exited(_): os._exit(9)
def jobs(suite, device, options):
    found = []
    for size, way in enumerate((sticky, killed, segmentation, exited), start=1):
        job = make.copy(device, 2**22, cap_s=0.2)
        broken = replace(job, point=replace(job.point, id=f"copy/{way.__name__}", label=f"copy {way.__name__}"), run=way)
        found += [make.gemm(device, "fp32", 64 * size, 64, 64, cap_s=0.2), broken]
    return [*found, make.train(device, SMOKE_SHAPE, "fp32", 2, 32, cap_s=0.2)]
"""


async def test_a_point_that_breaks_its_worker_is_marked_and_the_next_one_is_measured(
    tmp_path: Path, python_with: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way in one run, which may start as many workers."""
    monkeypatch.setattr("planner.observe.benchmark.progress.MOST_RESTARTS", len(BREAKS))
    store = Store.open(tmp_path)
    heard = await listen(bench(tmp_path, store, python=python_with("bench.suite", BREAKING)))
    not_too_busy(heard)
    last = heard[-1]
    assert isinstance(last, Finished), last
    assert (last.state, last.kept) == ("finished", 9)
    assert "the worker was started again 4 times" in last.message
    assert len(of_kind(heard, Started)) == 1
    for number, (event, (way, said)) in enumerate(zip(of_kind(heard, WorkerRestarted), BREAKS.items(), strict=True), start=1):
        assert isinstance(event, WorkerRestarted)
        assert (event.number, event.most) == (number, len(BREAKS))
        assert said in event.reason
        assert f"during copy {way}" in event.reason
    tried = Counter(event.point.id for event in heard if isinstance(event, PointStarted))
    assert len(tried) == 9
    assert set(tried.values()) == {1}
    found = {one.point: one for one in store.all()}
    for way, said in BREAKS.items():
        broken = found.pop(f"copy/{way}")
        assert (broken.status, broken.value) == ("error", None)
        assert said in broken.detail
    assert sorted(one.kind for one in found.values() if one.value is not None) == ["gemm"] * 4 + ["train"]
    assert [run.state for run in store.runs()] == ["finished"]
    assert [path.name.count(".part") for path in (tmp_path / "runs").iterdir()] == [0]


async def test_a_worker_that_is_frozen_is_ended_and_the_next_point_is_measured(
    tmp_path: Path, python_with: Callable[[str, str], Path]
) -> None:
    frozen = "import os, signal\ndef measure_copy(*_): os.kill(os.getpid(), signal.SIGSTOP)"
    store = Store.open(tmp_path)
    heard = await listen(bench(tmp_path, store, python=python_with("bench.kinds.bandwidth", frozen), silence_s=5.0))
    not_too_busy(heard)
    assert isinstance(heard[-1], Finished)
    (copied,) = (one for one in store.all() if one.kind == "copy")
    assert (copied.status, copied.value) == ("error", None)
    assert copied.detail == "the worker hung (stopped by a signal from outside) and was killed"
    assert {one.kind for one in store.all() if one.value is not None} == {"gemm", "train"}


STUCK = "def measure_copy(*_): sum(range(10**12))"
"""In a library, with Python's lock held: no thread of the worker does anything, nor any handler of a signal."""


async def test_a_worker_stuck_in_a_library_is_stopped_by_the_kernel(
    tmp_path: Path, python_with: Callable[[str, str], Path]
) -> None:
    run = bench(tmp_path, Store.open(tmp_path), python=python_with("bench.kinds.bandwidth", STUCK))
    pids, began_s = list[int](), 0.0

    async def stop(event: Event) -> None:
        nonlocal began_s
        if isinstance(event, PointStarted) and event.point.kind == "copy":
            assert run._worker is not None
            pids.append(run._worker.pid)
            await asyncio.sleep(0.3)  # it is in the library by now
            began_s = time.monotonic()
            await run.stop()

    heard = await listen(run, stop)
    assert time.monotonic() - began_s < 10
    assert isinstance(heard[-1], Finished)
    assert heard[-1].state == "cancelled"
    assert run._worker is not None
    assert run._worker.status == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.usefixtures("torch_here")
async def test_a_worker_stopped_while_torch_loads_is_not_waited_for(tmp_path: Path) -> None:
    """Torch may take two minutes to load; a worker that a signal has stopped takes for ever."""
    run = bench(tmp_path, Store.open(tmp_path), restarts=False)
    frozen = list[float]()

    async def freeze() -> None:
        for _ in range(6000):
            if run._worker is not None:
                break
            await asyncio.sleep(0.01)
        assert run._worker is not None
        os.kill(run._worker.pid, signal.SIGSTOP)
        frozen.append(time.monotonic())

    freezing = asyncio.ensure_future(freeze())
    heard = await listen(run)
    await freezing
    assert time.monotonic() - frozen[0] < LOADING_S / 4
    assert isinstance(heard[-1], Failed)
    assert "stopped by a signal from outside" in heard[-1].message


@pytest.mark.usefixtures("torch_here")
async def test_a_run_whose_workers_keep_dying_ends_with_what_they_measured(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = bench(tmp_path, store, suite="quick")

    async def kill(event: Event) -> None:
        if isinstance(event, PointStarted):
            assert run._worker is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(run._worker.pid, signal.SIGSEGV)

    heard = await listen(run, kill)
    last = heard[-1]
    assert isinstance(last, Failed)
    assert last.state == "crashed"
    assert "the worker was started again 3 times" in last.message
    assert [event.number for event in heard if isinstance(event, WorkerRestarted)] == [1, 2, 3]
    tried = Counter(event.point.id for event in heard if isinstance(event, PointStarted))
    assert max(tried.values()) == 1
    marked = [one for one in store.all() if one.status == "error"]
    assert len(marked) == MOST_RESTARTS + 1
    assert len({one.point for one in store.all()}) == len(store) == last.kept
    assert store.runs()[0].state == "failed"


@pytest.mark.usefixtures("torch_here")
async def test_what_does_not_fit_is_marked_without_another_worker(tmp_path: Path) -> None:
    """A product whose result takes 20 GB under a limit of 12 GB of address space: torch's own allocator refuses it."""
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -v 12000000\nexec {sys.executable} "$@"\n')
    limited.chmod(limited.stat().st_mode | stat.S_IXUSR)
    large, small = "gemm/bf16/100000x100000x16", "gemm/bf16/160x96x32"
    skipped = tuple(quick_points())
    store = Store.open(tmp_path)
    heard = await listen(
        bench(
            tmp_path,
            store,
            suite="quick",
            python=limited,
            options=("--shapes", "100000x100000x16", "160x96x32"),
            skip=skipped,
        )
    )
    last = heard[-1]
    assert isinstance(last, Finished), last
    assert not of_kind(heard, WorkerRestarted)
    found = {one.point: one for one in store.all()}
    assert (found[large].status, found[large].value) == ("oom", None)
    assert "allocate memory" in found[large].detail
    assert found[small].value is not None


def quick_points() -> list[str]:
    """Ids of the quick suite on a CPU, as far as this file needs them left out."""
    from bench.machine.environment import find_device
    from bench.suite import jobs

    return [job.point.id for job in jobs("quick", find_device("cpu"))]


async def test_rounds_before_a_break_count_with_those_after(tmp_path: Path, python_with: Callable[[str, str], Path]) -> None:
    """Three rounds of a product, the worker dying between the first and the second: one result of three rounds."""
    body = """
from dataclasses import replace
def jobs(suite, device, options):
    first = make.gemm(device, "fp32", 128, 128, 128, cap_s=0.2)
    broken = make.copy(device, 2**22, cap_s=0.2)
    def die(bench):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return [first, replace(broken, run=die), first, replace(broken, run=die), first, make.train(device, SMOKE_SHAPE, "fp32", 2, 32, cap_s=0.2)]
"""
    store = Store.open(tmp_path)
    heard = await listen(bench(tmp_path, store, python=python_with("bench.suite", body)))
    not_too_busy(heard)
    assert isinstance(heard[-1], Finished), heard[-1]
    assert len(of_kind(heard, WorkerRestarted)) == 1
    found = {one.kind: one for one in store.all()}
    assert {kind: (one.value is not None, one.rounds) for kind, one in found.items()} == {
        "gemm": (True, 3),
        "copy": (False, 1),
        "train": (True, 1),
    }
    tried = Counter(event.point.kind for event in heard if isinstance(event, PointStarted))
    assert tried == {"gemm": 3, "copy": 1, "train": 1}
    (whole,) = (event for event in heard if isinstance(event, PointDone) and event.point.kind == "gemm")
    assert whole.measurement.rounds == 3
    texts = [json.loads(line) for line in next((tmp_path / "runs").iterdir()).read_bytes().splitlines()]
    told = [text for text in texts if text["type"] == "result" and text["kind"] == "gemm"]
    assert [(text["round"], text["rounds"]) for text in told] == [(1, 3), (2, 3), (3, 3)]
    assert found["gemm"].samples == len(told[-1]["samples_s"])
    counts = [len(text["samples_s"]) for text in told]
    assert counts == sorted(counts)  # a round that others disturbed adds none


def test_the_command_says_which_point_broke_and_goes_on(
    planner_process: RunPlanner, python_with: Callable[[str, str], Path]
) -> None:
    python = python_with("bench.kinds.bandwidth", KILLED)
    done = planner_process("bench", "--suite", "smoke", "--device", "cpu", "--python", str(python), "--json", timeout_s=300)
    assert done.returncode == 0, done.stderr
    found = {one["kind"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert {kind: one["status"] in {"ok", "noisy", "unstable", "shared"} for kind, one in found.items()} == {
        "gemm": True,
        "copy": False,
        "train": True,
    }
    assert (found["copy"]["status"], found["copy"]["value"]) == ("error", None)
    assert "worker started again (1 of 3): the worker was killed (signal 9) during copy" in done.stderr


POINTS = tuple(Point(id=name, kind="gemm", label=name, device="cpu", expected_s=1, cap_s=1) for name in "abcd")


def result(point: str, **changes: object) -> Result:
    told = {
        "value": 1.0,
        "low": 1.0,
        "high": 1.0,
        "unit": "FLOP/s",
        "status": "ok",
        "dtype": None,
        "parameters": {},
        "taken_at": "2026-01-01",
        **changes,
    }
    return Result(point=point, kind="gemm", **told)  # type: ignore[arg-type]  # test helper


def test_the_next_worker_is_told_where_the_run_stands() -> None:
    progress = RunProgress()
    assert progress.arguments(5.0) == []
    progress.follow(Plan(suite="quick", points=POINTS))
    assert not progress.may_restart
    for message in (Start(point="a"), result("a", round=1, rounds=2), Start(point="b"), result("b", value=None, status="oom")):
        progress.follow(message)
    progress.follow(Skip(point="c", reason="too slow"))
    progress.follow(Start(point="d"))
    assert progress.open_point is not None
    assert (progress.open_point.id, progress.may_restart, progress.through) == ("d", True, False)
    progress.follow(result("d", value=None, status="error"))
    progress.restart()
    assert not progress.may_restart
    assert progress.arguments(61.25) == [
        *("--elapsed-s", "61.2"),
        *("--done", "a"),
        *("--never", "b", "c", "d"),
        *("--too-large", "b"),
    ]
    assert list(progress.lasting) == ["a"]
    progress.follow(Start(point="a"))
    progress.follow(result("a", round=2, rounds=2))
    assert progress.through
    assert not progress.lasting


def test_an_end_has_a_name() -> None:
    assert how_ended(-9) == ("worker-killed", "the worker was killed (signal 9)")
    assert how_ended(-7) == ("crashed", "the worker crashed (signal 7, SIGBUS)")
    assert how_ended(3) == ("crashed", "the worker crashed (exit status 3)")


def test_a_point_open_at_the_end_of_a_journal_is_marked(tmp_path: Path) -> None:
    hello = Hello(schema=1, method=1, pid=1, device="cuda:0", device_name="X", machine={}, software={}, environment={})
    messages = (hello, Plan(suite="quick", points=POINTS), Start(point="a"), result("a"), Start(point="b"))
    journal_path(tmp_path, "20260101T000000Z-abcdef").write_bytes(b"".join(encode(message) for message in messages))
    store = Store.open(tmp_path)
    assert recover_journals(tmp_path, store) == 2
    assert {one.point: one.status for one in store.all()} == {"a": "ok", "b": "error"}
    assert "no planner left" in next(one.detail for one in store.all() if one.point == "b")


@pytest.mark.usefixtures("torch_here")
@pytest.mark.parametrize(
    ("failed", "trouble", "kept_bytes", "name"),
    [
        (False, "CUDA error: unspecified launch failure", 2**30, None),
        (True, "", 2**20, None),
        (True, "CUDA error: unspecified launch failure", 0, "BrokenContext"),
        (True, "", 2**30, "MemoryKept"),
    ],
)
def test_a_gpu_that_does_not_recover_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch, failed: bool, trouble: str, kept_bytes: int, name: str | None
) -> None:
    """After a point that failed: the context is asked, and what the point held has to be free again."""
    from types import SimpleNamespace
    from typing import cast

    from bench import worker
    from bench.machine import cuda
    from bench.points import Bench

    released: list[str] = []
    monkeypatch.setattr(cuda, "trouble", lambda _device: trouble)
    monkeypatch.setattr(cuda, "release", released.append)
    monkeypatch.setattr(cuda, "allocated_bytes", lambda _device: float(2**28 + kept_bytes))
    here = cast("Bench", SimpleNamespace(device=SimpleNamespace(is_cpu=False, torch_name="cuda:0")))
    found = worker._release(here, POINTS[0], failed=failed, held_bytes=float(2**28))
    assert (found.name if found else None) == name
    assert found is None or found.retryable
    assert released == ([] if name == "BrokenContext" else ["cuda:0"])
