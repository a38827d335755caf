"""`gpu-planner traffic`: rate by hour, lengths, bursts and prefixes of recorded requests, and a preset of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.completion import model_names, preset_names
from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, pass_invocation
from planner.cli.options import FILE, Number, json_option, length_options
from planner.cli.terminal.streams import say
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.session import Session
    from planner.workload.tasks import Workload
    from planner.workload.traffic.preset import RateChoice
    from planner.workload.traffic.summary import Traffic
    from planner.workload.traffic.trace import Trace


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--preset", metavar="NAME", shell_complete=preset_names, help="Whose model, engine and targets the new preset has.")
@click.option("--model", metavar="NAME", shell_complete=model_names, help="Its model, instead of the preset's.")
@click.option("--out", type=FILE, metavar="FILE", help="Write the workload into this .toml file.")
@click.option(
    "--rate",
    type=click.Choice(["peak", "mean"]),
    default="peak",
    show_default=True,
    help="The preset's request rate: of the busiest hour, or the mean.",
)
@click.option(
    "--seconds", type=Number(1, 1e9), metavar="S", help="Between two pages of metrics, or since the engine started for one."
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

    Read are traces (Mooncake, BurstGPT, Azure, ServeGen's offline ones, other CSV), OpenTelemetry spans of model calls, access logs, and
    pages of metrics of vLLM, SGLang and TGI; two such pages tell what came between them. With --out a preset is written of it.
    """
    from planner.observe.traffic.reading import read_traffic

    found, trace = read_traffic(files, seconds=seconds)
    found = with_lengths(found, trace, input_tokens, output_tokens)
    if as_json:
        from planner.cli.terminal.sections import print_json

        print_json(found)
    else:
        from planner.cli.terminal.sections import console, print_sections
        from planner.present.traffic import traffic_sections

        print_sections(traffic_sections(found), console())
    if out is not None:
        _write(invocation.session(), found, out, preset, model, rate)
    elif preset or model:
        say("note: --preset and --model concern the preset that --out writes")
    return ExitCode.ANSWERED


def with_lengths(found: Traffic, trace: Trace | None, inputs: float | None, outputs: float | None) -> Traffic:
    """`found` with the lengths that were given where the source has none."""
    import msgspec

    from planner.workload.tasks import Lengths
    from planner.workload.traffic.summary import summarised

    if trace is not None:
        return summarised(trace.with_lengths(inputs, outputs))
    given = {"input_tokens": inputs, "output_tokens": outputs}
    missing = {name: Lengths(mean=value) for name, value in given.items() if value and getattr(found, name) is None}
    return msgspec.structs.replace(found, **missing)


def base_of(session: Session, preset: str | None, model: str | None, where: str) -> Workload:
    """The workload that traffic is laid over: a preset, or a model alone; raises `UserError` where neither is named."""
    import msgspec

    from planner.workload.tasks import Workload

    if preset is None and model is None:
        raise UserError(Problem(where, "model", "is not in the traffic; give --model, or --preset for model, engine and targets."))
    base = session.presets.load(preset).workload if preset else Workload(model=model or "", task="serve")
    return msgspec.structs.replace(base, model=model) if model else base


def _write(session: Session, found: Traffic, out: Path, preset: str | None, model: str | None, rate: RateChoice) -> None:
    from planner.durable import write_out
    from planner.workload.presets import as_toml
    from planner.workload.traffic.preset import service_of

    base = base_of(session, preset, model, found.source)
    workload = session.workload(service_of(base, found, rate=rate), found.source)
    write_out(out, as_toml(workload, out))
    say(f"preset: {out}")
