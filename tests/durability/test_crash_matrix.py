"""Every write of the program, killed or refused at every step of it: nothing there is lost, and nothing is told as kept that is not."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from matrix_writes import WRITES
from repository import ROOT

from planner.hardware.measurements import line_file, store

COMPILER = shutil.which("cc")
GROUPS = (("first point", "next point", "import", "journal", "choices"), ("point beside damage", "recovered journal"), ("preset", "export", "screen", "offers"))  # fmt: skip
STORED = ("next point", "point beside damage", "import", "recovered journal")


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that lets calls fail, compiled once."""
    if COMPILER is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and a linker that preloads")
    library = tmp_path_factory.mktemp("faults") / "disk_faults.so"
    source = Path(__file__).with_name("disk_faults.c")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    return library


def test_every_write_is_tried() -> None:
    assert sorted(name for group in GROUPS for name in group) == sorted(WRITES)


@pytest.mark.process
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_a_kill_or_a_refusal_at_any_step_loses_nothing(shim: Path, names: tuple[str, ...]) -> None:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "samples", ROOT / "tests" / "samples" / "benchmark")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("matrix_writes.py")), *names],
        env={**os.environ, "PYTHONPATH": paths, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    findings = {name: (lines[:-1], int(lines[-1].removeprefix("tried "))) for name, lines in json.loads(done.stdout).items()}
    assert {name: found for name, (found, _) in findings.items() if found} == {}
    assert all(tried > 20 for _, tried in findings.values())


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("obstacle", ["lock held", "later version"])
def test_what_others_hold_or_a_later_version_wrote_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, obstacle: str
) -> None:
    monkeypatch.setattr(line_file, "LOCK_WAIT_S", 0.02)
    monkeypatch.setattr(store, "LOCK_WAIT_S", 0.02)
    way = WRITES[name]
    way.prepare(tmp_path)
    path = tmp_path / "measurements.jsonl"
    if obstacle == "later version":
        path.write_bytes(b'{"layout":99}\n' + path.read_bytes())
    before = path.read_bytes()
    with path.open("rb") as held:
        if obstacle == "lock held":
            fcntl.flock(held, fcntl.LOCK_EX)
        said = way.write(tmp_path)
    assert not said.kept
    assert ("locked" if obstacle == "lock held" else "later version") in said.words
    assert path.read_bytes() == before
    assert sorted((tmp_path / "runs").glob("*")) == sorted((tmp_path / "runs").glob("*.part.jsonl"))


def test_choices_of_a_later_version_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "choices.json").write_text('{"version": 99, "theme": "nord"}')
    said = WRITES["choices"].write(tmp_path)
    assert (said.kept, said.words) == (False, "was written by a later version")
    assert WRITES["choices"].state(tmp_path) == {"theme": "nord"}


@pytest.fixture(params=["full", "read-only"])
def bad_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A folder in which every write is prepared, on a real file system that then is full or read-only; (it, the system's words)."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        for name, way in WRITES.items():
            (folder / name).mkdir()
            way.prepare(folder / name)
            for path in (*(folder / name).glob("*.jsonl"), *(folder / name).glob("journal")):  # no room is left in its last page
                with path.open("ab") as file:
                    file.write(b"\n" * (-file.tell() % os.sysconf("SC_PAGE_SIZE")))
        if request.param == "full":
            with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(1024))
        else:
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        yield folder, os.strerror(errno.ENOSPC if request.param == "full" else errno.EROFS)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.process
def test_a_disk_that_is_full_or_read_only_loses_nothing(bad_disk: tuple[Path, str]) -> None:
    folder, words = bad_disk
    for name, way in WRITES.items():
        root = folder / name
        before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        said = way.write(root)
        assert not said.kept, name
        assert words in said.words, name
        for path, text in before.items():
            assert path.read_bytes() == text or path.suffix == ".bak", path
        assert not list(root.rglob(".gpu-planner-*")), name
