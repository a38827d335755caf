"""`gpu-planner measurements`: list, export, import and remove measurements taken here, imported or shipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

import planner
from bench.protocol import utc_now
from planner.cli.commands import DefaultGroup
from planner.cli.exits import ExitCode
from planner.cli.measurements.importing import import_measurements, say_outliers
from planner.cli.options import FILE, Invocation, json_option, options, pass_invocation
from planner.cli.terminal.sections import print_columns, print_facts, print_json
from planner.cli.terminal.streams import say
from planner.durable import write_out
from planner.errors import Problem, UserError, nearest_names
from planner.hardware.measurements.measurement import SELF_TEST, UNITS, Measurement, MeasurementKind, Origin
from planner.present.benchmark.measurement import environment_facts, measurement_facts, note_of, state_of, value_text
from planner.session import Session
from planner.units import counted

chosen_by = options(
    click.option("--device", metavar="NAME", help="Only this GPU or CPU."),
    click.option("--run", metavar="ID", help="This run only."),
    click.option("--suite", metavar="NAME", help="This suite only."),
    click.option("--kind", type=click.Choice(get_args(MeasurementKind)), help="This kind only."),
    click.option("--origin", type=click.Choice(get_args(Origin)), help="Your own, imported, or shipped with the program."),
    click.option("--quarantined", is_flag=True, help="Only measurements in quarantine."),
)
"""Options that select measurements."""


def chosen(session: Session, **wanted: Any) -> list[Measurement]:
    """Measurements that the options select: shipped ones first, then in the order of their arrival."""
    if (device := wanted.get("device")) is not None:
        part = session.part_named(device)
        wanted["device"] = part.name if part else device
    return [one for one in (*session.shipped, *session.store.all()) if fits(one, **wanted)]


def fits(one: Measurement, **wanted: Any) -> bool:
    """True if the options select this measurement."""
    if wanted.get("quarantined") and not one.quarantine:
        return False
    names = ("device", "run", "suite", "kind", "origin")
    return all(wanted.get(name) is None or getattr(one, name) == wanted[name] for name in names)


def named(session: Session, names: Iterable[str]) -> list[Measurement]:
    """Measurements with these ids, or of runs with these ids; raises `UserError` with the nearest ids."""
    every = [*session.shipped, *session.store.all()]
    found: dict[str, Measurement] = {}
    problems = []
    for name in names:
        those = [one for one in every if name in {one.id, one.run}]
        if not those:
            near = nearest_names(name, dict.fromkeys(word for one in every for word in (one.id, one.run)))
            problems.append(Problem("", "ID", f"{name!r} is neither a measurement nor a run.", near))
        found |= {one.id: one for one in those}
    if problems:
        raise UserError(problems)
    return list(found.values())


@click.group(cls=DefaultGroup, default="list")
def measurements() -> None:
    """Measurements: your own, imported and shipped ones."""


@measurements.command("list")
@chosen_by
@json_option
@pass_invocation
def list_measurements(invocation: Invocation, /, as_json: bool, **wanted: Any) -> int:
    """List measurements, the newest last; quarantined ones with the reason."""
    session = invocation.session()
    found = chosen(session, **wanted)
    if as_json:
        print_json([as_object(one) for one in found])
        return ExitCode.ANSWERED if found else ExitCode.NOTHING_FOUND
    heads = ("id", "point", "device", "value", "status", "origin", "suite", "taken", "note")
    rows = [
        (one.id, one.point, one.device, value_text(one), state_of(one), one.origin, one.suite, one.taken_at[:10], note_of(one))
        for one in found
    ]
    if found:
        print_columns(heads, rows, numeric=("value",))
        say_outliers(session, {one.device for one in found})
    else:
        say("no measurements yet; run gpu-planner bench" if not any(wanted.values()) else "no such measurement")
    return ExitCode.ANSWERED if found else ExitCode.NOTHING_FOUND


@measurements.command("show")
@click.argument("name", metavar="ID")
@json_option
@pass_invocation
def show_measurement(invocation: Invocation, name: str, as_json: bool) -> int:
    """Show the measurement with this ID, or all of the run with this ID."""
    session = invocation.session()
    found = named(session, [name])
    runs = {run.id: run for run in session.store.runs()}
    if as_json:
        print_json([as_object(one) for one in found] if name in runs else as_object(found[0]))
        return ExitCode.ANSWERED
    for one in found:
        run = runs.get(one.run)
        print_facts(
            f"{one.id}  {one.point}",
            measurement_facts(one) | environment_facts(run.environment if run else {}, whole=len(found) == 1),
        )
    return ExitCode.ANSWERED


@measurements.command("export")
@click.option("--out", type=FILE, metavar="FILE", help="Write to this file instead of stdout.")
@chosen_by
@pass_invocation
def export_measurements(invocation: Invocation, /, out: Path | None, **wanted: Any) -> int:
    """Write your own measurements as one JSON file with the machine's fingerprint, without host, user or path names."""
    from planner.hardware.measurements.exchange import export_document

    session = invocation.session()
    wanted["origin"] = wanted["origin"] or "own"
    found = [one for one in chosen(session, **wanted) if wanted["suite"] or one.suite != SELF_TEST]
    if not found:
        say("nothing to export")
        return ExitCode.NOTHING_FOUND
    text = export_document(found, session.store.runs(), version=planner.__version__, exported_at=utc_now(), private=private_words())
    if out is None:
        sys.stdout.write(text.decode())
    else:
        write_out(out, text)
        say(f"{counted(len(found), 'measurement')} written to {out}")
    return ExitCode.ANSWERED


measurements.add_command(import_measurements)


@measurements.command("remove")
@click.argument("names", nargs=-1, metavar="[ID]...")
@chosen_by
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove_measurements(invocation: Invocation, /, names: tuple[str, ...], yes: bool, **wanted: Any) -> int:
    """Delete measurements by ID (of a measurement or a run), or all that the options select. Asks first."""
    if not names and not any(wanted.values()):
        raise click.UsageError("Give an ID, or an option that selects measurements (--run, --device, --quarantined, …).")
    session = invocation.session()
    found = [one for one in (named(session, names) if names else chosen(session, **wanted)) if fits(one, **wanted)]
    shipped = [one for one in found if one.origin == "shipped"]
    if shipped and names:
        raise UserError([Problem(one.id, "", f"{one.point} of {one.device} is shipped with the program.") for one in shipped])
    found = [one for one in found if one.origin != "shipped"]
    if not found:
        say("no such measurement")
        return ExitCode.NOTHING_FOUND
    if not yes:
        for one in found[:10]:
            say(f"{one.id}  {one.point}  {one.device}  {value_text(one)}")
        if len(found) > 10:
            say(f"… and {len(found) - 10:,} more")
        if not sys.stdin.isatty():
            raise click.UsageError(f"{counted(len(found), 'measurement')} would be removed; confirm with --yes.")
        click.confirm(f"Remove {counted(len(found), 'measurement')}?", abort=True, err=True)
    removed, result = session.store.remove(found)
    result.require()
    print(f"{counted(removed, 'measurement')} removed")
    return ExitCode.ANSWERED


def as_object(one: Measurement) -> dict[str, Any]:
    """JSON object of a measurement, with its id and unit."""
    return {"id": one.id, **msgspec.to_builtins(one), "unit": UNITS[one.kind]}


def private_words() -> Sequence[str]:
    """Names of this host and user, and the home folder, which must not be exported."""
    import getpass
    import socket

    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = ""
    home = os.path.expanduser("~")  # noqa: PTH111  # Path.home() fails for a user without one
    return [host, host.partition(".")[0], os.uname().nodename if hasattr(os, "uname") else "", user, home.removeprefix("~")]
