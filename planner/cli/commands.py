"""Groups of commands, and the table of all commands, whose modules are imported only when a command runs."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from planner.errors import nearest_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """Location of a command that is imported when it runs, and its line in the help."""

    target: str
    """Module below `planner.cli` and function: 'plan.command:plan'."""
    summary: str


def did_you_mean(given: str, accepted: list[str]) -> str:
    """Suggestion of similar names, " Did you mean 'a' or 'b'?", or '' if no accepted name is similar."""
    nearest = nearest_names(given, accepted)
    return f" Did you mean {' or '.join(repr(name) for name in nearest)}?" if nearest else ""


class DefaultGroup(click.Group):
    """A group with a `default` command; `of_word`: the command that takes a first word that is not the name of a command."""

    def __init__(
        self, *args: Any, default: str, of_word: str = "", lazy: Mapping[str, LazyCommand] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})
        self.default = default
        self.of_word = of_word
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # the signature is click's
        """All names in the order of their definition."""
        return [*self.lazy, *(name for name in self.commands if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Command of that name, imported if it is lazy; None if there is no such name."""
        if cmd_name in self.commands or cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        command = pkgutil.resolve_name(f"planner.cli.{self.lazy[cmd_name].target}")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Command named first in `args`; raises `UsageError` with the nearest names."""
        name = args[0]
        if name not in self.list_commands(ctx):
            raise click.UsageError(f"No such command {name!r}.{did_you_mean(name, self.list_commands(ctx))}", ctx)
        return name, self.get_command(ctx, name), args[1:]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the name of the default command if no command is named."""
        word = self._first_word(ctx, args)
        if ctx.resilient_parsing and word is None and self.of_word != self.default:
            return super().parse_args(ctx, args)  # a shell completes the word that comes next
        asks_for_help = bool(args) and args[0] in {*self.get_help_option_names(ctx), "--version"}
        if not asks_for_help and word is None:
            args = [self.default, *args]
        elif not asks_for_help and self._is_argument(ctx, word):
            args = [self.of_word, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions: commands, and arguments of the default command if none is named."""
        found = super().shell_complete(ctx, incomplete)
        default = None if self.of_word == self.default else self.get_command(ctx, self.default)
        if default is not None:
            inner = click.Context(default, parent=ctx, info_name=self.default, resilient_parsing=True)
            known = {item.value for item in found}
            found += [item for item in default.shell_complete(inner, incomplete) if item.value not in known]
        return found

    def _is_argument(self, ctx: click.Context, word: str | None) -> bool:
        """True if a word belongs to the command `of_word`: where another than the default takes it, a command spelled wrongly does not."""
        commands = self.list_commands(ctx)
        return (
            bool(self.of_word and word)
            and word not in commands
            and (self.of_word == self.default or not nearest_names(str(word), commands))
        )

    def _first_word(self, ctx: click.Context, args: list[str]) -> str | None:
        """First of `args` that is neither an option nor an option's value."""
        with_value = {
            spelling
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag
            for spelling in option.opts
        }
        rest = iter(args)
        for word in rest:
            if word in with_value:
                next(rest, None)
            elif not word.startswith("-") or word == "-":
                return word
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their summaries; lazy ones are not imported."""
        rows = [
            (name, self.lazy[name].summary if name in self.lazy else self.commands[name].get_short_help_str(limit=100))
            for name in self.list_commands(ctx)
            if name in self.lazy or not self.commands[name].hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


COMMANDS = {
    "plan": LazyCommand("plan.command:plan", "Rank GPUs, counts and layouts for one workload."),
    "report": LazyCommand("report:report", "Write a report of the decision for one workload, with its reasons."),
    "estimate": LazyCommand("estimate.command:estimate", "Evaluate the given candidates; reads and writes JSON lines."),
    "fit": LazyCommand("decide.fit:fit", "List models that run on given GPUs: model, precision, context, users."),
    "guide": LazyCommand("decide.guide:guide", "Ask five questions and recommend GPUs, provider and commitment."),
    "portfolio": LazyCommand("decide.portfolio:portfolio", "Plan several workloads on owned, committed and hourly GPUs."),
    "bench": LazyCommand("bench.command:bench", "Benchmark this machine; later plans use the results."),
    "study": LazyCommand("study:study", "Compare compute per dollar over model or batch sizes."),
    "traffic": LazyCommand("traffic:traffic", "Summarise recorded requests, or create a preset from them."),
    "replay": LazyCommand("traffic:replay", "Simulate serving a recorded trace, hour by hour."),
    "watch": LazyCommand("watch.command:watch", "Show telemetry of GPUs."),
    "rightsize": LazyCommand("watch.rightsize:rightsize", "Recommend changes from telemetry, with the saving of each."),
    "gpus": LazyCommand("catalogue.gpus:gpus", "List GPUs, or show one."),
    "models": LazyCommand("catalogue.models:models", "List models, or show one."),
    "presets": LazyCommand("catalogue.presets:presets", "List workload presets, or show one."),
    "offers": LazyCommand("catalogue.offers:offers", "List prices, or show those of one GPU."),
    "ceilings": LazyCommand("catalogue.ceilings:ceilings", "Show the rates assumed for a GPU, and how measurements changed them."),
    "measurements": LazyCommand("measurements.command:measurements", "List, show, export, import or remove measurements."),
    "predictions": LazyCommand("predictions:predictions", "List predictions, and record their measured results."),
    "schema": LazyCommand("schema:schema", "Print the JSON Schemas of inputs and outputs."),
    "validate": LazyCommand("validate.command:validate", "Compare predictions with published measurements and your own."),
    "completion": LazyCommand("completion:completion", "Print the completion script of a shell."),
    "mcp": LazyCommand("mcp.command:mcp", "Serve the planner as tools of the Model Context Protocol."),
    "doctor": LazyCommand("doctor:doctor", "Show what was found on this machine: driver, torch, folders, prices."),
    "help": LazyCommand("help:help_command", "Show help for a command, or for all as a tree, Markdown or manual page."),
}
