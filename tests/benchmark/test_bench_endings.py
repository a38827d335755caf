"""Every way a benchmark can be cut off, with real processes: nothing already measured is lost, and each end has a name."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from measurement_sample import measurement
from repository import ROOT, RunPlanner

from bench import protocol
from bench.protocol import Bye, Hello, Plan, Point, Result, encode
from planner.hardware.measurements.store import Store
from planner.observe.benchmark.events import BenchRequest, Event, Finished, PointDone
from planner.observe.benchmark.journal import journal_path, recover_journals
from planner.observe.benchmark.process import BenchRun

pytestmark = pytest.mark.usefixtures("torch_here")
BENCH = Path(protocol.__file__).parent


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte; skipped where none may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def benchmark(state: Path, *arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "planner", "--state", str(state), "bench", "--device", "cpu", *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, **options)  # type: ignore[call-overload, no-any-return]  # passed on


def wait_for(state: Path, most_s: float = 60) -> None:
    """Until the store holds a measurement."""
    until = time.monotonic() + most_s
    path = state / "measurements.jsonl"
    while time.monotonic() < until:
        if path.exists() and len(Store.open(state)):
            return
        time.sleep(0.05)
    raise AssertionError("nothing was measured")


def results_in(state: Path) -> int:
    """Results that workers of this state folder have written so far."""
    return sum(path.read_bytes().count(b'"type":"result"') for path in (state / "runs").glob("*.jsonl"))


def goes_on(state: Path, most_s: float = 60) -> bool:
    """True if the worker that was noted, without a planner, measures another point; it is asked to end then, and does."""
    until, before = time.monotonic() + most_s, results_in(state)
    while results_in(state) == before:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((state / "bench.lock").read_text()), signal.SIGTERM)
    return all_gone(state)


def all_gone(state: Path, most_s: float = 30) -> bool:
    """True if the worker that was noted has ended."""
    until = time.monotonic() + most_s
    with contextlib.suppress(OSError, ValueError):
        pid = int((state / "bench.lock").read_text())
        while time.monotonic() < until:
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
    return False


async def test_a_worker_asked_to_end_by_a_signal_ends_as_cancelled(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    run = BenchRun(BenchRequest(state=tmp_path, suite="quick", device="cpu"), store)
    last: Event | None = None
    async with asyncio.timeout(300):
        async for event in run.events():
            last = event
            if isinstance(event, PointDone):
                assert run._worker is not None
                with contextlib.suppress(ProcessLookupError):
                    os.kill(run._worker.pid, signal.SIGTERM)
    assert isinstance(last, Finished)
    assert last.state == "cancelled"
    assert 1 <= last.kept == len(store)
    assert store.runs()[0].state == "cancelled"


def test_a_planner_asked_to_end_by_a_signal_takes_its_worker_along(tmp_path: Path) -> None:
    planner = benchmark(tmp_path, "--suite", "quick", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path)
    planner.send_signal(signal.SIGTERM)
    _, said = planner.communicate(timeout=300)
    assert planner.returncode == 143
    assert "Cancelled: " in said
    assert all_gone(tmp_path)
    assert len(Store.open(tmp_path)) >= 1


def test_a_planner_killed_leaves_a_worker_that_goes_on_and_what_it_did(tmp_path: Path) -> None:
    planner = benchmark(tmp_path, "--suite", "quick", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(tmp_path)
    before = len(Store.open(tmp_path))
    planner.kill()
    planner.wait()
    assert goes_on(tmp_path)
    store = Store.open(tmp_path)
    recover_journals(tmp_path, store)
    assert len(store) > before


def own_terminal() -> None:
    """What a shell does for what it starts: its standard input is its terminal, whose end it hears of, though those who run tests may not."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_terminal_that_is_closed_leaves_a_worker_that_goes_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    planner = benchmark(
        tmp_path,
        *("--suite", "quick"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=own_terminal,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    until = time.monotonic() + 60
    while not (tmp_path / "measurements.jsonl").exists() or not len(Store.open(tmp_path)):
        with contextlib.suppress(BlockingIOError):
            os.read(ours, 65536)
        assert time.monotonic() < until
        time.sleep(0.05)
    os.close(ours)
    assert planner.wait(10) == -signal.SIGHUP
    before = len(Store.open(tmp_path))
    assert goes_on(tmp_path)
    store = Store.open(tmp_path)
    recover_journals(tmp_path, store)
    assert len(store) > before
    assert not list((tmp_path / "runs").glob("*.part.jsonl"))


def test_of_two_at_once_one_measures_and_the_other_says_so(tmp_path: Path) -> None:
    first = benchmark(tmp_path, "--suite", "quick", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(tmp_path)
    second = benchmark(tmp_path, "--suite", "smoke", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, said = second.communicate(timeout=300)
    assert second.returncode == 1
    assert "Another benchmark is running (process " in said
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=90)
    assert first.returncode == 143
    assert {run.suite for run in Store.open(tmp_path).runs()} == {"quick"}


async def test_a_full_disk_costs_neither_the_run_nor_what_was_there(small_disk: Path) -> None:
    store = Store.open(small_disk)
    store.add_all([measurement(f"gemm/bf16/{size}x{size}x{size}", run="earlier") for size in (256, 512, 1024)])
    with (small_disk / "measurements.jsonl").open("ab") as file:
        file.write(b"\n" * (-file.tell() % os.sysconf("SC_PAGE_SIZE")))  # no room is left in its last page
    with contextlib.suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 1024)
    store = Store.open(small_disk)
    run = BenchRun(BenchRequest(state=small_disk, suite="smoke", device="cpu"), store)
    heard = [event async for event in run.events()]
    last = heard[-1]
    assert isinstance(last, Finished), last
    assert (last.state, last.kept, last.waiting) == ("finished", 0, 3)
    assert "0 results kept, 3 in memory only: " in last.message
    assert "No space left on device" in last.message
    assert sum(isinstance(event, PointDone) for event in heard) == 3
    assert len(store) == 6
    assert any("memory only" in warning for warning in store.warnings)
    (small_disk / "filler").unlink()
    assert {one.run for one in Store.open(small_disk).all()} == {"earlier"}
    assert store.end_run(run.run, "finished").kept  # what waited goes along once there is room
    assert len(Store.open(small_disk)) == 6


def test_a_journal_that_cannot_be_written_ends_and_the_listener_hears_all() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    reading, writing = os.pipe()
    command = [
        sys.executable,
        "-u",
        str(BENCH),
        "--suite",
        "smoke",
        "--device",
        "cpu",
        "--fd",
        str(writing),
        "--journal",
        "/dev/full",
    ]
    done = subprocess.run(command, pass_fds=[writing], capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = [json.loads(line) for line in stream]
    assert done.returncode == 0
    assert sum(message["type"] in {"result", "skip"} for message in said) == 3
    assert said[-1] == {"type": "bye", "reason": "finished"}
    assert b"the journal ends here: No space left on device" in done.stderr


def test_a_damaged_journal_gives_what_is_whole_in_it(tmp_path: Path) -> None:
    points = [Point(id=f"gemm/{name}", kind="gemm", label="", device="cuda:0", expected_s=1, cap_s=1) for name in "abcd"]
    hello = Hello(schema=1, method=1, pid=1, device="cuda:0", device_name="X", machine={}, software={}, environment={})

    def result(point: Point) -> bytes:
        told = Result(
            point=point.id,
            kind="gemm",
            dtype="bf16",
            parameters={},
            value=1.0,
            low=1.0,
            high=1.0,
            unit="FLOP/s",
            status="ok",
            taken_at="2026-01-01T00:00:00Z",
        )
        return encode(told)

    a, b, c, d = map(result, points)
    damaged = encode(hello) + encode(Plan(suite="quick", points=tuple(points))) + a + b[:40] + b"\x00\xff\xfe" * 50 + b"\n"
    damaged += c + b"[1, 2]\n" + b"[" * 200_000 + b"\n"
    for wrong in (b'"parameters":5', b'"parameters":{"a":' * 3000 + b"1" + b"}" * 3000, b'"detail":"\\ud800"', b'"samples_s":7'):
        damaged += d.replace(b'"parameters":{}', wrong).replace(b'"detail":""', wrong if b"detail" in wrong else b'"detail":""')
    damaged += d[:-20]
    journal_path(tmp_path, "20260101T000000Z-abcdef").write_bytes(damaged)
    journal_path(tmp_path, "20260102T000000Z-abcdef").write_bytes(b"\x00" * 3000)
    store = Store.open(tmp_path)
    assert recover_journals(tmp_path, store) == 2
    assert {one.point for one in store.all()} == {"gemm/a", "gemm/c"}
    assert store.runs()[0].state == "failed"
    assert not list((tmp_path / "runs").glob("*.part.jsonl"))
    assert [warning.count(".damaged.jsonl") for warning in store.warnings] == [1, 1]
    assert not Store.open(tmp_path).warnings
    assert encode(Bye(reason="finished")).endswith(b"\n")


def test_rounds_cut_short_are_kept_as_far_as_they_came(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    journal = tmp_path / "journal.jsonl"
    command = [sys.executable, "-u", str(BENCH), "--suite", "standard", "--device", "cpu", "--fd", str(writing), "--ranks", "1"]
    with subprocess.Popen(
        [*command, "--journal", str(journal)], pass_fds=[writing], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as worker:
        os.close(writing)
        heard = []
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                message = json.loads(line)
                if message["type"] != "heartbeat":
                    heard.append(message)
                if message["type"] == "result" and message["rounds"] > 1:
                    worker.send_signal(signal.SIGTERM)
    rounds = [message for message in heard if message["type"] == "result" and message["kind"] == "gemm"]
    assert rounds[0]["rounds"] == 3
    last = [message for message in rounds if message["point"] == rounds[0]["point"]][-1]
    assert (last["round"], last["rounds"]) == (1, 1)
    assert heard[-1] == {"type": "bye", "reason": "stopped"}
    assert b'"rounds":1' in journal.read_bytes()


def test_resuming_leaves_out_what_is_known_of_any_suite(planner_process: RunPlanner) -> None:
    first = planner_process("bench", "--suite", "smoke", "--device", "cpu", "--json", timeout_s=300)
    assert first.returncode == 0, first.stderr
    solid = [one for one in map(json.loads, first.stdout.splitlines()) if one["status"] in {"ok", "noisy"}]
    again = planner_process("bench", "--suite", "smoke", "--device", "cpu", "--json", "--resume", timeout_s=300)
    assert again.stderr.count("measured before") == len(solid)
    assert len(again.stdout.splitlines()) == 3 - len(solid)
