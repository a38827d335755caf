"""The store of measurements: on disk at once, shared between processes, never lost and never in the way."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from measurement_sample import measurement

from planner.hardware.measurements.measurement import Run
from planner.hardware.measurements.store import Store
from planner.hardware.measurements.store_file import MIGRATIONS


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "state")


def test_reading_makes_no_file(store: Store, tmp_path: Path) -> None:
    assert store.latest() == ()
    assert store.runs() == ()
    assert len(store) == 0
    assert store.remove("r1") == 0
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
    assert store.remove("r1") == 1
    assert [run.id for run in store.runs()] == ["r2"]
    assert len(store) == 1


def test_a_broken_file_is_moved_aside_and_said(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "measurements.sqlite3").write_bytes(b"this is no database, but long enough to be read as one" * 40)
    assert store.latest() == ()
    store.add(measurement())
    assert len(store) == 1
    assert len(store.warnings) == 1
    assert "moved to measurements.sqlite3.broken-" in store.warnings[0]
    kept = [path for path in folder.iterdir() if ".broken-" in path.name]
    assert kept[0].read_bytes().startswith(b"this is no database")
    assert Store.open(folder).latest() == (measurement(),)


def test_a_file_cut_in_the_middle_is_moved_aside(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    for index in range(200):
        first.add(measurement(point=f"gemm/bf16/{index}"))
    first.close()
    path = tmp_path / "measurements.sqlite3"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    second = Store.open(tmp_path)
    second.latest()
    second.add(measurement(point="after"))
    assert "after" in [found.point for found in second.latest()]
    assert any("broken" in warning for warning in second.warnings)


def test_a_place_that_cannot_be_written_keeps_the_session_in_memory(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    store = Store(tmp_path / "state" / "measurements.sqlite3")
    store.add(measurement())
    assert len(store) == 1
    assert "memory only" in store.warnings[0]


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "measurements.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    store = Store.open(tmp_path)
    store.add(measurement())
    assert len(store) == 1
    assert "later version" in store.warnings[0]
    assert path.read_bytes() == before


@pytest.mark.process
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, msgspec; from planner.hardware.measurements.measurement import Measurement; from planner.hardware.measurements.store import Store;"
        "store = Store.open(pathlib.Path(sys.argv[1]));"
        "[store.add(Measurement(point=f'p{i}', kind='copy', device='d', fingerprint='f-s', status='ok', taken_at='t', suite='quick',"
        " run=sys.argv[2])) for i in range(60)]; print(store.warnings)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b", "c")
    ]
    said = [writer.communicate(timeout=60)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert said == ["[]\n"] * 3
    assert len(Store.open(tmp_path)) == 180


def test_a_file_of_the_first_layout_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "measurements.sqlite3"
    old = measurement()
    body = {
        name: value for name, value in msgspec.to_builtins(old).items() if name not in {"origin", "quarantine", "rounds", "spread"}
    }
    with sqlite3.connect(path) as connection:
        connection.executescript(MIGRATIONS[0] + "; PRAGMA user_version = 1;")
        row = (old.run, old.point, old.suite, old.device, old.fingerprint, old.status, 1, old.taken_at, json.dumps(body))
        connection.execute(
            "INSERT INTO measurements (run, point, suite, device, fingerprint, status, method, taken_at, body) VALUES (?,?,?,?,?,?,?,?,?)",
            row,
        )
    connection.close()
    store = Store.open(tmp_path)
    assert store.latest() == (old,)
    store.add(measurement("copy/memory"))
    assert len(store) == 2
    assert store.warnings == []


def test_more_rounds_replace_fewer_of_the_same_point(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for rounds, value in ((1, 1.0), (2, 2.0), (1, 3.0)):
        store.add(measurement(rounds=rounds, value=value, low=None, high=None))
    assert [(one.rounds, one.value) for one in store.all()] == [(2, 2.0)]
    assert len(store.latest()) == 1


def test_a_page_overwritten_costs_that_page_alone(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for number in range(400):
        store.add(measurement(f"gemm/bf16/{number}"))
    store.close()
    path = tmp_path / "measurements.sqlite3"
    whole = bytearray(path.read_bytes())
    whole[-4096 * 3 : -4096 * 2] = b"\xff" * 4096
    path.write_bytes(bytes(whole))
    again = Store.open(tmp_path)
    assert 0 < len(again.all()) < 400
    (said,) = again.warnings
    assert "rows that could still be read" in said
    assert [entry.name for entry in tmp_path.iterdir() if ".broken-" in entry.name]
    assert len(Store.open(tmp_path)) == len(again)


@pytest.mark.process
def test_a_full_disk_keeps_what_was_there_and_the_session(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, resource, signal; from planner.hardware.measurements.measurement import Measurement; from planner.hardware.measurements.store import Store;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "store = Store.open(pathlib.Path(sys.argv[1]));"
        "one = lambda i: Measurement(point=f'p{i}', kind='copy', device='d', fingerprint='f-s', status='ok', value=1.0, taken_at='t',"
        " suite='quick', run='r', detail='x' * 2000);"
        "[store.add(one(i)) for i in range(20)];"
        "size = store.path.with_name(store.path.name + '-wal').stat().st_size;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size));"
        "[store.add(one(i)) for i in range(20, 40)]; print(len(store)); print(store.warnings[0])"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    count, said = done.stdout.splitlines()
    assert int(count) == 40
    assert "memory only" in said
    assert len(Store.open(tmp_path)) == 20
