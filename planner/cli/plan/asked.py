"""The question to `plan` and `report`: a workload, changes of it, and what the answer rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click
import msgspec

from planner.cli.completion import gpu_names, preset_names
from planner.cli.invocation import Invocation
from planner.cli.options import basis_option, options, own_option, settings_option
from planner.cli.plan.settings import name_sources, parse_settings
from planner.errors import UserError
from planner.paths import DEFAULT_PRESET
from planner.present.command_line import PlanCommand
from planner.workload.changes import fields_of, with_settings
from planner.workload.tasks import Objective

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan
    from planner.session import Session
    from planner.workload.tasks import Workload


class Ranked(NamedTuple):
    """A workload with its plan."""

    name: str
    """Name of the preset the workload was made from, or of its model."""
    workload: Workload
    plan: Plan


workload_options = options(
    click.argument("preset", required=False, shell_complete=preset_names),
    settings_option("Change one key of the workload (targets.p95_request_s=3); no value: choose for me."),
    click.option(
        "--gpu",
        "gpus",
        multiple=True,
        metavar="NAME",
        shell_complete=gpu_names,
        help="Consider this GPU only (repeat for more).",
    ),
    own_option,
    click.option("--objective", type=click.Choice(get_args(Objective)), help="What to rank by."),
    basis_option,
)
"""The argument PRESET and the options that change it, which `plan_command` takes by name."""


def plan_command(invocation: Invocation, *, preset: str | None, **given: Any) -> PlanCommand:
    """The command that the options of `workload_options` spell: settings that give model and task need no preset."""
    whole = parse_settings(given["settings"]).keys() >= {"model", "task"}
    return PlanCommand(preset=preset or ("" if whole else DEFAULT_PRESET), config=invocation.config, **given)


def ranked(session: Session, command: PlanCommand, top: int | None, *, each_gpu: bool = False) -> Ranked:
    """The plan that `command` asks for, cut as `Session.plan` says; raises `UserError` whose problems name the option that caused them."""
    changes = parse_settings(command.settings)
    preset = session.presets.load(command.preset) if command.preset else None
    if command.gpus:
        changes["gpus_considered"] = list(command.gpus)
    if command.own:
        changes["own"] = msgspec.to_builtins(session.machines(command.own))
    if command.objective:
        changes["objective"] = command.objective
    where = str(preset.path) if preset else "--set"
    try:
        workload = session.workload(fields_of(preset.workload, changes) if preset else with_settings({}, changes), where)
        name = preset.name if preset else workload.model if isinstance(workload.model, str) else "your model"
        return Ranked(name, workload, session.plan(workload, basis=command.basis, top=top, each_gpu=each_gpu, hints=True))
    except UserError as wrong:
        raise name_sources(wrong, command.settings, command.gpus, where) from wrong
