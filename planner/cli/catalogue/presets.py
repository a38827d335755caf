"""`gpu-planner presets`: shipped workloads and the user's own."""

from __future__ import annotations

import sys
from typing import Any

import click

from planner.cli.commands import DefaultGroup
from planner.cli.completion import preset_names
from planner.cli.exits import ExitCode, print_problems
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_columns, print_json
from planner.errors import Problem, UserError
from planner.reading import read_text
from planner.workload.presets import Preset


@click.group(cls=DefaultGroup, default="list", of_word="show")
def presets() -> None:
    """Workload presets: the shipped ones and your own."""


@presets.command("list")
@json_option
@pass_invocation
def list_presets(invocation: Invocation, as_json: bool) -> int:
    """List every preset, including your own."""
    shelf = invocation.session().presets
    loaded: list[Preset] = []
    unusable: list[Problem] = []
    for name in shelf.names():
        try:
            loaded.append(shelf.load(name))
        except UserError as wrong:
            unusable += wrong.problems
    if as_json:
        print_json([_as_object(preset) for preset in loaded])
    else:
        heads = ("preset", "task", "origin", "title")
        print_columns(heads, [(preset.name, preset.workload.task, preset.origin, preset.workload.title) for preset in loaded])
    if unusable:
        print_problems(UserError(unusable))
        return ExitCode.WRONG_INPUT
    return ExitCode.ANSWERED


def _as_object(preset: Preset) -> dict[str, Any]:
    return {"name": preset.name, "path": str(preset.path), "origin": preset.origin, "workload": preset.workload}


@presets.command("show")
@click.argument("name", shell_complete=preset_names)
@json_option
@pass_invocation
def show_preset(invocation: Invocation, name: str, as_json: bool) -> int:
    """Print one preset as TOML, to save and edit, or as JSON."""
    preset = invocation.session().presets.load(name)
    if as_json:
        print_json(_as_object(preset))
    else:
        sys.stdout.write(read_text(preset.path))
    return ExitCode.ANSWERED
