"""`gpu-planner predictions`: list predictions, record their results, import results, remove both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from planner.cli.commands import DefaultGroup
from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, json_option, pass_invocation
from planner.cli.terminal.sections import print_columns, print_json
from planner.cli.terminal.streams import print_line, say
from planner.errors import Problem, UserError, nearest_names
from planner.predictions.entries import Predicted, Seen
from planner.reading import read_file
from planner.schema import read_struct
from planner.session import Session
from planner.units import change_text, counted, digits

MOST_IMPORT_BYTES = 1 << 26


@click.group(cls=DefaultGroup, default="list")
def predictions() -> None:
    """Predictions and their results, which adjust the ranges of later predictions on this machine."""


@predictions.command("list")
@json_option
@pass_invocation
def list_predictions(invocation: Invocation, /, as_json: bool) -> int:
    """List predictions with their ranges and results, the newest last, and the adjustments of ranges."""
    session = invocation.session()
    log = session.predictions
    found, seen, learned = log.predicted(), log.seen(), session.own_results()
    if log.warning:
        say(f"note: {log.warning}")
    if as_json:
        print_json(
            {
                "predictions": [_as_object(one, seen) for one in found],
                "learned": {kind: learned_range._asdict() for kind, learned_range in learned.items()},
            }
        )
        return ExitCode.ANSWERED if found else ExitCode.NOTHING_FOUND
    if not found:
        say("no predictions yet; run gpu-planner plan")
        return ExitCode.NOTHING_FOUND
    rows = [row for one in found for row in _rows(one, seen)]
    print_columns(
        ("id", "when", "from", "what", "figure", "predicted", "low", "high", "seen"),
        rows,
        numeric=("predicted", "low", "high", "seen"),
    )
    for kind, learned_range in learned.items():
        results = f"{learned_range.results:,} of your own result{'' if learned_range.results == 1 else 's'}"
        say(f"ranges of {kind}: × {digits(learned_range.factor)} by {results}")
    return ExitCode.ANSWERED


@predictions.command("seen")
@click.argument("name", metavar="ID")
@click.argument("values", nargs=-1, required=True, metavar="FIGURE=VALUE...")
@click.option("--source", default="", metavar="TEXT", help="Origin of the measurement.")
@pass_invocation
def note_seen(invocation: Invocation, name: str, values: Sequence[str], source: str) -> int:
    """Record the result of prediction ID: ttft_s=0.21 output_tokens_per_s=1840, in seconds and tokens per second."""
    from planner.session.prediction_log import results

    session = invocation.session()
    (said,) = _named(session, [name])
    given = dict(_parsed(value, list(said.figures), f"seen {name}") for value in values)
    session.predictions.add_seen(*results(said, given, source)).require()
    for figure, value in given.items():
        print_line(f"{said.id} {figure}: {_verdict(said, figure, value)}")
    return ExitCode.ANSWERED


@predictions.command("import")
@click.argument("files", nargs=-1, required=True, type=FILE)
@pass_invocation
def import_results(invocation: Invocation, files: tuple[Path, ...]) -> int:
    """Import FILES of results: lines of `estimate` with a key "seen", {"ttft_s": 0.21}, each predicted now. All or none are stored."""
    from planner.session.prediction_log import log_results

    session = invocation.session()
    problems, pairs = list[Problem](), []
    for path in files:
        for number, line in enumerate(read_file(path, most_bytes=MOST_IMPORT_BYTES).splitlines(), start=1):
            try:
                pairs += [_read(session, line, f"{path}:{number}")] if line.strip() else []
            except UserError as error:
                problems += error.problems
    if problems:
        raise UserError(problems)
    log_results(session, pairs)
    print_line(f"{counted(len(pairs), 'result')} imported")
    return ExitCode.ANSWERED


def _read(session: Session, line: bytes, where: str) -> tuple[Predicted, list[Seen]]:
    """One result and its present prediction; raises `UserError`."""
    from planner.session.prediction_log import predicted_and_seen
    from planner.workload.tasks import Request

    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        seen = msgspec.convert(fields.pop("seen", {}), dict[str, float])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UserError([Problem(where, "", f"{error}.")]) from None
    request = read_struct(Request, fields, where)
    if not seen or not all(1e-30 <= value <= 1e30 for value in seen.values()):
        raise UserError([Problem(where, "seen", 'has to contain measured values above 0, such as {"ttft_s": 0.21}.')])
    return predicted_and_seen(session, request, seen, "import", where)


@predictions.command("remove")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Remove all predictions; ranges are then as shipped.")
@pass_invocation
def remove_predictions(invocation: Invocation, names: tuple[str, ...], everything: bool) -> int:
    """Delete predictions and their results."""
    if bool(names) == everything:
        raise click.UsageError("Give the predictions to remove, or --all.")
    session = invocation.session()
    found = session.predictions.predicted() if everything else _named(session, names)
    removed, result = session.predictions.remove(*(one.id for one in found))
    result.require()
    for one in found if names else ():
        print_line(f"{one.id} {one.what}")
    print_line(f"{counted(removed, 'prediction')} removed")
    return ExitCode.ANSWERED


def _named(session: Session, names: Sequence[str]) -> list[Predicted]:
    """Predictions with these ids; raises `UserError`."""
    known = {one.id: one for one in session.predictions.predicted()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(
            [
                Problem("", name, "is not a prediction; gpu-planner predictions lists them.", nearest_names(name, known))
                for name in unknown
            ]
        )
    return [known[name] for name in names]


def _parsed(text: str, figures: Sequence[str], where: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    if name not in figures:
        raise UserError(
            [Problem(where, name, f"was not predicted; choose one of {', '.join(figures)}.", nearest_names(name, figures))]
        )
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UserError([Problem(where, name, f"{value!r} is not accepted; it has to be a number above 0.")])
    return name, number


def _rows(one: Predicted, seen: dict[tuple[str, str], Seen]) -> list[tuple[str, ...]]:
    """One row for each figure; the first contains the request."""
    rows = list[tuple[str, ...]]()
    for place, (name, predicted) in enumerate(one.figures.items()):
        known = seen.get((one.id, name))
        head = (one.id, one.at[:10], one.origin, one.what) if place == 0 else ("", "", "", "")
        figures = (predicted.value, predicted.low, predicted.high, known.value if known else None)
        rows.append((*head, name, *map(digits, figures)))
    return rows


def _verdict(said: Predicted, figure: str, value: float) -> str:
    predicted = said.figures[figure]
    inside = "inside" if predicted.low <= value <= predicted.high else "outside"
    off = change_text(predicted.value / value - 1)
    ends = f"{digits(predicted.low)} to {digits(predicted.high)}"
    return f"{digits(value)} seen, {digits(predicted.value)} predicted ({off}), {inside} {ends}"


def _as_object(one: Predicted, seen: dict[tuple[str, str], Seen]) -> dict[str, Any]:
    figures = {
        name: {
            "value": predicted.value,
            "low": predicted.low,
            "high": predicted.high,
            "seen": known.value if (known := seen.get((one.id, name))) else None,
        }
        for name, predicted in one.figures.items()
    }
    return {**msgspec.to_builtins(one), "figures": figures}
