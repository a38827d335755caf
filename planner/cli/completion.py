"""`gpu-planner completion`: completion of commands, options, and names of presets, GPUs and models in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.exits import ExitCode
from planner.cli.terminal.streams import print_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.session import Session

PROGRAM, VARIABLE = "gpu-planner", "_GPU_PLANNER_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> int:
    """Print the completion script for SHELL.

    bash and zsh: eval "$(gpu-planner completion bash)" in ~/.bashrc, or the same with zsh in ~/.zshrc. fish: gpu-planner completion
    fish > ~/.config/fish/completions/gpu-planner.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    for line in kind(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source().strip().splitlines():
        print_line(line)
    return ExitCode.ANSWERED


def completed(root: click.Command, instruction: str) -> int:
    """Print completions for the shell, which sets an environment variable; returns the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, PROGRAM, VARIABLE, instruction)


def _names(list_names: Callable[[Session], list[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Function that returns names beginning with the typed text, or the only name containing it (zsh would delete the text if there were several).

    It returns none if the catalogue cannot be read.
    """

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[str]:
        from planner.cli.options import Invocation
        from planner.errors import UserError

        try:
            names = list_names(ctx.ensure_object(Invocation).session())
        except UserError:
            return []
        begin = [name for name in names if name.casefold().startswith(typed.casefold())]
        contain = [name for name in names if typed.casefold() in name.casefold()]
        return begin or (contain if len(contain) == 1 else [])

    return complete


def _gpu_spellings(session: Session) -> list[str]:
    from planner.hardware.catalogue.gpus import spellings

    return [name for gpu in session.gpus.all for name in spellings(gpu) if " " not in name]


def _commands_and_presets(session: Session) -> list[str]:
    from planner.cli.commands import COMMANDS

    return [*COMMANDS, *session.presets.names()]


first_words = _names(_commands_and_presets)
preset_names = _names(lambda session: list(session.presets.names()))
gpu_names = _names(_gpu_spellings)
model_names = _names(lambda session: list(session.models.names()))
