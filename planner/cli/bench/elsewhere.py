"""`bench --emit`: a job that measures GPUs elsewhere."""

from __future__ import annotations

import sys

import click

from planner.cli.emit.measuring import Form, Job, written
from planner.cli.emit.names import SKY_NAMES
from planner.cli.exits import ExitCode
from planner.cli.terminal.streams import say
from planner.session import Session

FIRST_GPUS = 3
"""GPUs of a plan that are measured elsewhere where none is named."""


def suite_elsewhere(chosen: str | None, *, over: bool) -> str:
    """The suite of a job for other machines, `over` several nodes or not; raises `UsageError` for one that nodes do not share."""
    if over and chosen not in (None, "collectives"):
        raise click.UsageError(f"--nodes measures what nodes do together: the suite collectives, not {chosen}.")
    return chosen or ("collectives" if over else "standard")


def write_job(
    session: Session,
    form: Form,
    suite: str,
    gpus: tuple[str, ...],
    preset: str | None,
    model: str | None,
    spread: tuple[int, int],
) -> int:
    """Write a job for the named GPUs, or those the plan ranks first, to stdout; `spread`: (GPUs of a node, nodes)."""
    from planner.paths import DEFAULT_PRESET

    if model is not None:
        session.architecture(model)
    named = [session.gpus.find(name).name for name in gpus]
    if not named:
        found = session.plan(session.presets.load(preset or DEFAULT_PRESET).workload, levers=False)
        rented = [row.gpu for row in found.rows if row.rank and not row.here]
        named = [name for name in dict.fromkeys(rented) if form != "sky" or name in SKY_NAMES][:FIRST_GPUS]
    if not named:
        say("nothing in the plan to rent: name a GPU with --gpu")
        return ExitCode.NOTHING_FOUND
    parts = [session.gpus.find(name) for name in named]
    like = [part for part in parts if part.vendor == parts[0].vendor] if form in {"kubernetes", "jobset", "kueue"} else parts
    if len(like) < len(parts):
        say(f"left out, of another vendor than {parts[0].name}: {', '.join(p.name for p in parts if p not in like)}")
    drivers = tuple(name for part in like for name in part.nvml_names)
    job = Job(tuple(part.name for part in like), suite, model, *spread, vendor=parts[0].vendor, products=drivers)
    sys.stdout.write(written(form, job))
    return ExitCode.ANSWERED
