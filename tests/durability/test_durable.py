"""Writing a file whole: its rights, links, devices, pipes; what commands say and how they end when something could not be kept."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest
from measurement_sample import measurement
from repository import ROOT, RunPlanner

from planner import durable
from planner.durable import NotStoredError, WriteResult, write_out, write_whole
from planner.hardware.measurements.exchange import export_document
from planner.hardware.measurements.store import Store

WRITERS = {"planner/durable.py", "planner/hardware/measurements/line_file.py", "planner/observe/telemetry/recording.py"}
"""The modules that write files; the others ask them. `bench` stands alone and writes its journal, the lock holds no data."""
TO_PIPES = {"widgets/background/planner_process.py"}
"""The modules that write to pipes alone."""
CALLS = {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "replace_file"}


def writes(path: Path) -> list[int]:
    """Lines that write a file by themselves."""
    found = []
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "open(" in text or any(name in text for name in CALLS) else ():
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            texts = [one.value for one in [*node.args, *(word.value for word in node.keywords)] if isinstance(one, ast.Constant)]
            modes = [text for text in texts if isinstance(text, str) and text[:1] in {"w", "a", "x"} and len(text) <= 3]
            if name in CALLS or (name in {"open", "fdopen"} and modes):
                found.append(node.lineno)
    return found


def test_files_are_written_in_one_place() -> None:
    asking = [path for folder in ("planner", "widgets") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path.relative_to(ROOT)): lines for path in asking if (lines := writes(path))}.keys() <= WRITERS | TO_PIPES


def test_a_file_is_replaced_with_its_rights_and_a_new_one_has_the_usual_ones(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new" / "file"
    old.write_text("before")
    old.chmod(0o640)
    assert write_whole(old, "after") == WriteResult(old)
    assert (old.read_text(), stat.S_IMODE(old.stat().st_mode)) == ("after", 0o640)
    assert write_whole(new, b"\xff").kept
    mask = os.umask(0)
    os.umask(mask)
    assert (new.read_bytes(), stat.S_IMODE(new.stat().st_mode)) == (b"\xff", 0o666 & ~mask)
    assert write_whole(tmp_path / ("n" * 255), "text").kept


def test_a_link_of_ones_own_stays_and_leads_to_the_new_text(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles" / "file", tmp_path / "link"
    target.parent.mkdir()
    target.write_text("before")
    link.symlink_to(target)
    assert write_whole(link, "after").kept
    assert link.is_symlink()
    assert target.read_text() == "after"


@pytest.mark.parametrize("name", ["measurements.jsonl", "predictions.jsonl"])
def test_a_link_to_a_file_of_another_kind_is_not_written_through(run_planner: RunPlanner, tmp_path: Path, name: str) -> None:
    target, state = tmp_path / "passwd", tmp_path / "state"
    target.write_text("root:x:0:0:root:/root:/bin/bash\n")
    state.mkdir()
    (state / name).symlink_to(target)
    given = tmp_path / "given.json"
    given.write_bytes(export_document([measurement()], [], version="1", exported_at="2026-01-01T00:00:00Z"))
    imported = run_planner("--state", str(state), "measurements", "import", str(given))
    planned = run_planner("--state", str(state), "plan", "--gpu", "H100 SXM5 80GB", "--top", "1")
    assert (target.read_text(), planned.returncode) == ("root:x:0:0:root:/root:/bin/bash\n", 0)
    refused = "a link to a file of another kind" in imported.stderr
    assert (imported.returncode, refused) == ((74, True) if name == "measurements.jsonl" else (0, False))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to give a link away")
def test_a_link_of_somebody_else_is_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    os.lchown(link, 65534, 65534)
    assert write_whole(link, "after").kept
    assert (target.read_text(), link.read_text(), link.is_symlink()) == ("before", "after", False)


def test_what_fails_its_check_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def check(fresh: Path) -> None:
        assert fresh.read_text() == "after"
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        write_whole(path, "after", check)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "before")]


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    write_out(Path(os.devnull), "text")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    with pytest.raises(NotStoredError, match="No space left on device"):
        write_out(Path("/dev/full"), "text")
    with pytest.raises(NotStoredError, match="Is a directory"):
        write_out(tmp_path, "text")
    assert "not a regular file" in write_whole(Path(os.devnull), "text").reason
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


EXPORTS = {
    "report.md": ("report", "llama-3.1-8b-lora", "--gpu", "L4", "--out"),
    "study.svg": ("study", "--svg"),
    "points.json": ("measurements", "export", "--out"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_that_is_not_kept_ends_with_74_and_says_why(run_planner: RunPlanner, tmp_path: Path, name: str) -> None:
    Store.open(tmp_path).add(measurement())
    (tmp_path / name).symlink_to("/dev/full")
    done = run_planner("--state", str(tmp_path), *EXPORTS[name], str(tmp_path / name))
    assert (done.returncode, done.stdout) == (74, "")
    assert "cannot be written: No space left on device." in done.stderr
    assert "written to" not in done.stderr


def test_an_import_that_is_not_kept_says_no_number_taken_in(run_planner: RunPlanner, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    given = tmp_path / "given.json"
    given.write_bytes(export_document([measurement()], [], version="1", exported_at="2026-01-01T00:00:00Z"))
    done = run_planner("--state", str(tmp_path / "other"), "measurements", "import", str(given))
    assert (done.returncode, "1 measurement imported" in done.stdout) == (0, True)
    (tmp_path / "other" / "measurements.jsonl").unlink()
    (tmp_path / "other" / "measurements.jsonl").mkdir()
    done = run_planner("--state", str(tmp_path / "other"), "measurements", "import", str(given))
    assert (done.returncode, done.stdout) == (74, "")
    assert "1 measurement not imported" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("plan", "llama-3.1-8b-lora", "--gpu", "L40S"), ("ceilings", "L4"), ("measurements", "remove", "--origin", "own", "--yes")],
    ids=lambda given: given[0],
)
def test_a_plan_without_the_store_says_so(run_planner: RunPlanner, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "measurements.jsonl").write_bytes(b'{"layout":99}\n')
    done = run_planner("--state", str(tmp_path), *arguments)
    assert done.returncode == (1 if "remove" in arguments else 0)
    assert done.stderr.count("was written by a later version") == 1
    assert "its contents are not used" in done.stderr


def test_a_time_yet_to_come_never_goes_before_what_was_taken_later(tmp_path: Path) -> None:
    for origin, wanted in (("own", 3.0), ("imported", 2.0)):
        store = Store.open(tmp_path / origin)
        for run, year, value in (("r1", 2099, 1.0), ("r2", 2026, 2.0), ("r3", 2020, 3.0)):
            store.add(measurement(run=run, value=value, taken_at=f"{year}-01-01T00:00:00Z", origin=origin))
        assert [one.value for one in store.latest()] == [wanted]


def test_a_pipe_is_written_once_it_is_read_and_refused_where_nobody_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    monkeypatch.setattr(durable, "READER_WAIT_S", 0.1)
    with pytest.raises(NotStoredError, match="nobody reads this pipe"):
        write_out(pipe, "text")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_out(pipe, "text")
    assert os.read(reading, 100) == b"text"
    os.close(reading)
