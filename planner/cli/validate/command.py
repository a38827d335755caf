"""`gpu-planner validate`: compare predictions with published measurements and with those of this machine."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, pass_invocation
from planner.cli.terminal.streams import say, write_json
from planner.durable import write_out
from planner.engine.validation import Comparison, compared
from planner.errors import UserError
from planner.session import Session
from planner.workload.published.experiments import PublishedSet, read_published

ROW_COLUMNS = ("source", "experiment", "line", "framework", "gpu", "gpus", "model", "kind", "measured", "predicted", "low", "high")


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--csv", "form", flag_value="csv", help="Print the scores as CSV.")
@click.option("--markdown", "form", flag_value="markdown", help="Print the tables as Markdown.")
@click.option("--only", metavar="TEXT", default="", help="Only the files of DIR with TEXT in their name.")
@click.option("--rows", type=FILE, metavar="FILE", help="Write every comparison to FILE, as CSV.")
@pass_invocation
def validate(invocation: Invocation, folder: Path | None, form: str | None, only: str, rows: Path | None) -> int:
    """Compare predictions with the published measurements in DIR, and with your own.

    DIR contains CSV files with one measured value per row; docs/evidence/validation.md describes their columns. Predictions use
    vendors' and published figures, not this machine's measurements. Prints for each kind of figure: the number of values, how
    many were answered, the error (predicted ÷ measured − 1: median, 90th percentile, signed median), the share inside the range
    low–high and the range's width. Exit code 1: nothing could be compared.
    """
    from planner.cli.validate import tables as validate_tables
    from planner.cli.validate.own import logged_comparisons, own_comparisons, seen_comparisons

    if only and folder is None:
        raise click.UsageError("--only selects files of DIR; give the folder too.")
    session = invocation.session()
    published, compared, refused = _published(session, folder, only) if folder else (None, [], Counter[str]())
    own, own_left_out = own_comparisons(session)
    own += [*logged_comparisons(session), *seen_comparisons(session)]
    if rows is not None:
        write_rows([*compared, *own], rows)
    result = validate_tables.gathered(published, compared, refused, own, own_left_out)
    if form == "json":
        write_json(result, indent=2)
    elif form == "csv":
        sys.stdout.write(validate_tables.scores_csv(result))
    elif form == "markdown":
        from planner.present.files.document import as_markdown

        sys.stdout.write(as_markdown(validate_tables.sections(result, on_terminal=False)))
    else:
        validate_tables.print_tables(result)
    if compared or own:
        return ExitCode.ANSWERED
    nothing = (
        "no row could be compared"
        if folder
        else "no measurements yet: run gpu-planner bench, or give a folder of published measurements"
    )
    say(f"{nothing}.")
    return ExitCode.NOTHING_FOUND


def _published(session: Session, folder: Path, only: str) -> tuple[PublishedSet, list[Comparison], Counter[str]]:
    """Experiments of the folder, their comparisons, and the reasons for refused ones."""
    shelf = frozenset(session.models.names())
    found = read_published(
        folder,
        frozenset(name.casefold() for name in session.gpus.names()),
        lambda key: session.models.config(key) if key in shelf else None,
        only,
    )
    answers = session.estimate([experiment.request for experiment in found.experiments], basis="spec")
    refused = Counter(str(answer) for answer in answers if isinstance(answer, UserError))
    return found, compared(found.experiments, answers), refused


def write_rows(comparisons: list[Comparison], path: Path) -> None:
    """Write every comparison as a line of CSV with SI values; raises `NotStoredError`."""
    from planner.present.files.csv_text import csv_text

    write_out(path, csv_text(ROW_COLUMNS, [[getattr(one, name) for name in ROW_COLUMNS] for one in comparisons]))
