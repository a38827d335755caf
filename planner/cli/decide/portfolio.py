"""`gpu-planner portfolio`: several workloads on shared GPUs and offers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, basis_option, json_option, own_option, pass_invocation
from planner.cli.terminal.streams import say, write_json
from planner.reading import read_toml
from planner.schema import read_struct

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice


@click.command()
@click.argument("file", type=FILE)
@own_option
@basis_option
@json_option
@pass_invocation
def portfolio(invocation: Invocation, /, file: Path, own: Path | None, basis: BasisChoice, as_json: bool) -> int:
    """Plan the workloads of FILE (.toml) on owned and rented GPUs at the lowest monthly cost.

    Prints where each workload runs, what to commit to, and what to rent by the hour or on spot over the day. Exits with 1 if they cannot
    be placed.
    """
    from planner.engine.procurement.portfolio.records import PortfolioFile
    from planner.present.money.portfolio import portfolio_sections

    session = invocation.session()
    given = read_struct(PortfolioFile, read_toml(file), str(file))
    if own is not None:
        given = msgspec.structs.replace(given, own=[*given.own, *session.machines(own)])
    found = session.portfolio(given, str(file), basis=basis)
    if as_json:
        write_json(found)
    else:
        from planner.cli.terminal import sections as listing

        listing.print_sections(portfolio_sections(found), listing.console())
    for note in found.notes:
        say(f"note: {note}")
    return ExitCode.ANSWERED if found.workloads else ExitCode.NOTHING_FOUND
