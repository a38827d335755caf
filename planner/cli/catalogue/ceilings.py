"""`gpu-planner ceilings`: the rates assumed for a GPU, their basis, and the effect of measurements."""

from __future__ import annotations

import math
from typing import Literal

import click

from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, basis_option, json_option, pass_invocation
from planner.cli.terminal.sections import console, print_columns, print_json, print_sections
from planner.cli.terminal.streams import print_line, say
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.report import CeilingLine, CeilingReport, Residual, report
from planner.session import Session
from planner.units import UNKNOWN, percent_text, quantity_text, si_text

MOST_SOURCE = 100
"""Characters of a source that a table shows; JSON has the complete text."""


@click.command()
@click.argument("gpu", required=False, shell_complete=gpu_names)
@basis_option
@json_option
@pass_invocation
def ceilings(invocation: Invocation, gpu: str | None, basis: Literal["measured", "spec"], as_json: bool) -> int:
    """Show the rates that plans assume for GPU, each with its range, basis and source, and how measurements changed them.

    GPU is a name of the catalogue or this machine's CPU ("cpu"). Without it: one line for each part of this machine, and for each
    part that was measured.
    """
    session = invocation.session()
    if gpu is None:
        reports = [_report(session, part, basis) for part in _parts(session)]
        if as_json:
            print_json(reports)
        else:
            _print_summary(reports)
        return ExitCode.ANSWERED
    part = session.machine.cpu if gpu.casefold() == "cpu" else session.part_named(gpu)
    found = _report(session, part or session.gpus.find(gpu), basis)
    if as_json:
        print_json(found)
    else:
        _print_report(found)
        if found.measurements and basis == "measured":
            from planner.present.benchmark.measurement import check_section

            print_sections([check_section(session.ceilings_cache.check(part or session.gpus.find(gpu)))], console())
    return ExitCode.ANSWERED


def _report(session: Session, part: Gpu, basis: Literal["measured", "spec"]) -> CeilingReport:
    spec = session.ceilings(part, basis="spec")
    points = session.measurements() if basis == "measured" else ()
    return report(part, session.ceilings(part, basis=basis), spec, points)


def _parts(session: Session) -> list[Gpu]:
    """Parts of this machine, then others that were measured."""
    names = [device.name for device in session.machine.devices]
    names += [one.device for one in session.measurements() if one.reliable]
    return [part for name in dict.fromkeys(names) if (part := session.part_named(name)) is not None]


def _print_summary(reports: list[CeilingReport]) -> None:
    heads = ("GPU", "points", "fit", "changed")
    rows = []
    for one in reports:
        fit = f"±{percent_text(one.residual_median)}" if one.residual_median is not None else UNKNOWN
        changed = [f"{line.name} {change_text(line)}" for line in one.lines if line.before is not None and line.basis == "measured"]
        rows.append((one.gpu, str(one.measurements or UNKNOWN), fit, "; ".join(changed) or "nothing: not measured"))
    print_columns(heads, rows, numeric=("points",))


def _print_report(found: CeilingReport) -> None:
    print_line(found.gpu)
    heads = ("figure", "data sheet", "in use", "±", "basis", "without measuring", "source")
    rows = [
        (
            line.name,
            quantity_text(line.spec, line.unit),
            quantity_text(line.value, line.unit),
            percent_text(math.sqrt(line.high / line.low) - 1),
            line.basis,
            quantity_text(line.before, line.unit) if line.before is not None else "",
            line.source if len(line.source) <= MOST_SOURCE else f"{line.source[: MOST_SOURCE - 1]}…",
        )
        for line in found.lines
    ]
    print_columns(heads, rows, numeric=heads[1:4])
    for line in found.lines:
        if line.before is not None and line.basis in {"measured", "public"}:
            print_line(f"{line.name}: {change_text(line)}")
    if found.residuals:
        print()
        _print_residuals(found.residuals)
    elif not found.measurements:
        say("no measurements yet; run gpu-planner bench to measure this machine")


def _print_residuals(residuals: list[Residual]) -> None:
    heads = ("point", "measured", "formula", "error", "status", "origin")
    rows = []
    for one in residuals:
        rates = (si_text(one.measured, one.unit), si_text(one.formula, one.unit))
        rows.append((one.point, *rates, f"{math.expm1(one.error):+.0%}", one.status, one.origin))
    print_columns(heads, rows, numeric=heads[1:4])


def change_text(line: CeilingLine) -> str:
    """'1,910 → 1,640 TFLOP/s, measured'."""
    return f"{quantity_text(line.before, line.unit)} → {quantity_text(line.value, line.unit)}, {line.basis}"
