"""State shared by one invocation's command and its options: the folders it was given, and the session opened on them."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from planner.session import Session

OpenApp = Callable[..., int]
"""Opens the terminal program with the options given by name; returns its exit code once it is closed."""
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


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

basis_option = click.option(
    "--basis",
    type=click.Choice(["measured", "spec"]),
    default="measured",
    show_default=True,
    help="Use measurements, or vendor figures alone.",
)
own_option = click.option(
    "--own",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Your machines: TOML with [[own]] tables, the output of sinfo, or of kubectl get nodes -o json.",
)
exact_option = click.option(
    "--exact",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, on: setattr(ctx.ensure_object(Invocation), "exact", on),
    help="Trace the model's own code (torch and transformers on the meta device) instead of reading its config by family.",
)


class Number(click.FloatRange):
    """A finite number in a range of which both ends are told."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        super().__init__(least, most, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`value` as a number; fails for one beyond the range, or none."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)
        return found


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _possible(ctx: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """`folder`, which need not be there; raises `BadParameter` for a name that no folder can have."""
    try:
        if folder is not None:
            folder.stat()
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno in {errno.ENAMETOOLONG, errno.ELOOP}:
            raise click.BadParameter(f"{folder}: {error}.", ctx, option) from None
    return folder


def folder_options(command: Decorated) -> Decorated:
    """Add `--config` and `--state` to a command."""
    kind = click.Path(path_type=Path, file_okay=False)
    config = click.option("--config", type=kind, callback=_possible, metavar="FOLDER", help="Your presets and settings.")
    state = click.option("--state", type=kind, callback=_possible, metavar="FOLDER", help="Measurements and the last form.")
    return config(state(command))
