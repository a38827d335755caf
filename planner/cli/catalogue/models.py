"""`gpu-planner models`: the models known by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from planner.cli.completion import model_names
from planner.cli.exits import ExitCode
from planner.cli.groups import DefaultGroup
from planner.cli.invocation import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_card, print_columns, print_json
from planner.units import UNKNOWN, count_text

if TYPE_CHECKING:
    from planner.workload.architecture import Architecture


@click.group(cls=DefaultGroup, default="list")
def models() -> None:
    """Models, each a Hugging Face style config."""


@models.command("list")
@json_option
@pass_invocation
def list_models(invocation: Invocation, as_json: bool) -> int:
    """List every model the catalogue knows by name."""
    shelf = invocation.session().models
    known = [shelf.find(name) for name in shelf.names()]
    if as_json:
        print_json(known)
        return ExitCode.ANSWERED
    heads = ("model", "title", "type", "Hugging Face id and other names")
    print_columns(
        heads,
        [(model.name, model.title, str(model.config.get("model_type", UNKNOWN)), ", ".join(model.aliases)) for model in known],
    )
    return ExitCode.ANSWERED


@models.command("show")
@click.argument("name", shell_complete=model_names)
@json_option
@pass_invocation
def show_model(invocation: Invocation, name: str, as_json: bool) -> int:
    """Show one model: its parameters, its config and where that comes from."""
    session = invocation.session()
    model = session.models.find(name)
    parameters = _parameters(session.architecture(model.name))
    if as_json:
        print_json({**msgspec.to_builtins(model), "parameters": parameters})
        return ExitCode.ANSWERED
    counts = {field: count_text(count) for field, count in parameters.items()}
    facts = {
        "title": model.title,
        **{f"{field} parameters": text for field, text in counts.items()},
        "other names": ", ".join(model.aliases),
        "source": f"{model.source} ({model.retrieved})",
        "note": model.note,
        **{key: str(value) for key, value in model.config.items()},
    }
    print_card(model.name, facts)
    return ExitCode.ANSWERED


@models.command("describe")
@click.argument("name")
@click.option(
    "--python", type=click.Path(path_type=Path), help="The Python that has torch and transformers; the running one when left out."
)
@json_option
@pass_invocation
def describe_model(invocation: Invocation, name: str, python: Path | None, as_json: bool) -> int:
    """Trace the code of a model on the meta device, and keep what it does for every plan.

    NAME is a model of the catalogue, a path of a config.json, or an id of the Hugging Face hub. Nothing of the model's own
    repository is run, only the code of the transformers that is installed.
    """
    session = invocation.session()
    a = session.described(dict(session.models.config(name)), python)
    facts: dict[str, int | float] = {
        **_parameters(a),
        "layers": a.layers,
        "flop_per_token": 2 * a.active_matrix + a.scan_flop,
        "attended_elements": a.attended_all + a.attended_window + a.attended_chosen,
        "cached_per_token": a.cached_all,
        "cached_in_window": a.cached_window,
        "window": a.window or 0,
        "state_elements": a.state + a.wide_state,
    }
    if as_json:
        print_json(facts)
    else:
        print_card(name, {key.replace("_", " "): count_text(value) for key, value in facts.items()})
    return ExitCode.ANSWERED


def _parameters(architecture: Architecture) -> dict[str, int]:
    """Parameters of the whole model, and of what one token passes."""
    return {"total": architecture.total, "active": architecture.active, "embedding": architecture.embedding}
