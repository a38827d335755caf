"""Where the repository is, and the command line as a test runs it (the fixture `run_planner`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RunPlanner = Callable[..., "subprocess.CompletedProcess[str]"]
