"""State of one run of the command line, options shared by several commands, and types of their values."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from planner.session import Session

OpenApp = Callable[..., int]
"""Function that opens the terminal program with the given options and returns its exit code when it is closed."""


class Invocation:
    """Context object (`ctx.obj`) of every command."""

    def __init__(self, open_app: OpenApp | None = None, config: Path | None = None) -> None:
        self.open_app, self.config = open_app, config
        self.state: Path | None = None
        self.exact = False
        self.opened: list[Session] = []

    def session(self) -> Session:
        """Open the planner with the folders of this invocation."""
        from planner.cli.terminal.streams import say
        from planner.session import Session

        self.opened.append(Session.open(config=self.config, state=self.state))
        self.opened[-1].exact, self.opened[-1].narrate = self.exact, say
        return self.opened[-1]

    def warnings(self) -> Iterator[str]:
        """Warnings about the measurements that the command uses."""
        for session in self.opened:
            yield from session.warnings


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]
FILE = click.Path(path_type=Path, dir_okay=False)


def options(*each: Decorator[Any]) -> Decorator[Any]:
    """Decorator that adds all of `each` to a command; the help lists them in this order."""

    def add(command: Any) -> Any:
        for option in reversed(each):
            command = option(command)
        return command

    return add


class Number(click.FloatRange):
    """A finite number in a range, which the help shows; `above`: the lower end is excluded."""

    def __init__(self, least: float, most: float, *, above: bool = False) -> None:
        super().__init__(least, most, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`value` as a number; fails if it is none or outside of the range."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value!r} is not in the range {self._describe_range()}.", param, ctx)
        return found


class Numbers(click.ParamType[Any]):
    """Numbers separated by commas, each accepted by `one`; `amounts`: accepted lengths of the list."""

    name = "numbers"

    def __init__(self, one: click.ParamType[Any], amounts: Sequence[int] = ()) -> None:
        self.one, self.amounts = one, amounts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """Numbers in `value`; fails if one is not accepted, or if there are too few or too many."""
        if not isinstance(value, str):
            return list(value)
        found = [self.one.convert(word.strip(), param, ctx) for word in value.split(",")]
        if self.amounts and len(found) not in self.amounts:
            self.fail(f"{value!r} is not {' or '.join(map(str, self.amounts))} numbers separated by commas.", param, ctx)
        return found


def settings_option(words: str) -> Decorator[Any]:
    """Option `--set KEY=VALUE`, which can be repeated; `words`: its help."""
    return click.option("--set", "settings", multiple=True, callback=_with_keys, metavar="KEY=VALUE", help=words)


def _with_keys(_ctx: click.Context, _option: click.Parameter, settings: tuple[str, ...]) -> tuple[str, ...]:
    """`settings` with labels of the form replaced by their keys."""
    if not settings:
        return settings
    from planner.present.labels import with_key

    return tuple(map(with_key, settings))


def _possible(ctx: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """`folder`, which need not exist; raises `BadParameter` for an invalid name."""
    try:
        if folder is not None:
            folder.stat()
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or error.errno in {errno.ENAMETOOLONG, errno.ELOOP}:
            raise click.BadParameter(f"{folder}: {error}.", ctx, option) from None
    return folder


_FOLDER = click.Path(path_type=Path, file_okay=False)
folder_options = options(
    click.option("--config", type=_FOLDER, callback=_possible, metavar="FOLDER", help="Your presets and settings."),
    click.option("--state", type=_FOLDER, callback=_possible, metavar="FOLDER", help="Measurements and the last form."),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
basis_option = click.option(
    "--basis",
    type=click.Choice(["measured", "spec"]),
    default="measured",
    show_default=True,
    help="Use measurements, or vendor figures only.",
)
own_option = click.option(
    "--own",
    type=FILE,
    metavar="FILE",
    help="Your machines: TOML with [[own]] tables, or output of sinfo or of kubectl get nodes -o json.",
)
exact_option = click.option(
    "--exact",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, on: setattr(ctx.ensure_object(Invocation), "exact", on),
    help="Trace the model's code (torch and transformers on the meta device) instead of reading its config.",
)
length_options = options(
    click.option(
        "--input-tokens", type=Number(1, 1e9), metavar="N", help="Tokens of each request, if the source does not state them."
    ),
    click.option(
        "--output-tokens",
        type=Number(1, 1e9),
        metavar="N",
        help="Output tokens of each request, if the source does not state them.",
    ),
)


def given_options(names: Iterable[str]) -> list[str]:
    """Names of those options of the parameters `names` that are on the command line."""
    context = click.get_current_context()
    given = {name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    return [parameter.opts[0] for parameter in context.command.params if parameter.name in given]
