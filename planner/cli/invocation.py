"""State of one run of the command line: the folders it was given, and the session opened on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from planner.session import Session

OpenApp = Callable[..., int]
"""Opens the terminal program with the options given by name; returns its exit code once it is closed."""


class Invocation:
    """The context object (`ctx.obj`) of every command."""

    def __init__(self, open_app: OpenApp | None = None, config: Path | None = None) -> None:
        self.open_app, self.config = open_app, config
        self.state: Path | None = None
        self.exact = False
        self.opened: list[Session] = []

    def session(self) -> Session:
        """Open the planner on the folders of this invocation."""
        from planner.cli.terminal.streams import say
        from planner.session import Session

        self.opened.append(Session.open(config=self.config, state=self.state))
        self.opened[-1].exact, self.opened[-1].tell = self.exact, say
        return self.opened[-1]

    def warnings(self) -> Iterator[str]:
        """Faults of the measurements that the command rests on."""
        for session in self.opened:
            yield from session.warnings


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
