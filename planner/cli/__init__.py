"""Command line: the same answers as the terminal program, for pipes and scripts.

`main` is the entry point. Nothing but the standard library is imported until it is called, and a command's own module only
when that command is the one invoked.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.cli.options import OpenApp

YOUNG_OBJECTS = 200_000
"""Objects added before a garbage collection, more than a plan makes. Answers have no cycles; with Python's default of 700, collections take a
twentieth of the time of many estimates."""


def main(open_app: OpenApp | None = None, argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `planner.cli.exits`).

    `open_app` opens the terminal program; without it, or without a terminal, the default plan is printed instead.
    """
    from planner import startup

    startup.prepare()
    startup.collect_rarely(YOUNG_OBJECTS)
    from planner.cli.exits import guarded
    from planner.cli.root import run
    from planner.cli.terminal.streams import clean_streams

    with clean_streams():
        code = guarded(lambda: run(open_app, argv))
    gc.freeze()  # without this, the interpreter searches all objects for cycles before it exits, which takes 5% of the time of `plan --json`
    return code
