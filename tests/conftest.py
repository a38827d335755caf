"""What every test gets: folders of its own, a terminal that is always the same, and the command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nvml_stub import ControlFile, build
from repository import ROOT, RunPlanner

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
INHERITED_SWITCHES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM", "SSH_CONNECTION", "PYTHONWARNINGS")


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test alone: the developer's presets, measurements and terminal never decide a test."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable, folder in (
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
    ):
        monkeypatch.setenv(variable, str(home / folder))
    for variable in [*INHERITED_SWITCHES, *(name for name in os.environ if name.startswith("TEXTUAL"))]:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in TERMINAL.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return home


@pytest.fixture(autouse=True)
def _still_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blinking cursor would make two screenshots of one screen differ. Tests without Textual do not pay for it."""
    if "textual" in sys.modules:
        from textual.widgets import Input, TextArea

        monkeypatch.setattr(Input, "cursor_blink", False)
        monkeypatch.setattr(TextArea, "cursor_blink", False)


@pytest.fixture
def run_planner(tmp_path: Path) -> RunPlanner:
    """Run the command line in a process of its own, in an empty folder; warnings are errors there too."""

    def run(
        *arguments: str, stdin: str | None = None, timeout_s: float = 60, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "planner", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for the driver's library, compiled once."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def control(tmp_path: Path) -> ControlFile:
    """What the stand-in is told to say; no GPU at first."""
    file = ControlFile(tmp_path / "control")
    file.write()
    return file
