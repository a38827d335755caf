"""The command line: the same answers as the terminal program, for pipes and scripts.

`main` is the door. Nothing but the standard library is imported until it is called, and a command's own module only
when that command is the one invoked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.cli.invocation import OpenApp


def main(open_app: OpenApp | None = None, argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `planner.cli.exits`).

    `open_app` opens the terminal program; without it, or without a terminal, the default plan is printed instead.
    """
    from planner.cli.exits import guarded
    from planner.cli.root import run

    return guarded(lambda: run(open_app, argv))
