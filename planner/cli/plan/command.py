"""`gpu-planner plan`: a ranking of GPUs, counts and layouts for one workload."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from planner.cli.emit import FORMS, Form
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, exact_option, given_options, pass_invocation
from planner.cli.plan.options import (
    NAMES,
    money_options,
    plan_command,
    ranked,
    rest_of_preset,
    terms_of,
    unread_settings,
    workload_options,
)
from planner.cli.terminal.streams import say, write_json
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.answers.time import TimeDetail, UnderLoad
from planner.present.command_line import PlanCommand
from planner.startup import keep_freed_memory
from planner.text import one_line
from planner.workload.tasks import Workload

if TYPE_CHECKING:
    from planner.engine.money import Costs
    from planner.present.drawing.chart import Chart
    from planner.session import Session

DEFAULT_GPUS = 12
"""GPUs in a printed table, each with its best row; JSON, CSV and Markdown have all rows unless `--top` is given."""


@click.command()
@workload_options
@exact_option
@click.option(
    "--top",
    type=click.IntRange(1, 10**6),
    metavar="N",
    help="Maximum number of rows, in addition to the best of every --gpu. By default a table has the best row of each GPU, and other formats have every row.",
)
@click.option("--memory", is_flag=True, help="List the items of memory of the best row of each --gpu (with --json of every row).")
@click.option("--time", "operators", is_flag=True, help="List the time of each operator for the same rows.")
@click.option(
    "--load", is_flag=True, help="Show how the latency of the best row depends on the load, and at which load it misses a target."
)
@click.option(
    "--money",
    is_flag=True,
    help="Show the cost of the best row over years: rented on each term, bought, or as an API paid per token.",
)
@money_options
@click.option(
    "--emit",
    type=click.Choice(FORMS),
    help="Write the first row as a job or a service: SkyPilot, Slurm, Kubernetes, JobSet, Kueue, LeaderWorkerSet (llm-d), KServe, dstack.",
)
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--markdown", "form", flag_value="markdown", help="Print a Markdown table.")
@pass_invocation
def plan(
    invocation: Invocation,
    /,
    top: int | None,
    memory: bool,
    operators: bool,
    load: bool,
    money: bool,
    emit: Form | None,
    form: str | None,
    **given: Any,
) -> int:
    """Rank GPUs, counts and layouts for the workload PRESET: a preset's name, or the path of a .toml file.

    Without PRESET, --set describes the whole workload if it gives model and task; otherwise it changes llama-3.1-70b-chat-service.

    The most common keys of --set: model, task, weight_dtype, engine; for a service input_tokens, output_tokens, request_rate_per_s or
    daily_users or concurrency, targets.p95_request_s; for training sequence, global_batch, train_tokens, recipe, lora.rank; for all tasks
    max_gpus, market, providers, regions. `gpu-planner schema preset` describes all keys, and docs/guide/serving.md those of a service.

    Exits with 0 if something fits and 1 if nothing does; changes that would help are listed.
    """
    wanted = [name for name, asked in (("memory", memory), ("time", operators), ("load", load), ("money", money)) if asked]
    _refuse_combinations(wanted, form, emit)
    if not money and (alone := given_options(NAMES)):
        raise click.UsageError(f"{alone[0]} applies only to --money: add it.")
    terms = {name: given.pop(name) for name in NAMES}
    from planner.engine.search.plan import cut

    keep_freed_memory()
    session, command = invocation.session(), plan_command(invocation, **given)
    session.begin_machine()
    each_gpu = top is None and form is None and len(command.gpus) != 1
    shown = top or (None if form else DEFAULT_GPUS)
    name, workload, found = ranked(session, command, None if money else shown, each_gpu=each_gpu and not money)
    if command.preset and command.settings and given["preset"] is None:
        say(f"note: {rest_of_preset(command, workload)}")
    if unread := unread_settings(command, workload):
        say(f"note: {unread}")
    chart = None
    if money and form is None:
        from planner.present.choice.frontier import frontier_chart

        chart = frontier_chart(found)
    found = cut(found, shown, each_gpu=each_gpu)
    if emit:
        code = _emit(session, emit, name, workload, found)
        _keep_prediction(session, workload, found, say_so=True)
        return code
    if form is None:
        found = session.with_flips(workload, found, basis=command.basis)
    if memory or operators:

        def details(row: PlanRow) -> dict[str, MemoryDetail | TimeDetail | None]:
            finders = {
                "memory_detail": session.memory_detail if memory else None,
                "time_detail": session.time_detail if operators else None,
            }
            return {name: find(workload, row, basis=command.basis) if find else None for name, find in finders.items()}

        found = _detailed(found, workload, details, each=form == "json")
    first = found.best
    if first is None and (unanswered := [f"--{name}" for name, asked in (("load", load), ("money", money)) if asked]):
        say(f"note: nothing fits, so there is no row for {' and '.join(unanswered)}")
    costs = session.costs(workload, first, terms_of(session, **terms), basis=command.basis) if money and first else None
    by_load = session.under_load(workload, first, basis=command.basis) if load and first else None
    doubts = ""
    if form is None:
        from planner.present.choice.sentence import doubt

        doubts = doubt(session.plan(workload, basis=command.basis, levers=False))
    more = _More(first if load else None, by_load, costs, chart, doubts)
    _write(found, form, command, more, each_gpu=each_gpu)
    _keep_prediction(session, workload, found, say_so=form is None)
    return ExitCode.ANSWERED if found.best else ExitCode.NOTHING_FOUND


def _refuse_combinations(wanted: list[str], form: str | None, emit: str | None) -> None:
    if wanted and form in {"csv", "markdown"}:
        raise click.UsageError(f"--{wanted[0]} applies to the table and --json, not to --{form}.")
    if emit and (form or wanted):
        raise click.UsageError(
            "--emit writes only a job; it cannot be combined with --json, --csv, --markdown, --memory, --time, --load or --money."
        )


def _keep_prediction(session: Session, workload: Workload, found: Plan, *, say_so: bool) -> None:
    """Store the plan's predictions, after the answer is printed so that a slow disk does not delay it."""
    from planner.session.prediction_log import log_plan

    sys.stdout.flush()
    if (note := log_plan(session, workload, found)) and say_so:
        say(f"note: {note}")


def _detailed(
    found: Plan, workload: Workload, details: Callable[[PlanRow], Mapping[str, MemoryDetail | TimeDetail | None]], *, each: bool
) -> Plan:
    """`found` with details of every row if `each`, else of the best row of every named GPU, else of the first row."""
    named = bool(workload.gpus_considered)
    rows: list[PlanRow] = []
    seen: set[str] = set()
    for row in found.rows:
        if each or (row.gpu not in seen and not row.here and (named or not seen)):
            rows.append(msgspec.structs.replace(row, **details(row)))
            seen.add(row.gpu)
        else:
            rows.append(row)
    return msgspec.structs.replace(found, rows=rows)


def _emit(session: Session, form: Form, name: str, workload: Workload, found: Plan) -> int:
    """Print the first row as a job."""
    row = found.best
    if row is None:
        say("nothing in the plan fits, so there is no job to write")
        return ExitCode.NOTHING_FOUND
    from planner.cli.emit.running import written

    gpu = session.part_named(row.gpu) or session.gpus.find(row.gpu)
    hub_id = session.models.hub_id(workload.model)
    sys.stdout.write(written(form, name, row, session.job(workload, row), gpu, hub_id))
    return ExitCode.ANSWERED


class _More(NamedTuple):
    """Further answers about the first row."""

    loaded: PlanRow | None
    """Row whose latency by load is shown."""
    load: UnderLoad | None
    costs: Costs | None
    chart: Chart | None
    """Chart of cost against time."""
    doubt: str = ""
    """Probability that the first row is sufficient, and the best row for which this is certain."""

    @property
    def as_object(self) -> dict[str, Any]:
        """JSON key -> answer that is added to the plan."""
        return {name: one for name, one in (("under_load", self.load), ("costs", self.costs)) if one is not None}


def _write(found: Plan, form: str | None, command: PlanCommand, more: _More, *, each_gpu: bool) -> None:
    """Write the plan to stdout as `form`, its notes to stderr."""
    if form == "json":
        import msgspec

        write_json(msgspec.to_builtins(found) | more.as_object if more.as_object else found)
    elif form == "csv":
        from planner.present.files.csv_text import plan_csv

        sys.stdout.write(plan_csv(found))
    elif form == "markdown":
        from planner.present.files.document import markdown_table
        from planner.present.plan import plan_table

        sys.stdout.write(markdown_table(plan_table(found)) + "\n")
    else:
        _print_for_people(found, command, more, each_gpu=each_gpu)
    for note in found.notes:
        say(f"note: {note}")


def _print_for_people(found: Plan, command: PlanCommand, more: _More, *, each_gpu: bool) -> None:
    from rich.text import Text

    from planner.cli.plan.table import print_plan
    from planner.cli.terminal import sections as listing
    from planner.present.cells import Section
    from planner.present.choice.latency_by_load import load_sections
    from planner.present.choice.levers import levers_sections
    from planner.present.memory import memory_section
    from planner.present.money.costs import cost_sections
    from planner.present.plan import heading
    from planner.present.time import time_section

    out = listing.console()
    out.print(Text(one_line(" · ".join(heading(found))), style="bold"))
    print_plan(found, out, each_gpu=each_gpu, doubt=more.doubt)
    for row in found.rows:
        if row.memory_detail is not None:
            out.print()
            listing.print_section(memory_section(row, row.memory_detail), out)
        if row.time_detail is not None:
            out.print()
            listing.print_section(time_section(row, row.time_detail), out)
    if more.loaded is not None:
        out.print()
        listing.print_sections(load_sections(more.loaded, more.load), out)
    if more.costs is not None:
        out.print()
        listing.print_sections([*cost_sections(more.costs), *([Section("", [more.chart])] if more.chart else [])], out)
    for section in levers_sections(found, command.text_with):
        out.print()
        listing.print_section(section, out)
