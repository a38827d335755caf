"""The command line: the same answers as the terminal program, for pipes and scripts.

`main` is the door. Nothing but the standard library is imported until it is called, and a command's own module only
when that command is the one invoked.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What the command line asks of the terminal program."""

    preset: str | None = None
    """Name or path of the workload to open with; None: the last one, or the default."""
    python: Path | None = None
    """Interpreter whose torch the benchmark measures; None: the one this runs under."""
    theme: str | None = None
    """Name of a colour theme; None: the saved one."""
    ascii_only: bool = False
    """Draw with ASCII signs alone."""
    config: Path | None = None
    """Folder of the user's presets and settings; None: the platform's."""
    state: Path | None = None
    """Folder of measurements and the last form; None: the platform's."""
    replay: Path | None = None
    """A recording of telemetry to show instead of this machine's."""
    demo: bool = False
    """Show the recording that is shipped."""


OpenApp = Callable[[AppOptions], int]
"""Opens the terminal program and returns its exit code once it is closed."""


def main(open_app: OpenApp | None = None, argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `planner.cli.exits`).

    `open_app` opens the terminal program; without it, or without a terminal, the default plan is printed instead.
    """
    from planner.cli.exits import guarded
    from planner.cli.root import run

    code = guarded(lambda: run(open_app, argv))
    gc.freeze()  # the process ends; without this it looks through all objects for cycles once more, for a twentieth of `plan --json`
    return code
