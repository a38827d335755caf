"""Options of `plan` and `report`: the workload, changes to it, the basis of the answer, and terms of costs over years."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click
import msgspec

from planner.cli.completion import gpu_names, preset_names
from planner.cli.options import Invocation, Number, Numbers, basis_option, options, own_option, settings_option
from planner.errors import Problem, Problems, UserError
from planner.paths import DEFAULT_PRESET
from planner.present.choice.chosen import preset_values
from planner.present.command_line import PlanCommand, value_of
from planner.present.labels import key_of
from planner.schema import takes_texts
from planner.workload.changes import ABSENT, with_settings
from planner.workload.tasks import Objective, Workload

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan
    from planner.engine.procurement.paying import Terms
    from planner.hardware.prices.api_prices import ApiPrice
    from planner.session import Session


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Mapping of dotted keys to values, from `key=value` texts; raises `UserError` with every invalid text."""
    problems = Problems("--set")
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            problems.add("", f"{setting!r} is not KEY=VALUE, such as targets.p95_request_s=3.")
        elif field_key := key_of(key.strip()):
            problems.add(key.strip(), f"is the label in the form of {field_key}; --set takes that key.")
        else:
            changes[key.strip()] = _as_listed(key.strip(), value_of(text.strip())) if text.strip() else ABSENT
    problems.raise_if_any()
    return changes


def _as_listed(key: str, value: Any) -> Any:
    """`value`, split at commas into a list if `key` takes a list of names."""
    if isinstance(value, str) and takes_texts(Workload, key):
        return [name for part in value.split(",") if (name := part.strip())]
    return value


def given_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`parse_settings` without keys that have no value."""
    return {name: value for name, value in parse_settings(settings).items() if value is not ABSENT}


def name_sources(wrong: UserError, settings: Sequence[str], gpus: Sequence[str], where: str) -> UserError:
    """Problems attributed to the option that caused them, otherwise to the preset file `where`."""
    given = [setting.partition("=")[0].strip() for setting in settings]

    def source(problem: Problem) -> Problem:
        if problem.where and problem.where != where:
            return problem
        key = problem.key.partition("[")[0]
        if gpus and key == "gpus_considered":
            return problem._replace(where="--gpu", key="")
        if any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in given):
            return problem._replace(where="--set")
        return problem._replace(where=where)

    return UserError([source(problem) for problem in wrong.problems])


NAMES = ("months", "use", "api", "api_rate", "against")
"""Names of the parameters of `terms_of`."""


money_options = options(
    click.option("--months", type=click.IntRange(1, 120), default=36, show_default=True, metavar="N", help="Horizon of the costs."),
    click.option("--use", type=Number(0.001, 1), default=1.0, show_default=True, metavar="SHARE", help="Share of the time in use."),
    click.option("--api", metavar="NAME", help="Compare with this API from the table of API prices."),
    click.option(
        "--api-price",
        "api_rate",
        type=Numbers(Number(0, 1e6), amounts=(2, 3)),
        metavar="IN,OUT[,CACHED]",
        help="Compare with an API at your own rate, in dollars per million tokens.",
    ),
    click.option("--against", type=Number(0, 1e6, above=True), metavar="USD", help="Compare with this price of one GPU per hour."),
)
"""Terms of costs over years."""


def terms_of(
    session: Session, *, months: int, use: float, api: str | None, api_rate: list[float] | None, against: float | None
) -> Terms:
    """Terms given by the options; raises `UserError` for an API that is not in the table."""
    from planner.engine.procurement.paying import Terms
    from planner.hardware.prices.api_prices import api_price

    chosen = api_price(session.api_prices, api) if api else None
    return Terms(months=months, use=use, api=_own_rate(*api_rate) if api_rate else chosen, given_usd_per_h=against)


def _own_rate(input_usd: float, output_usd: float, cached_usd: float | None = None) -> ApiPrice:
    """The user's own price per token, from dollars per million tokens."""
    from planner.hardware.prices.api_prices import ApiPrice

    return ApiPrice(
        name="your rate",
        provider="API",
        input_usd_per_million=input_usd,
        output_usd_per_million=output_usd,
        cached_usd_per_million=cached_usd,
        as_of="",
        source="as given",
    )


class Ranked(NamedTuple):
    """A workload with its plan."""

    name: str
    """Name of the preset of the workload, or of its model."""
    workload: Workload
    plan: Plan


OF_TRAINING = ("sequence", "global_batch", "micro_batch", "train_tokens", "recipe", "optimizer", "checkpointing")
OF_ANSWERS = (
    "batch",
    "concurrency",
    "request_rate_per_s",
    "output_tokens",
    "prefix_tokens",
    "requests",
    "kv_dtype",
    "memory_fraction",
)
UNREAD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("train", "finetune"), OF_ANSWERS),
    **dict.fromkeys(("generate", "prefill"), (*OF_TRAINING, "concurrency")),
    "serve": (*OF_TRAINING, "batch"),
}
"""Task -> keys that have no effect on it."""


def unread_settings(command: PlanCommand, workload: Workload) -> str | None:
    """Note on keys of `--set` that have no effect on the task; training with rollouts generates text too."""
    given = [key for key in parse_settings(command.settings) if key in UNREAD[workload.task] and not workload.rollout]
    return f"--set: {', '.join(given)} does not apply to task={workload.task} and has no effect" if given else None


def rest_of_preset(command: PlanCommand, workload: Workload) -> str:
    """Note on keys of `workload` that come from the default preset because the command names none."""
    kept = [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in preset_values(msgspec.to_builtins(workload), parse_settings(command.settings)).items()
    ]
    return f"keys not given by --set are those of {command.preset} (if you give model and task, the planner chooses them): {' '.join(kept)}"


workload_options = options(
    click.argument("preset", required=False, shell_complete=preset_names),
    settings_option(
        "Set one key of the workload (targets.p95_request_s=3); without a value, the planner chooses. The help text lists the keys."
    ),
    click.option(
        "--gpu", "gpus", multiple=True, metavar="NAME", shell_complete=gpu_names, help="Consider this GPU only (repeat for more)."
    ),
    own_option,
    click.option("--objective", type=click.Choice(get_args(Objective)), help="Objective of the ranking."),
    basis_option,
)
"""Argument PRESET and the options that change the preset, which are keyword arguments of `plan_command`."""


def plan_command(invocation: Invocation, *, preset: str | None, **given: Any) -> PlanCommand:
    """Command given by `workload_options`; settings that give model and task need no preset."""
    whole = parse_settings(given["settings"]).keys() >= {"model", "task"}
    return PlanCommand(preset=preset or ("" if whole else DEFAULT_PRESET), config=invocation.config, **given)


def ranked(session: Session, command: PlanCommand, top: int | None, *, each_gpu: bool = False) -> Ranked:
    """Plan that `command` describes, cut as in `Session.plan`; raises `UserError` with the options that caused it."""
    changes = parse_settings(command.settings)
    preset = session.preset(command.preset) if command.preset else None
    if command.gpus:
        changes["gpus_considered"] = list(command.gpus)
    if command.own:
        changes["own"] = msgspec.to_builtins(session.machines(command.own))
    if command.objective:
        changes["objective"] = command.objective
    where = str(preset.path) if preset else "--set"
    try:
        workload = session.workload(session.changed(preset.workload, changes) if preset else with_settings({}, changes), where)
        name = preset.name if preset else workload.model if isinstance(workload.model, str) else "your model"
        return Ranked(name, workload, session.plan(workload, basis=command.basis, top=top, each_gpu=each_gpu, hints=True))
    except UserError as wrong:
        raise name_sources(wrong, command.settings, command.gpus, where) from wrong
