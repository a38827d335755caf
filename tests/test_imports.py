"""The walls at run time: what a fresh interpreter has loaded after each way in. import-linter cannot see late imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest
from repository import ROOT

pytestmark = pytest.mark.process


def modules_after(code: str) -> set[str]:
    """Names in `sys.modules` of a fresh interpreter that has run `code`."""
    report = "import sys, json; sys.__stderr__.write('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.rsplit("\n", 1)[1]))


@cache
def modules_of_python() -> set[str]:
    return modules_after("pass")


def packages_after(code: str) -> set[str]:
    """Top-level names outside the standard library that `code` loads beyond those every interpreter starts with."""
    loaded = {name.partition(".")[0] for name in modules_after(code) - modules_of_python()}
    return loaded - set(sys.stdlib_module_names)


def command(*arguments: str) -> str:
    return f"from planner.cli import main\nassert main(argv={list(arguments)!r}) == 0"


def test_importing_planner_is_free() -> None:
    assert packages_after("import planner") == {"planner"}
    assert packages_after("import planner.cli") == {"planner"}


def test_help_loads_no_command() -> None:
    loaded = modules_after(command("--help"))
    assert not {f"planner.cli.{name}" for name in ("plan", "estimate", "catalogue", "bench", "schema", "watch", "doctor")} & loaded
    assert not {"numpy", "msgspec", "rich", "planner.session"} & loaded


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("plan", "--json"), {"textual", "widgets", "torch", "rich"}),
        (("plan",), {"textual", "widgets", "torch"}),
        (("gpus", "--json"), {"textual", "widgets", "torch", "pynvml", "bench", "rich", "numpy"}),
        (("presets", "--json"), {"textual", "widgets", "torch", "pynvml", "bench", "rich", "numpy"}),
        (("schema", "plan"), {"textual", "widgets", "torch", "pynvml", "bench", "rich", "numpy"}),
        (("estimate", "planner/cli/estimate/__init__.py"), {"textual", "widgets", "torch", "pynvml", "bench", "rich"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_commands_load_only_what_they_need(arguments: tuple[str, ...], unwanted: set[str]) -> None:
    assert not packages_after(command(*arguments)) & unwanted


def test_of_the_benchmark_the_plan_reads_the_protocol_alone() -> None:
    loaded = {name for name in modules_after(command("plan", "--json")) if name.partition(".")[0] == "bench"}
    assert loaded <= {"bench", "bench.protocol"}


def test_the_screen_opens_without_the_heavy_libraries() -> None:
    loaded = modules_after("import widgets.app")
    assert "textual" in loaded
    heavy = {
        "torch",
        "numpy",
        "pynvml",
        "msgspec",
        "click",
        "tomlkit",
        "planner.session",
        "planner.present.cells",
        "planner.engine.search.plan",
    }
    assert not heavy & loaded


def test_the_launcher_imports_neither_textual_nor_click() -> None:
    assert not {"textual", "click", "rich"} & modules_after("import widgets.launch")


def test_the_benchmark_stands_alone() -> None:
    loaded = packages_after("import bench.protocol")
    assert loaded == {"bench"}
    loaded = packages_after("import bench.__main__")
    assert not loaded & {"planner", "widgets", "presets", "numpy", "msgspec", "rich", "click", "textual"}
