"""`gpu-planner report`: a report of the decision with its reasons and inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, Number, pass_invocation
from planner.cli.plan.options import NAMES, money_options, plan_command, ranked, terms_of, workload_options
from planner.cli.terminal.streams import write_file
from planner.errors import Problem, UserError
from planner.text import json_document
from planner.workload.hardware.owned import Owning

if TYPE_CHECKING:
    from planner.present.files.decision import Decision

FORMS = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}
"""Extension of a file -> its form."""


@click.command()
@workload_options
@click.option(
    "--out", type=FILE, metavar="FILE", help="File to write: .md, .html or .json. By default (or with -) Markdown is printed."
)
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--html", "form", flag_value="html", help="Print HTML.")
@click.option("--kwh", type=Number(0, 1e3), default=0.15, show_default=True, metavar="USD", help="Price per kWh for owned GPUs.")
@click.option("--years", type=Number(0.1, 100), default=3.0, show_default=True, metavar="N", help="Lifetime of owned GPUs.")
@click.option("--hosting", type=Number(0, 1e9), default=0.0, metavar="USD", help="Hosting cost of each owned GPU per month.")
@money_options
@pass_invocation
def report(
    invocation: Invocation, /, out: Path | None, form: str | None, kwh: float, years: float, hosting: float, **given: Any
) -> int:
    """Write the decision for the workload PRESET: what to rent or buy and why, the alternatives, and the assumptions.

    Exits with 0 if something fits and 1 if nothing does; the report then lists changes that would help.
    """
    from planner.present.files.decision import decide

    if form and out is not None and str(out) != "-":
        raise click.UsageError(f"--{form} prints to stdout; with --out, the extension of the file determines the format.")
    form = form or _form_of(out)
    terms = {name: given.pop(name) for name in NAMES}
    session, command = invocation.session(), plan_command(invocation, **given)
    _, workload, found = ranked(session, command, None)
    found = session.with_flips(workload, found, basis=command.basis)
    owning = Owning(usd_per_kwh=kwh, hosting_usd_per_month=hosting, life_years=years)
    decision = decide(session, workload, found, command, owning, terms_of(session, **terms))
    _write(_text(decision, form), out)
    return ExitCode.ANSWERED if decision.chosen else ExitCode.NOTHING_FOUND


def _form_of(out: Path | None) -> str:
    if out is None or str(out) == "-":
        return "md"
    form = FORMS.get(out.suffix.casefold())
    if form is None:
        raise UserError(Problem("--out", "", f"{out.name!r} has an unknown extension; use .md, .html or .json."))
    return form


def _text(decision: Decision, form: str) -> str:
    from planner.present.files.decision import sections
    from planner.present.files.document import as_html, as_markdown

    if form == "json":
        return json_document(decision.as_object(), indent=1).decode() + "\n"
    return (as_html if form == "html" else as_markdown)(sections(decision))


def _write(text: str, out: Path | None) -> None:
    """Write the file completely or not at all, and its name to stderr; print `text` without a file."""
    if out is None or str(out) == "-":
        sys.stdout.write(text)
        return
    write_file(out, text)
