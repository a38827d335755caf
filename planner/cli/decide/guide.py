"""`gpu-planner guide`: recommends a commitment, with the report, from a running job or five answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, Number, json_option, pass_invocation
from planner.cli.terminal.streams import say, write_file, write_json
from planner.cli.watch.rightsize import window_of
from planner.cli.watch.source import Origin
from planner.errors import Problem, UserError
from planner.reading import read_json
from planner.schema import read_struct

if TYPE_CHECKING:
    from planner.engine.advice.observation import Observed
    from planner.engine.procurement.guide import Answers
    from planner.present.command_line import PlanCommand
    from planner.present.files.decision import Decision
    from planner.session import Session
    from planner.workload.tasks import Workload

GLANCE_S = 10.0
"""Seconds for which this machine's GPUs are observed without --seconds."""


@click.command()
@click.option("--answers", type=FILE, metavar="FILE", help="Take the answers from this JSON file instead of asking.")
@click.option(
    "--seconds",
    type=Number(1, 86400),
    metavar="S",
    help="How long to profile this machine's GPUs. [default: 10 on a terminal, where there are GPUs]",
)
@click.option("--replay", type=FILE, metavar="FILE", help="Profile a recording of `watch` instead.")
@click.option("--out", type=FILE, metavar="FILE.md", help="Write the steps and the report here.")
@json_option
@pass_invocation
def guide(
    invocation: Invocation, /, answers: Path | None, seconds: float | None, replay: Path | None, out: Path | None, as_json: bool
) -> int:
    """Decide for a workload in five steps: profile, bottleneck, right size, provider, and commitment.

    Asks five questions on a terminal. --answers reads the answers from JSON (`gpu-planner schema answers`). Exits with 1 if nothing fits.
    """
    from planner.engine.procurement.guide import Answers
    from planner.present.files.decision import decide

    session = invocation.session()
    given = read_struct(Answers, read_json(answers), str(answers)) if answers else _asked()
    if answers is None and seconds is None and replay is None and session.machine.gpus:
        seconds = GLANCE_S
    observed = _observed(session, seconds, replay)
    found = session.guide(given, observed)
    decision = decide(session, found.workload, found.plan, _command(session, found.workload, invocation), terms=found.terms)
    if as_json:
        write_json({"guide": found.guide, "report": decision.as_object()})
    else:
        _write_text(found.guide, decision, out)
    return ExitCode.ANSWERED if found.guide.row else ExitCode.NOTHING_FOUND


def _asked() -> Answers:
    """Answers from the terminal; raises `UserError` without one."""
    if not _has_terminal():
        raise UserError(Problem("--answers", "", "missing: there is no terminal to ask at; give the answers as a JSON file."))
    from planner.engine.procurement.guide import Answers
    from planner.present.guide import AMOUNTS, LIMITS, MODEL, MONTHS, TASK

    task = str(click.prompt(f"1. {TASK.words}", type=click.Choice([*AMOUNTS]), default=TASK.usual, err=True))
    model = click.prompt(f"2. {MODEL.words}", default=MODEL.usual, err=True)
    amount, limit = AMOUNTS[task][0], LIMITS[task][0]
    most = click.prompt(f"3. {amount.words}", type=Number(0, 1e18, above=True), default=amount.usual, err=True)
    within = click.prompt(f"4. {limit.words}", type=Number(0, 1e9, above=True), default=limit.usual, err=True)
    months = click.prompt(f"5. {MONTHS.words}", type=click.IntRange(1, 120), default=MONTHS.usual, err=True)
    fields: dict[str, Any] = {"task": task, "model": model, amount.key: most, limit.key: within, "months": months}
    return read_struct(Answers, fields, "")


def _has_terminal() -> bool:
    """True if questions can be asked on a terminal."""
    return sys.stdin.isatty()


def _observed(session: Session, seconds: float | None, replay: Path | None) -> list[Observed]:
    """Observed use of GPUs; empty if there is nothing to observe."""
    if seconds is None and replay is None:
        return []
    observed, _, reason = window_of(session, Origin(replay=replay), seconds)
    if not observed:
        say(f"note: no GPU to profile: {reason}")
    return observed


def _command(session: Session, workload: Workload, invocation: Invocation) -> PlanCommand:
    """Command line that plans `workload` and unsets keys of the default preset that the workload does not have."""
    from planner.paths import DEFAULT_PRESET
    from planner.present.command_line import PlanCommand, spelled

    fields = msgspec.to_builtins(workload)
    fields["targets"] = {key: value for key, value in fields.get("targets", {}).items() if value}
    preset = msgspec.to_builtins(session.presets.load(DEFAULT_PRESET).workload)
    settings = [f"{key}=" for key, value in preset.items() if key not in fields or (isinstance(value, dict) and value)]
    settings += [text for key, value in fields.items() if value not in ({}, []) for text in spelled(key, value)]
    return PlanCommand(preset=DEFAULT_PRESET, settings=settings, config=invocation.config)


def _write_text(guide: Any, decision: Decision, out: Path | None) -> None:
    from planner.cli.terminal import sections as listing
    from planner.present.files.decision import sections
    from planner.present.files.document import as_html, as_markdown
    from planner.present.guide import guide_sections

    title, *report = sections(decision)
    steps = guide_sections(guide)
    if out is None:
        listing.print_sections([*steps, *report[:1]], listing.console())
        return
    whole = [title, *steps, *report]
    write_file(out, (as_html if out.suffix.casefold() in {".html", ".htm"} else as_markdown)(whole))
