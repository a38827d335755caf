"""Recordings: bounded files, what a killed process leaves behind, and replays at their pace, in the process and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from repository import ROOT, RunPlanner
from telemetry_sample import WINDOWS

from planner.durable import NotStoredError
from planner.errors import UserError
from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, Snapshot
from planner.observe.telemetry.recording import PARTS, Recorder, part_path, read_demo, read_recording
from planner.observe.telemetry.stream import Due, Stream, replay

pytestmark = pytest.mark.server


def reading(second: float, sm: float | None = 0.5) -> Snapshot:
    device = DeviceSnapshot(index=0, state="ok", name="NVIDIA H100 80GB HBM3", sm_active_fraction=sm)
    return Snapshot(
        taken_at=f"2026-01-01T00:00:{second:06.3f}+00:00",
        taken_at_s=100.0 + second,
        collect_s=0.001,
        interval_s=0.1,
        nvml_state="ready",
        nvml_detail="NVML answers",
        host=HostSnapshot(cpu_name="CPU", cpu_cores=4),
        devices=(device,),
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that takes nothing")
def test_a_device_is_refused_with_the_reason() -> None:
    with pytest.raises(NotStoredError, match="/dev/full cannot be written: it is not a regular file"):
        Recorder(Path("/dev/full"))


def test_what_is_recorded_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    readings = [reading(second) for second in range(5)]
    for half in (readings[:2], readings[2:]):
        with Recorder(path) as recorder:
            for one in half:
                recorder.keep(one)
    recording = read_recording(path)
    assert [msgspec.structs.replace(one, source=None) for one in recording.snapshots] == readings
    assert {one.source for one in recording.snapshots} == {"replay run.jsonl"}
    assert recording.snapshots[0].badge == "REPLAY run.jsonl"
    assert recording.seconds == 4.0


def test_a_recording_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = len(msgspec.json.encode(reading(0))) + 1
    limit = 4 * 10.5 * line
    with Recorder(path, limit) as recorder:
        for second in range(200):
            recorder.keep(reading(float(second % 60)))
            parts = [part_path(path, number) for number in range(PARTS)]
            assert sum(part.stat().st_size for part in parts if part.exists()) <= limit
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.1", "run.jsonl.2", "run.jsonl.3"]
    kept = [one.taken_at_s - 100 for one in read_recording(path).snapshots]
    assert 30 <= len(kept) <= 42
    assert kept == [float(second % 60) for second in range(200)][-len(kept) :]


def test_a_line_cut_off_costs_itself_alone(run_planner: RunPlanner, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole = msgspec.json.encode(reading(0)) + b"\n"
    path.write_bytes(b"# by hand\n" + whole + whole[:40])
    with Recorder(path) as recorder:
        recorder.keep(reading(1))
    recording = read_recording(path)
    assert [one.taken_at_s for one in recording.snapshots] == [100.0, 101.0]
    assert recording.unreadable == (3,)
    done = run_planner("watch", "--replay", str(path), "--once", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["taken_at_s"] == 101.0
    assert "line 3 is no reading" in done.stderr


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b'{"a": 1}\n', b"\xff\xfe\n"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a recording of telemetry"):
        read_recording(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_recording(tmp_path / "absent.jsonl")


class Rests(threading.Event):
    """Rests that a stream asks for; none is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.asked.append(timeout)
        return False


def until(holds: Callable[[], object]) -> None:
    """Wait for it; a busy machine may need a while."""
    ends_s = time.monotonic() + 60
    while not holds() and time.monotonic() < ends_s:
        time.sleep(0.005)
    assert holds()


def unchanged(seen: list[Snapshot]) -> bool:
    """True if nothing more comes for a while."""
    count = len(seen)
    time.sleep(0.2)
    return len(seen) == count


@pytest.mark.parametrize(("speed", "rest_s"), [(1.0, 0.1), (4.0, 0.025), (0.0, 0.0)])
def test_a_replay_keeps_the_pace_it_is_asked_for(tmp_path: Path, speed: float, rest_s: float) -> None:
    with Recorder(tmp_path / "run.jsonl") as recorder:
        for tenth in range(5):
            recorder.keep(reading(tenth / 10))
    seen: list[Snapshot] = []
    stream = replay(read_recording(tmp_path / "run.jsonl"), seen.append, speed=speed)
    stream._wake = rests = Rests()
    stream.start()
    until(lambda: stream.ended)
    assert len(seen) == 5
    assert rests.asked == pytest.approx([rest_s] * 4 + [0.0])
    assert stream.latest is seen[-1]
    assert stream.failure is None
    assert stream.stale_for_s() is None


def test_a_demonstration_has_no_end_pauses_and_stops_at_once() -> None:
    demo = read_demo()
    short = type(demo)(demo.name, demo.snapshots[:2])
    seen: list[Snapshot] = []
    stream = replay(short, seen.append, speed=20, again=True)
    stream.start()
    until(lambda: len(seen) > 5)
    stream.pause()
    time.sleep(0.2)
    until(lambda: unchanged(seen))
    count = len(seen)
    stream.resume()
    until(lambda: len(seen) > count)
    assert stream.stop(60.0)
    slow = replay(short, seen.append, speed=0.001, again=True)
    slow.start()
    until(lambda: slow.latest)
    assert slow.stop(60.0), "the next is due in minutes"


def test_a_source_that_stops_answering_goes_stale() -> None:
    left, began_s = [reading(0)], time.monotonic()
    stream = Stream(lambda: Due(left.pop() if left else None, 0.05))
    stream.start()
    until(lambda: stream.stale_for_s() is not None)
    assert time.monotonic() - began_s > 0.05 + 1.0
    stale_s = stream.stale_for_s()
    assert stale_s is not None
    assert stale_s > 1.0
    assert stream.stop(60.0)


def test_the_demonstration_says_that_it_is_one(run_planner: RunPlanner) -> None:
    demo = read_demo()
    assert demo.seconds >= 50
    assert {one.badge for one in demo.snapshots} == {"DEMO"}
    assert all(len(one.devices) == 2 for one in demo.snapshots)
    done = run_planner("watch", "--demo", "--once")
    assert done.returncode == 0
    assert done.stdout.startswith(" DEMO ")
    assert "H100 80GB HBM3" in done.stdout


def test_a_replay_prints_what_was_recorded_and_records_it_again(run_planner: RunPlanner, tmp_path: Path) -> None:
    window = WINDOWS / "idle.jsonl"
    copy = tmp_path / "copy.jsonl"
    done = run_planner("watch", "--replay", str(window), "--speed", "0", "--json", "--record", str(copy))
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    recorded = [json.loads(line) for line in window.read_text().splitlines() if not line.startswith("#")]
    assert [{**line, "source": "replay idle.jsonl"} for line in recorded] == said
    assert copy.read_text() == done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replay", "a", "--demo"), "--replay and --demo exclude each other"),
        (("--replay", "absent.jsonl"), "absent.jsonl: cannot be read"),
        (("--json", "--prometheus"), "--json and --prometheus exclude each other"),
        (("--replay", "run.jsonl", "--record", "./run.jsonl"), "is being replayed"),
        (("--source", "host:9400"), "has to begin with http"),
    ],
)
def test_what_cannot_be_watched_is_said(run_planner: RunPlanner, options: tuple[str, ...], said: str) -> None:
    done = run_planner("watch", *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.process
def test_the_composed_recordings_are_what_their_script_composes(tmp_path: Path) -> None:
    code = f"""
import sys, pathlib, shutil
sys.path.insert(0, {str(ROOT / "scripts")!r})
import compose_recordings
compose_recordings.ROOT = pathlib.Path({str(tmp_path)!r})
(compose_recordings.ROOT / "presets" / "recordings").mkdir(parents=True)
sys.argv = ["compose"]
compose_recordings.main()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.jsonl")}
    assert len(made) == 6
    assert all((ROOT / name).read_text() == text for name, text in made.items())
