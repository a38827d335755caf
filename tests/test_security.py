"""SECURITY.md: what it says of connections, of code and of files holds."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner

SOURCES = [path for package in ("planner", "widgets", "bench") for path in sorted((ROOT / package).rglob("*.py"))]
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
SERVING = "planner.cli.watch.serving"
"""The exporter of `watch --serve-metrics`."""
SERVES = {"pickle", "marshal", "shelve", "http.server", "socketserver", "xmlrpc", "ftplib", "smtplib", "telnetlib"}
WEB = {"planner.web"}
"""Modules that may import `urllib.request`."""
WORDS = re.compile(rf"\b(?:{'|'.join(sorted({name.split('.')[0] for name in (*RUNS_TEXT, *SERVES, 'shell', 'urllib')}))})\b")
"""Text that a module has to contain for its test to find something."""
events: list[tuple[str, tuple[object, ...]]] = []
WATCHED = {
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.system",
    "open",
}
RUNS_A_PROGRAM = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"}
watching: list[bool] = []


@pytest.fixture(scope="module")
def _hooked() -> None:
    """What Python asks a hook of; it stays, and slows down whatever else this process does."""
    sys.addaudithook(lambda event, given: events.append((event, given)) if watching and event in WATCHED else None)


@pytest.fixture(autouse=True)
def _watched(_hooked: None) -> Iterator[None]:
    watching.append(True)
    yield
    watching.clear()
    events.clear()


@pytest.mark.sweep
def test_nothing_evaluates_or_unpickles_and_one_module_serves() -> None:
    found = []
    for path in SOURCES:
        module, text = ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if WORDS.search(text) else ():
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call):
                shell = any(word.arg == "shell" for word in node.keywords)
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                found += [f"{module}: {called or 'shell='}"] if shell or called in RUNS_TEXT else []
            serves = SERVES - {"http.server"} if module == SERVING else SERVES
            found += [f"{module}: {name}" for name in names if name.split(".")[0] in serves or name in serves]
            found += [f"{module}: {name}" for name in names if name == "urllib.request" and module not in WEB]
    assert found == []


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [("gpus",), ("offers",), ("doctor",), ("watch", "--once"), ("measurements",)],
    ids=" ".join,
)
def test_nothing_is_connected_to_nothing_written_and_its_own_python_alone_is_run(
    arguments: tuple[str, ...], run_planner: RunPlanner, isolated: Path
) -> None:
    before = set(isolated.rglob("*"))
    assert run_planner(*arguments).returncode in {0, 1}
    assert [event for event in events if event[0].startswith("socket.")] == []
    assert written() == []
    assert {given[0] for event, given in events if event in RUNS_A_PROGRAM} <= {sys.executable}
    assert set(isolated.rglob("*")) == before


def test_a_plan_connects_to_nothing_and_writes_its_predictions_alone(run_planner: RunPlanner, isolated: Path) -> None:
    before = set(isolated.rglob("*"))
    assert run_planner("plan", "llama-3.1-8b-lora", "--gpu", "L40S").returncode == 0
    assert [event for event in events if event[0].startswith("socket.")] == []
    assert {path.name for path in set(isolated.rglob("*")) - before if path.is_file()} == {"predictions.jsonl"}


def test_what_is_written_is_where_it_says(run_planner: RunPlanner, isolated: Path, tmp_path: Path) -> None:
    assert run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S", "--out", str(tmp_path / "here.md")).returncode == 0
    assert {path.parent for path in written()} == {tmp_path}
    assert (tmp_path / "here.md").stat().st_mode & 0o111 == 0


def written() -> list[Path]:
    """Files that were opened to be written, apart from what Python keeps of its own modules, and devices."""
    found = []
    for event, given in events:
        if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
            mode, flags = given[1], given[2]
            writes = (isinstance(mode, str) and bool(set(mode) & set("wax+"))) or (isinstance(flags, int) and bool(flags & 3))
            path = Path(os.fsdecode(given[0]))
            if writes and "__pycache__" not in path.parts and path.parts[:2] != ("/", "dev"):
                found.append(Path.cwd() / path if not path.is_absolute() else path)
    return found
