"""Main command: its options, and the default command, which opens the terminal program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import planner
from planner.cli.commands import COMMANDS, DefaultGroup, did_you_mean
from planner.cli.completion import VARIABLE, completed, first_words
from planner.cli.exits import MEANINGS
from planner.cli.options import FILE, Invocation, OpenApp, folder_options, options, pass_invocation
from planner.cli.terminal.streams import plain_streams, say
from planner.errors import Problem, UserError, nearest_names
from planner.paths import DEFAULT_PRESET
from planner.startup import can_draw
from planner.workload.huggingface.hub import is_hub_id

app_options = options(
    click.option("--python", metavar="PATH", help="Interpreter whose torch is measured."),
    click.option("--theme", metavar="NAME", help="Colour theme."),
    click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only."),
    click.option("--replay", metavar="FILE", type=FILE, help="Show recorded telemetry (watch --record)."),
    click.option("--demo", is_flag=True, help="Show the shipped recording, which is synthetic, not measured."),
)
"""Options that concern the terminal program."""


@click.group(
    cls=DefaultGroup,
    lazy=COMMANDS,
    default="open",
    of_word="open",
    subcommand_metavar="[PRESET | COMMAND ...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Without a command the terminal program opens, on PRESET if one is named (a name or the path of a .toml file; or a model:"
    " its name, its Hugging Face id, or the path of its config.json)."
    "\n\n\b\nExit codes:\n" + "\n".join(f"  {code:8} {meaning}" for code, meaning in MEANINGS.items()),
)
@click.version_option(planner.__version__, prog_name="gpu-planner")
@app_options
@folder_options
@click.pass_context
def root(ctx: click.Context, /, config: Path | None, state: Path | None, **app: Any) -> None:
    """Find which GPUs, and how many, to rent or buy for a transformer workload."""
    invocation = ctx.ensure_object(Invocation)
    invocation.config, invocation.state = config, state
    if any(app.values()):
        raise click.UsageError(
            f"--python, --theme, --ascii, --replay and --demo apply to the terminal program. Commands that have them take them after their name: {ctx.invoked_subcommand} …",
            ctx,
        )


class OpenContext(click.Context):
    """Context of the default command, whose usage text does not contain its name."""

    @property
    def command_path(self) -> str:
        """Name of the parent."""
        return self.parent.command_path if self.parent else super().command_path


class OpenCommand(click.Command):
    """Command that runs when none is named."""

    context_class = OpenContext


@root.command("open", hidden=True, cls=OpenCommand)
@click.argument("preset", required=False, shell_complete=first_words)
@app_options
@folder_options
@pass_invocation
@click.pass_context
def open_command(
    ctx: click.Context, invocation: Invocation, /, preset: str | None, config: Path | None, state: Path | None, **app: Any
) -> int:
    """Open the terminal program; without a terminal, print the plan."""
    invocation.config, invocation.state = config, state
    model = None if preset is None else _model_or_preset(invocation, preset)
    if invocation.open_app is not None and can_draw():
        _require_recording(app["replay"], demo=app["demo"])
        with plain_streams():
            return invocation.open_app(preset=DEFAULT_PRESET if model else preset, model=model, config=config, state=state, **app)
    from planner.cli.plan.command import plan

    code: int = ctx.invoke(plan, preset=None if model else preset, settings=(f"model={model}",) if model else ())
    return code


def _model_or_preset(invocation: Invocation, preset: str) -> str | None:
    """Name of the model if `preset` names a model; None if it is a preset.

    Raises `UserError` for other words; commands are suggested too, because the word may be a mistyped command.
    """
    session = invocation.session()
    try:
        session.presets.load(preset)
    except UserError as wrong:
        if session.models.is_known(preset) or (is_hub_id(preset) and not Path(preset).exists() and not preset.endswith(".toml")):
            session.architecture(preset)
            return preset
        hint = did_you_mean(preset, list(COMMANDS))
        if hint and not Path(preset).exists() and os.sep not in preset:
            presets_near = [name for problem in wrong.problems for name in problem.nearest]
            holding = tuple(name for name in presets_near if preset.casefold() in name.casefold())
            nearest = holding or nearest_names(preset, [*COMMANDS, *presets_near])
            raise UserError(Problem("", "", f"{preset!r} is neither a command nor a preset.", nearest)) from wrong
        raise
    return None


def _require_recording(replay: Path | None, *, demo: bool) -> None:
    """Raise `UserError` if the recording cannot be read, before the screen opens."""
    if replay is not None:
        from planner.cli.watch.source import Origin

        Origin(replay=replay, demo=demo).recording()


def run(open_app: OpenApp | None, argv: Sequence[str] | None) -> int:
    """Parse `argv` (that of the process if None), run the command and return its exit code."""
    if instruction := os.environ.get(VARIABLE):
        return completed(root, instruction)
    arguments = list(sys.argv[1:] if argv is None else argv)
    invocation = Invocation(open_app)
    try:
        with root.make_context("gpu-planner", arguments, obj=invocation) as ctx:
            return int(root.invoke(ctx) or 0)
    finally:
        for warning in invocation.warnings():
            say(f"warning: {warning}")
