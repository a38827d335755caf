"""`gpu-planner replay`: the requests of a trace served by replicas of the best layout, or of one that is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.cluster.option import cluster_of, on_option
from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, pass_invocation
from planner.cli.options import FILE, Number, basis_option, json_option, length_options, settings_option
from planner.cli.plan.settings import name_sources, parse_settings
from planner.cli.terminal.streams import say
from planner.cli.traffic.command import base_of
from planner.errors import UserError
from planner.paths import DEFAULT_PRESET
from planner.workload.changes import fields_of

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.session import Session
    from planner.workload.tasks import Workload


@click.command()
@click.argument("trace", type=FILE)
@click.argument("preset", required=False)
@click.option("--gpu", metavar="NAME", shell_complete=gpu_names, help="Serve on this GPU, instead of the one that ranks first.")
@click.option(
    "--replicas", type=click.IntRange(1, 4096), metavar="N", help="So many, instead of as many as the busiest hour needs."
)
@settings_option("Change one key of the workload, as in plan.")
@click.option("--speed", type=Number(1e-3, 1e4), default=1.0, metavar="X", help="The same requests X times as fast. [default: 1]")
@length_options
@on_option
@basis_option
@json_option
@pass_invocation
def replay(
    invocation: Invocation,
    /,
    trace: Path,
    preset: str | None,
    gpu: str | None,
    replicas: int | None,
    settings: tuple[str, ...],
    speed: float,
    on: str | None,
    basis: BasisChoice,
    as_json: bool,
    **lengths: float | None,
) -> int:
    """Simulate the best layout for TRACE serving its requests at their recorded times.

    PRESET gives model, engine and targets. Told are percentiles of latencies, overall and by the hour, and how many replicas each hour
    needs to meet the targets in its busiest ten minutes. Exits with 1 where a target is missed, or no GPU could serve.
    """
    from planner.observe.traffic.reading import read_trace
    from planner.workload.traffic.preset import traced

    recorded = traced(read_trace([trace]).with_lengths(**lengths)).faster(speed)
    session = invocation.session()
    session.begin_machine()
    workload = _workload(session, recorded, preset or DEFAULT_PRESET, gpu, settings)
    with cluster_of(on) as each:
        plan = session.plan(workload, basis=basis, levers=False)
        row = next((row for row in plan.rows if row.answer.layout is not None), None)
        if row is None:
            say(f"nothing can serve {workload.model}: {plan.rows[0].why if plan.rows else 'no candidate'}")
            return ExitCode.NOTHING_FOUND
        found = session.replay(workload, row, recorded, replicas=replicas, basis=basis, each=each)
    if as_json:
        from planner.cli.terminal.sections import print_json

        print_json(found)
    else:
        from planner.cli.terminal.sections import console, print_sections
        from planner.present.traffic import replay_sections

        print_sections(replay_sections(found), console())
    return ExitCode.NOTHING_FOUND if found.missed else ExitCode.ANSWERED


def _workload(session: Session, recorded: Any, preset: str, gpu: str | None, settings: tuple[str, ...]) -> Workload:
    """The service of `preset` under the recorded traffic; raises `UserError` naming the option at fault."""
    from planner.workload.traffic.preset import service_of
    from planner.workload.traffic.summary import summarised

    changes = parse_settings(settings)
    base = base_of(session, preset, None, recorded.source)
    if gpu:
        changes["gpus_considered"] = [gpu]
    try:
        asked = session.workload(service_of(base, summarised(recorded)), recorded.source)
        return session.workload(fields_of(asked, changes), recorded.source)
    except UserError as wrong:
        raise name_sources(wrong, settings, [gpu] if gpu else [], recorded.source) from wrong
