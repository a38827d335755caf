"""Runs of `gpu-planner` without the user's own files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def own_folders(home: str) -> dict[str, str]:
    """Variables that put every folder of the user below `home`, and this checkout first in Python's path."""
    folders = {f"XDG_{name.upper()}_HOME": f"{home}/{name}" for name in ("config", "state", "cache", "data")}
    return folders | {"HOME": home, "PYTHONPATH": str(ROOT)}


def run_program(arguments: Sequence[str], home: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The completed command with its output; `given` is its standard input."""
    command = [sys.executable, "-m", "planner", *arguments]
    environment = {**os.environ, **own_folders(home), **variables}
    return subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False, cwd=ROOT)
