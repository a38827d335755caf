"""`gpu-planner traffic` and `replay`: summarise recorded requests, create presets from them, and simulate serving them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from planner.cli.cluster.option import cluster_of, on_option
from planner.cli.completion import gpu_names, model_names, preset_names
from planner.cli.exits import ExitCode
from planner.cli.options import (
    FILE,
    Invocation,
    Number,
    basis_option,
    json_option,
    length_options,
    pass_invocation,
    settings_option,
)
from planner.cli.plan.options import name_sources, parse_settings
from planner.cli.terminal.streams import say
from planner.durable import write_out
from planner.errors import Problem, UserError
from planner.paths import DEFAULT_PRESET
from planner.workload.tasks import Lengths, Workload

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.session import Session
    from planner.workload.traffic.preset import RateChoice
    from planner.workload.traffic.summary import Traffic
    from planner.workload.traffic.trace import Trace


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--preset", metavar="NAME", shell_complete=preset_names, help="Preset whose model, engine and targets are copied.")
@click.option("--model", metavar="NAME", shell_complete=model_names, help="Model to use instead of the preset's.")
@click.option("--out", type=FILE, metavar="FILE", help="Write the workload into this .toml file.")
@click.option(
    "--rate",
    type=click.Choice(["peak", "mean"]),
    default="peak",
    show_default=True,
    help="Request rate of the preset: that of the busiest hour, or the mean.",
)
@click.option(
    "--seconds",
    type=Number(1, 1e9),
    metavar="S",
    help="Time between two metrics pages, or, for one page, since the engine started.",
)
@length_options
@json_option
@pass_invocation
def traffic(
    invocation: Invocation,
    files: tuple[Path, ...],
    preset: str | None,
    model: str | None,
    out: Path | None,
    rate: RateChoice,
    seconds: float | None,
    input_tokens: float | None,
    output_tokens: float | None,
    as_json: bool,
) -> int:
    """Summarise the requests in FILES: rate by hour, lengths, bursts, prompts that begin alike.

    FILES may be traces (Mooncake, BurstGPT, Azure, ServeGen's offline ones, other CSV), OpenTelemetry spans of model calls, access logs, and
    pages of metrics of vLLM, SGLang and TGI; two such pages describe the requests between them. --out writes a preset.
    """
    from planner.observe.traffic.reading import read_traffic

    found, trace = read_traffic(files, seconds=seconds)
    found = with_lengths(found, trace, input_tokens, output_tokens)
    workload = _preset_of(invocation.session(), found, preset, model, rate) if out is not None else None
    if as_json:
        from planner.cli.terminal.sections import print_json

        print_json(found)
    else:
        from planner.cli.terminal.sections import console, print_sections
        from planner.present.traffic import traffic_sections

        print_sections(traffic_sections(found), console())
    if out is not None and workload is not None:
        from planner.workload.presets import as_toml

        write_out(out, as_toml(workload, out))
        say(f"preset: {out}")
    elif preset or model:
        say("note: --preset and --model have an effect only with --out")
    return ExitCode.ANSWERED


def with_lengths(found: Traffic, trace: Trace | None, inputs: float | None, outputs: float | None) -> Traffic:
    """`found` with the given lengths if the source has none."""
    from planner.workload.traffic.summary import summarised

    if trace is not None:
        return summarised(trace.with_lengths(inputs, outputs))
    given = {"input_tokens": inputs, "output_tokens": outputs}
    missing = {name: Lengths(mean=value) for name, value in given.items() if value and getattr(found, name) is None}
    return msgspec.structs.replace(found, **missing)


def base_of(session: Session, preset: str | None, model: str | None, where: str) -> Workload:
    """Workload to which traffic is added: a preset, or one with only a model; raises `UserError` if neither is named."""
    if preset is None and model is None:
        raise UserError(Problem(where, "model", "is not in the traffic; give --model, or --preset for model, engine and targets."))
    base = session.presets.load(preset).workload if preset else Workload(model=model or "", task="serve")
    return msgspec.structs.replace(base, model=model) if model else base


def _preset_of(session: Session, found: Traffic, preset: str | None, model: str | None, rate: RateChoice) -> Workload:
    """Preset that --out writes; raises `UserError`."""
    from planner.workload.traffic.preset import service_of

    return session.workload(service_of(base_of(session, preset, model, found.source), found, rate=rate), found.source)


@click.command()
@click.argument("trace", type=FILE)
@click.argument("preset", required=False)
@click.option("--gpu", metavar="NAME", shell_complete=gpu_names, help="Serve on this GPU instead of the best one.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Number of replicas. The default is the number that the busiest hour needs.",
)
@settings_option("Change one key of the workload, as in plan.")
@click.option(
    "--speed", type=Number(1e-3, 1e4), default=1.0, metavar="X", help="Send the requests X times as fast as recorded. [default: 1]"
)
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
    """Simulate how the best layout for TRACE serves its requests at their recorded times.

    PRESET gives model, engine and targets. Prints percentiles of latencies, overall and for each hour, and how many replicas each hour
    needs to meet the targets in its busiest ten minutes. Exits with 1 if a target is missed, or if no GPU can serve.
    """
    from planner.observe.traffic.reading import read_trace
    from planner.workload.traffic.preset import traced

    recorded = traced(read_trace([trace]).with_lengths(**lengths)).faster(speed)
    session = invocation.session()
    session.begin_machine()
    workload = _workload(session, recorded, preset or DEFAULT_PRESET, gpu, settings)
    with cluster_of(on) as cluster:
        plan = session.plan(workload, basis=basis, levers=False)
        row = next((row for row in plan.rows if row.answer.layout is not None), None)
        if row is None:
            say(f"nothing can serve {workload.model}: {plan.rows[0].why if plan.rows else 'no candidate'}")
            return ExitCode.NOTHING_FOUND
        found = session.replay(workload, row, recorded, replicas=replicas, basis=basis, map_chunks=cluster or map)
    if as_json:
        from planner.cli.terminal.sections import print_json

        print_json(found)
    else:
        from planner.cli.terminal.sections import console, print_sections
        from planner.present.traffic import replay_sections

        print_sections(replay_sections(found), console())
    return ExitCode.NOTHING_FOUND if found.missed else ExitCode.ANSWERED


def _workload(session: Session, recorded: Any, preset: str, gpu: str | None, settings: tuple[str, ...]) -> Workload:
    """Service of `preset` under the recorded traffic; raises `UserError` with the option that caused it."""
    from planner.workload.traffic.preset import service_of
    from planner.workload.traffic.summary import summarised

    changes = parse_settings(settings)
    base = base_of(session, preset, None, recorded.source)
    if gpu:
        changes["gpus_considered"] = [gpu]
    try:
        asked = session.workload(service_of(base, summarised(recorded)), recorded.source)
        return session.workload(session.changed(asked, changes), recorded.source)
    except UserError as wrong:
        raise name_sources(wrong, settings, [gpu] if gpu else [], recorded.source) from wrong
