"""`gpu-planner` itself: the table of commands, and opening the terminal program when none is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

import planner
from planner.cli import AppOptions, OpenApp
from planner.cli.groups import DefaultGroup, LazyCommand, did_you_mean
from planner.cli.invocation import Invocation, folder_options, pass_invocation
from planner.errors import Problem, UserError, nearest_names

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

COMMANDS = {
    "plan": LazyCommand("planner.cli.plan.command", "plan", "Rank GPUs, counts and layouts for one workload."),
    "report": LazyCommand(
        "planner.cli.report", "report", "Write the decision for one workload, with its reasons, as a file to keep."
    ),
    "estimate": LazyCommand(
        "planner.cli.estimate.command", "estimate", "Evaluate fully given candidates: JSON lines in, JSON lines out."
    ),
    "bench": LazyCommand("planner.cli.bench.command", "bench", "Measure this machine; results are kept and used by plan."),
    "study": LazyCommand(
        "planner.cli.study", "study", "Compute per dollar over model or batch sizes, and where the best GPU changes."
    ),
    "watch": LazyCommand("planner.cli.watch.command", "watch", "Telemetry of this machine's GPUs."),
    "rightsize": LazyCommand(
        "planner.cli.watch.rightsize", "rightsize", "Advice from what GPUs are seen to do, with what it saves."
    ),
    "gpus": LazyCommand("planner.cli.catalogue.gpus", "gpus", "List GPUs, or show one."),
    "models": LazyCommand("planner.cli.catalogue.gpus", "models", "List models, or show one."),
    "presets": LazyCommand("planner.cli.catalogue.gpus", "presets", "List workload presets, or show one."),
    "offers": LazyCommand("planner.cli.catalogue.gpus", "offers", "List prices, or show those of one GPU."),
    "ceilings": LazyCommand(
        "planner.cli.catalogue.ceilings", "ceilings", "Show what a GPU is taken to reach, and what measuring changed."
    ),
    "measurements": LazyCommand(
        "planner.cli.measurements.command", "measurements", "List, show, export, import or remove measurements."
    ),
    "schema": LazyCommand("planner.cli.schema", "schema", "Print the JSON Schema of what goes in and out."),
    "validate": LazyCommand(
        "planner.cli.validate.command", "validate", "Compare predictions with published measurements and your own."
    ),
    "doctor": LazyCommand("planner.cli.doctor", "doctor", "Say what was found: driver, torch, folders, prices."),
}


def app_options(command: Decorated) -> Decorated:
    """Add the options that concern the terminal program."""
    python = click.option("--python", metavar="PATH", type=click.Path(path_type=Path), help="Interpreter whose torch is measured.")
    theme = click.option("--theme", metavar="NAME", help="Colour theme.")
    ascii_only = click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII signs alone.")
    replay = click.option(
        "--replay",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Show recorded telemetry (watch --record).",
    )
    demo = click.option("--demo", is_flag=True, help="Show the telemetry that is shipped: composed, not measured.")
    return python(theme(ascii_only(replay(demo(command)))))


@click.group(
    cls=DefaultGroup,
    lazy=COMMANDS,
    default="open",
    takes_argument=True,
    subcommand_metavar="[PRESET | COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Without a command the terminal program opens, on PRESET if one is named (a name or the path of a .toml file). Exit codes: 0 answered, 1 nothing fits or nothing found, 2 wrong usage or input, 130 interrupted.",
)
@click.version_option(planner.__version__, prog_name="gpu-planner")
@app_options
@folder_options
@click.pass_context
def root(
    ctx: click.Context,
    python: Path | None,
    theme: str | None,
    ascii_only: bool,
    replay: Path | None,
    demo: bool,
    config: Path | None,
    state: Path | None,
) -> None:
    """Which GPU, how many, rented or bought, a transformer workload needs."""
    invocation = ctx.ensure_object(Invocation)
    invocation.config, invocation.state = config, state
    if python or theme or ascii_only or replay or demo:
        raise click.UsageError(
            f"--python, --theme, --ascii, --replay and --demo concern the terminal program; give them after {ctx.invoked_subcommand!r} if it has them.",
            ctx,
        )


class OpenContext(click.Context):
    """Of the command nobody names: in words about its usage it is `gpu-planner` itself."""

    @property
    def command_path(self) -> str:
        """As the parent is called."""
        return self.parent.command_path if self.parent else super().command_path


class OpenCommand(click.Command):
    """The command that runs when none is named."""

    context_class = OpenContext


@root.command("open", hidden=True, cls=OpenCommand)
@click.argument("preset", required=False)
@app_options
@folder_options
@pass_invocation
@click.pass_context
def open_command(
    ctx: click.Context,
    invocation: Invocation,
    preset: str | None,
    python: Path | None,
    theme: str | None,
    ascii_only: bool,
    replay: Path | None,
    demo: bool,
    config: Path | None,
    state: Path | None,
) -> int:
    """Open the terminal program; without a terminal, print the plan."""
    invocation.config, invocation.state = config, state
    if preset is not None:
        _require_preset(invocation, preset)
    if invocation.open_app is not None and _on_a_terminal():
        _require_recording(replay, demo=demo)
        return invocation.open_app(AppOptions(preset, python, theme, ascii_only, config, state, replay, demo))
    from planner.cli.plan.command import plan

    code: int = ctx.invoke(plan, preset=preset)
    return code


def _require_preset(invocation: Invocation, preset: str) -> None:
    """Fail before the screen is taken over, and think of commands too: the word may be a mistyped one."""
    try:
        invocation.session().presets.load(preset)
    except UserError as wrong:
        hint = did_you_mean(preset, list(COMMANDS))
        if hint and not Path(preset).exists() and os.sep not in preset:
            presets_near = [name for problem in wrong.problems for name in problem.nearest]
            nearest = nearest_names(preset, [*COMMANDS, *presets_near])
            raise UserError(Problem("", "", f"{preset!r} is neither a command nor a preset.", nearest)) from wrong
        raise


def _require_recording(replay: Path | None, *, demo: bool) -> None:
    """Fail before the screen is taken over."""
    if replay is not None:
        from planner.cli.watch.source import Origin

        Origin(replay=replay, demo=demo).recording()


def _on_a_terminal() -> bool:
    """Whether a full-screen program can draw: a real terminal both ways that understands cursor movement."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def run(open_app: OpenApp | None, argv: Sequence[str] | None) -> int:
    """Parse `argv` (the process's own when None), run the command, return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    with root.make_context("gpu-planner", arguments, obj=Invocation(open_app)) as ctx:
        code = root.invoke(ctx)
    return int(code or 0)
