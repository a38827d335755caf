"""Measurements chosen by options, or named by the id of a measurement or a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

import click

from planner.cli.options import options
from planner.errors import Problem, UserError, nearest_names
from planner.hardware.measurements.measurement import Measurement, MeasurementKind, Origin

if TYPE_CHECKING:
    from planner.session import Session


chosen_by = options(
    click.option("--device", metavar="NAME", help="This GPU or CPU only."),
    click.option("--run", metavar="ID", help="This run only."),
    click.option("--suite", metavar="NAME", help="This suite only."),
    click.option("--kind", type=click.Choice(get_args(MeasurementKind)), help="This kind only."),
    click.option("--origin", type=click.Choice(get_args(Origin)), help="Your own, imported, or shipped with the program."),
    click.option("--quarantined", is_flag=True, help="Only measurements in quarantine."),
)
"""Options that choose measurements."""


def chosen(session: Session, **wanted: Any) -> list[Measurement]:
    """The measurements that the options choose: shipped ones first, then in the order they came."""
    if (device := wanted.get("device")) is not None:
        part = session.part_named(device)
        wanted["device"] = part.name if part else device
    return [one for one in (*session.shipped, *session.store.all()) if fits(one, **wanted)]


def fits(one: Measurement, **wanted: Any) -> bool:
    """Whether the options choose this measurement."""
    if wanted.get("quarantined") and not one.quarantine:
        return False
    names = ("device", "run", "suite", "kind", "origin")
    return all(wanted.get(name) is None or getattr(one, name) == wanted[name] for name in names)


def named(session: Session, names: Iterable[str]) -> list[Measurement]:
    """The measurements of these ids, or of the runs of these ids; raises `UserError` with the nearest."""
    every = [*session.shipped, *session.store.all()]
    found: dict[str, Measurement] = {}
    problems = []
    for name in names:
        those = [one for one in every if name in {one.id, one.run}]
        if not those:
            near = nearest_names(name, dict.fromkeys(word for one in every for word in (one.id, one.run)))
            problems.append(Problem("", "ID", f"{name!r} is no measurement and no run.", near))
        found |= {one.id: one for one in those}
    if problems:
        raise UserError(problems)
    return list(found.values())
