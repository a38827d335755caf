"""The store of measurements: on disk at once, shared between processes, never lost and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from measurement_sample import measurement

from planner.hardware.measurements.measurement import Run
from planner.hardware.measurements.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "state")


def test_reading_makes_no_file(store: Store, tmp_path: Path) -> None:
    assert store.latest() == ()
    assert store.runs() == ()
    assert len(store) == 0
    assert store.remove([measurement()])[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_measurement_comes_back_whole_from_another_store(store: Store, tmp_path: Path) -> None:
    store.add(measurement())
    again = Store.open(tmp_path / "state")
    assert again.latest("Test CPU") == (measurement(),)
    assert len(again) == 1
    assert bool(Store.open(tmp_path / "nothing"))


def test_the_newest_solid_figure_of_each_point_counts(store: Store) -> None:
    store.add(measurement(run="r1", value=1.0, taken_at="2026-01-01T00:00:00Z"))
    store.add(measurement(run="r2", value=2.0, status="noisy", taken_at="2026-01-02T00:00:00Z"))
    store.add(measurement(run="r3", value=3.0, status="shared", taken_at="2026-01-03T00:00:00Z"))
    store.add(measurement(point="gemm/fp16/1024x1024x1024", value=None, status="unsupported"))
    store.add(measurement(run="r4", device="Other CPU", value=9.0))
    store.add(measurement(point="copy/memory", suite="smoke"))
    assert [(found.value, found.status) for found in store.latest("Test CPU")] == [(2.0, "noisy"), (None, "unsupported")]
    assert {found.device for found in store.latest()} == {"Test CPU", "Other CPU"}
    assert [found.point for found in store.latest(suite="smoke")] == ["copy/memory"]


def test_a_later_method_beats_an_earlier_one(store: Store) -> None:
    store.add(measurement(run="r1", value=1.0, taken_at="2026-01-09T00:00:00Z"))
    store.add(measurement(run="r2", value=2.0, method=2, status="unstable"))
    assert [found.value for found in store.latest()] == [2.0]


def test_fingerprints_are_matched_whole_or_by_machine(store: Store) -> None:
    store.add(measurement())
    assert len(store.latest(fingerprint="aaaa-1111")) == 1
    assert len(store.latest(fingerprint="aaaa")) == 1
    assert store.latest(fingerprint="aaa") == ()
    assert store.latest(fingerprint="aaaa-2222") == ()


def test_the_same_point_of_a_run_is_kept_once(store: Store) -> None:
    store.add(measurement(value=1.0))
    store.add(measurement(value=2.0))
    assert [found.value for found in store.all() if found.run == "r1"] == [1.0]


def test_runs_are_listed_newest_first_and_removed_with_their_points(store: Store) -> None:
    for name, started in (("r1", "2026-01-01T00:00:00Z"), ("r2", "2026-01-02T00:00:00Z")):
        store.add_run(
            Run(id=name, suite="quick", device="Test CPU", fingerprint="aaaa-1111", started_at=started, environment={"torch": "2"})
        )
        store.add(measurement(run=name))
    store.end_run("r1", "finished")
    assert [(run.id, run.state, run.measurements) for run in store.runs()] == [("r2", "running", 1), ("r1", "finished", 1)]
    assert store.remove([one for one in store.all() if one.run == "r1"])[0] == 1
    assert [run.id for run in store.runs()] == ["r2"]
    assert len(store) == 1


def test_a_line_that_cannot_be_read_costs_that_line_alone_and_is_said(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number in range(400):
        store.add(measurement(f"gemm/bf16/{number}"))
    path = tmp_path / "measurements.jsonl"
    whole = bytearray(path.read_bytes())
    middle = whole.index(b"\n", len(whole) // 2) + 20
    whole[middle : middle + 30] = b"\xff" * 30
    path.write_bytes(bytes(whole))
    again = Store.open(tmp_path)
    assert len(again.all()) == 399
    (said,) = again.warnings
    assert "one line cannot be read" in said
    again.add(measurement("after"))
    assert len(Store.open(tmp_path)) == 400
    assert Store.open(tmp_path).warnings == []
    assert (tmp_path / "measurements.damaged.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    "junk",
    [
        b"this is no store of ours",
        b"\x00" * 5000,
        b"[" * 200_000 + b"\n",
        b'{"measurement": {"point": 1}}\n',
        b"\n\n\n" + bytes(number * 167 % 251 for number in range(4096)),
    ],
    ids=["text", "zeros", "deep", "wrong types", "any bytes"],
)
def test_a_file_that_is_none_of_ours_is_kept_and_written_on(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "measurements.jsonl"
    path.write_bytes(junk)
    store = Store.open(tmp_path)
    assert store.latest() == ()
    store.add(measurement())
    assert store.latest() == Store.open(tmp_path).latest() == (measurement(),)
    kept = (tmp_path / "measurements.damaged.jsonl").read_bytes()
    assert kept.split(b"\n") == [*(line for line in junk.split(b"\n") if line), b""]
    (said,) = store.warnings
    assert "cannot be read" in said
    assert Store.open(tmp_path).warnings == []


def test_a_file_cut_in_the_middle_of_a_line_goes_on_with_the_next(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number in range(3):
        store.add(measurement(f"gemm/bf16/{number}"))
    path = tmp_path / "measurements.jsonl"
    os.truncate(path, path.stat().st_size - 30)
    again = Store.open(tmp_path)
    assert len(again) == 2
    assert again.warnings == []  # a line without its end may still be on its way
    again.add(measurement("after"))
    assert [one.point for one in again.all()] == ["gemm/bf16/0", "gemm/bf16/1", "after"]
    assert "one line cannot be read" in again.warnings[0]


def test_what_another_store_writes_is_seen_at_the_next_look(tmp_path: Path) -> None:
    one, other = Store.open(tmp_path), Store.open(tmp_path)
    one.add(measurement("a"))
    assert [found.point for found in other.all()] == ["a"]
    other.add(measurement("b"))
    other.remove(one.all()[:1])
    assert [found.point for found in one.all()] == ["b"]


@pytest.mark.parametrize("obstacle", ["folder", "pipe", "file above"])
def test_a_place_that_cannot_be_written_keeps_the_session_in_memory(tmp_path: Path, obstacle: str) -> None:
    path = tmp_path / "state" / "measurements.jsonl"
    if obstacle == "file above":
        (tmp_path / "state").write_text("a file where the folder should be")
    else:
        path.parent.mkdir()
        path.mkdir() if obstacle == "folder" else os.mkfifo(path)
    store = Store(path)
    store.add(measurement())
    assert len(store) == 1
    assert not store.result.kept
    assert any("in memory" in said for said in store.warnings)


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "measurements.jsonl"
    path.write_bytes(b'{"layout":99}\n{"measurement":{"flavour":"new"}}\n')
    before = path.read_bytes()
    store = Store.open(tmp_path)
    store.add(measurement())
    assert len(store) == 1
    assert "later version" in store.warnings[-1]
    assert path.read_bytes() == before


@pytest.mark.process
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, msgspec; from planner.hardware.measurements.measurement import Measurement; from planner.hardware.measurements.store import Store;"
        "store = Store.open(pathlib.Path(sys.argv[1]));"
        "[store.add(Measurement(point=f'p{i}', kind='copy', device='d', fingerprint='f-s', status='ok', value=1.0, taken_at='2026-01-01', suite='quick',"
        " run=sys.argv[2])) for i in range(60)]; print(store.warnings)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b", "c")
    ]
    said = [writer.communicate(timeout=300)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert said == ["[]\n"] * 3
    assert len(Store.open(tmp_path)) == 180


def test_more_rounds_replace_fewer_of_the_same_point(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for rounds, value in ((1, 1.0), (2, 2.0), (1, 3.0)):
        store.add(measurement(rounds=rounds, value=value, low=None, high=None))
    assert [(one.rounds, one.value) for one in store.all()] == [(2, 2.0)]
    assert len(store.latest()) == 1


@pytest.mark.process
def test_a_full_disk_keeps_what_was_there_and_the_session(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, resource, signal; from planner.hardware.measurements.measurement import Measurement; from planner.hardware.measurements.store import Store;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "store = Store.open(pathlib.Path(sys.argv[1]));"
        "one = lambda i: Measurement(point=f'p{i}', kind='copy', device='d', fingerprint='f-s', status='ok', value=1.0, taken_at='2026-01-01',"
        " suite='quick', run='r', detail='x' * 2000);"
        "[store.add(one(i)) for i in range(20)];"
        "size = store.path.stat().st_size + 1000;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size));"
        "[store.add(one(i)) for i in range(20, 40)]; print(len(store)); print(store.warnings[0])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    count, said = done.stdout.splitlines()
    assert int(count) == 40
    assert "memory only" in said
    assert len(Store.open(tmp_path)) == 20
