"""`gpu-planner models`: the models known by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from planner.cli.commands import DefaultGroup
from planner.cli.completion import model_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_columns, print_facts, print_json
from planner.units import UNKNOWN, bytes_text, count_text, si_text
from planner.workload.architecture import Architecture
from planner.workload.checkpoints.tensors import by_dtype
from planner.workload.huggingface.config import known_family
from planner.workload.huggingface.vision import read_tower
from planner.workload.models import Model
from planner.workload.sublayers import formats_text
from planner.workload.weights import FORMATS


@click.group(cls=DefaultGroup, default="list", of_word="show")
def models() -> None:
    """Models of the catalogue, each described by its Hugging Face config."""


@models.command("list")
@json_option
@pass_invocation
def list_models(invocation: Invocation, as_json: bool) -> int:
    """List every model of the catalogue."""
    shelf = invocation.session().models
    if as_json:
        print_json([_as_read(shelf.find(name)) for name in shelf.names()])
        return ExitCode.ANSWERED
    columns = ("model", "title", "type", "Hugging Face id and other names")
    print_columns(
        columns, [(name, head.title, kind or UNKNOWN, ", ".join(head.aliases)) for name, (head, kind) in shelf.heads().items()]
    )
    return ExitCode.ANSWERED


@models.command("show")
@click.argument("name", metavar="NAME|PATH|HUB-ID", shell_complete=model_names)
@click.option("--exact", is_flag=True, help="Trace the model's code, and store the result for later plans.")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    help="With --exact: the Python that has torch and transformers; by default the running one.",
)
@json_option
@pass_invocation
def show_model(invocation: Invocation, name: str, exact: bool, python: Path | None, as_json: bool) -> int:
    """Show one model: parameters, FLOPs and cache per token, file sizes, and the source of each.

    NAME is a model of the catalogue, PATH a config.json, a folder with one, or a GGUF file, HUB-ID an id of the Hugging Face hub.
    With --exact, the code of the installed transformers runs on the meta device. Code from a model's repository never runs.
    """
    session = invocation.session()
    shelf = session.models
    config = shelf.config(name)
    a = session.described(dict(config), python) if exact else session.architecture(name)
    stored = [] if exact else [msgspec.to_builtins(one) for one in by_dtype(shelf.tensors(name))]
    parameters, sizes = _parameters(a), _sizes(a)
    source = _source(config, a, traced=exact or session.traced(config))
    known = shelf.known(name)
    if as_json:
        print_json(
            {
                **(_as_read(known) if known else {"name": name, "config": config}),
                "parameters": parameters,
                "counted_from": source,
                "sizes": sizes,
                "format": {"name": a.stored_as, "parts": msgspec.to_builtins(a.stored_parts)},
                "picture": read_tower(config, a.width),
                "stored": stored,
            }
        )
        return ExitCode.ANSWERED
    card = {
        "title": known.title if known else "",
        **{f"{field} parameters": count_text(count) for field, count in parameters.items()},
        "context": f"{a.max_context:,} tokens" if a.max_context else "",
        "counted from": source,
        **{field.replace("_", " "): _size_text(field, size) for field, size in sizes.items() if size},
        "tokens of a picture": _picture(config, a),
        "weights": _weights(a),
        "not counted": ", ".join(a.left_out),
        **{f"stored as {one['dtype']}": f"{bytes_text(one['bytes'])} in {one['tensors']:,} tensors" for one in stored},
        "other names": ", ".join(known.aliases) if known else "",
        "source": f"{known.source} ({known.retrieved})" if known else "",
        "note": known.note if known else "",
        **{key: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in config.items()},
    }
    print_facts(known.name if known else name, card)
    return ExitCode.ANSWERED


def _as_read(known: Model) -> dict[str, Any]:
    """Entry as JSON, with the sizes of the language model at the top level of the config, as in models without towers."""
    found: dict[str, Any] = msgspec.to_builtins(known)
    return found | {"config": found["config"].get("text_config", {}) | found["config"]}


def _parameters(architecture: Architecture) -> dict[str, int]:
    """Counts of parameters: all, those that one token uses, those of layers that predict further tokens, and those of towers."""
    further = {"mtp": architecture.mtp_parameters} if architecture.mtp_layers else {}
    further |= {"vision": architecture.towers} if architecture.towers else {}
    return {"total": architecture.total, "active": architecture.active, "embedding": architecture.embedding, **further}


def _picture(config: dict[str, Any], architecture: Architecture) -> str:
    """Tokens that a picture adds to a prompt."""
    if (tower := read_tower(config, architecture.width)) is None:
        return ""
    return f"{tower.tokens:,} each, or each of its tiles" if tower.tokens else f"one for {tower.pixels} × {tower.pixels} pixels"


def _weights(a: Architecture) -> str:
    """Size of the checkpoint in the formats that its config names, otherwise in 16 bit."""
    stored_as = a.stored_as or "bf16"
    if stored_as not in FORMATS:
        return ""
    apart = f" ({formats_text(a.stored_parts)})" if a.stored_parts else ""
    return f"{bytes_text(FORMATS[stored_as].stored(a).total_bytes)} in {stored_as}{apart}"


def _source(config: dict[str, Any], architecture: Architecture, *, traced: bool) -> str:
    """Description of where the parameter count comes from."""
    if traced:
        return "its own code, traced"
    if known_family(config):
        return f"its config, as models of the family {architecture.family} are built"
    return "its config, and the names and shapes of its tensors"


def _size_text(field: str, size: float) -> str:
    """Text of a size, such as '64.0 GFLOP', '131,072 values' or '64'."""
    if field.startswith("flop"):
        return si_text(size, "FLOP")
    return count_text(size) + (" values" if field.startswith("cached") else "")


def _sizes(a: Architecture) -> dict[str, int | float]:
    """Sizes that determine time and memory: FLOP, and elements of scores, cache and states."""
    return {
        "layers": a.layers,
        "flop_per_token": 2 * a.active_matrix + a.scan_flop,
        "attended_elements": a.attended_all + a.attended_window + a.attended_chosen,
        "cached_per_token": a.cached_all,
        "cached_in_window": a.cached_window,
        "cached_per_token_of_the_encoder": a.cached_source,
        "window": a.window or 0,
        "state_elements": a.state + a.wide_state,
    }
