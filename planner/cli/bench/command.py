"""`gpu-planner bench`: measure this machine; results are stored, and printed to stdout as they arrive, progress to stderr."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.protocol import SUITES
from planner.cli.bench.serving import SERVE, measure_server, serve_options
from planner.cli.emit.measuring import FORMS, Form, suite_elsewhere, write_job
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, Number, given_options, json_option, pass_invocation
from planner.cli.terminal.streams import say
from planner.errors import Problem, UserError
from planner.paths import presets_folder, state_folder

if TYPE_CHECKING:
    from planner.cli.bench.narrator import Narrator
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement
    from planner.hardware.measurements.store import Store
    from planner.observe.benchmark.events import BenchRequest, Failed, Finished
    from planner.observe.benchmark.process import BenchRun
    from planner.session import Session

CALIBRATING = ("quick", "standard")
"""Suites whose results change the ceilings that plans use."""
PROVING = "prove"
GPUS_A_NODE = 8
"""GPUs of each node, where several nodes are measured and --ranks is not given."""
WRONG_INPUT = {"no-interpreter", "not-python", "too-old", "no-torch", "no-device", "no-suite", "no-peers"}
"""Failures that another option would have avoided."""


@click.command()
@click.option(
    "--suite",
    type=click.Choice([*SUITES, SERVE]),
    default="quick",
    show_default=True,
    help="quick: under a minute; standard: everything, in rounds, ten minutes at most; study: training steps over model sizes; "
    "collectives: communication between GPUs, also between nodes if started by torchrun; prove: a first run on a new kind of device, with expected results; "
    "serve: an OpenAI-compatible server at --url, without torch; smoke: a self-test, not used by plans.",
)
@click.option(
    "--device", default="auto", show_default=True, metavar="NAME", help="cpu, cuda:0, cuda:1, …; auto: the first GPU, else the CPU."
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Interpreter whose torch is measured (or its environment's folder).",
)
@click.option("--model", metavar="NAME", help="Also measure the matrix products of this model (quick and standard).")
@click.option(
    "--ranks",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="GPUs (or CPU processes) for the collectives of the standard suite. The default is all GPUs, or two processes.",
)
@click.option("--axis", type=click.Choice(["width", "batch"]), help="study: what to vary, the model (default) or the batch.")
@click.option("--depth-law", metavar="LAW", help="study: depth of the models: printed (default), log2, or a number of layers.")
@click.option("--vocabulary", type=click.IntRange(1, 10**7), metavar="N", help="study: vocabulary of the models.")
@click.option("--cap", "cap_s", type=Number(1, 1e9), metavar="SECONDS", help="Stop after this time and keep the results so far.")
@click.option(
    "--resume",
    is_flag=True,
    help="Skip points that the last run of this suite measured on the same machine with the same software.",
)
@click.option(
    "--emit",
    type=click.Choice(FORMS),
    help="Write a job that runs the benchmark elsewhere: a SkyPilot task, an sbatch script, a Dockerfile, a Kubernetes Job, a JobSet, a Job for Kueue or one for Ray.",
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME",
    help="With --emit: measure this GPU (repeat for more) instead of the plan's first ones.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="With --emit: measure N nodes together (the suite collectives), of 8 GPUs each or --ranks.",
)
@click.option(
    "--preset",
    metavar="PRESET",
    help="Also measure the matrix products of its model (quick and standard). With --emit: measure the first GPUs of its plan.",
)
@serve_options
@json_option
@pass_invocation
@click.pass_context
def bench(
    ctx: click.Context,
    invocation: Invocation,
    /,
    suite: str,
    device: str,
    python: Path | None,
    model: str | None,
    ranks: int | None,
    axis: str | None,
    depth_law: str | None,
    vocabulary: int | None,
    cap_s: float | None,
    resume: bool,
    emit: Form | None,
    gpus: tuple[str, ...],
    nodes: int | None,
    preset: str | None,
    as_json: bool,
    **serving: Any,
) -> int:
    """Benchmark this machine with torch. Later plans use the results.

    Every result is stored when it arrives, so results of an interrupted run (Ctrl+C) are not lost. With --json each line is one
    measurement: `gpu-planner schema measurement`.
    """
    if suite == SERVE and emit is None:
        return measure_server(invocation.session(), as_json=as_json, **serving)
    if suite == SERVE:
        raise UserError(Problem("--url", "", "is only measured with --suite serve."))
    if alone := given_options(serving):
        raise UserError([Problem(option, "", "is only measured with --suite serve.") for option in alone])
    if emit is not None:
        chosen = None if ctx.get_parameter_source("suite") is click.core.ParameterSource.DEFAULT else suite
        over = nodes is not None and nodes > 1
        spread = (ranks or (GPUS_A_NODE if over else 1), nodes or 1)
        return write_job(invocation.session(), emit, suite_elsewhere(chosen, over=over), gpus, preset, model, spread)
    of_study = {"--axis": axis, "--depth-law": depth_law, "--vocabulary": vocabulary}
    _check_combination(suite, gpus, nodes, model, preset, of_study)
    rank = _rank(suite)
    if rank:
        return asyncio.run(_as_rank(python, device))
    session = invocation.session()
    options = _worker_options(session, suite, model, preset, {**of_study, "--wall-cap-s": cap_s, "--ranks": ranks})
    skip, skip_if = _measured_before(session.store, suite) if resume else ((), None)
    from planner.observe.benchmark.events import BenchRequest

    request = BenchRequest(
        state=invocation.state or state_folder(),
        suite=suite,
        device=device,
        python=python,
        skip=skip,
        skip_if=skip_if,
        options=options,
        restarts=rank is None,
    )
    return _measure(session, request, as_json=as_json)


def _check_combination(
    suite: str,
    gpus: tuple[str, ...],
    nodes: int | None,
    model: str | None,
    preset: str | None,
    of_study: Mapping[str, str | int | None],
) -> None:
    """Raise `UsageError` for options that exclude each other."""
    if gpus or nodes is not None:
        wrong = "--gpu" if gpus else "--nodes"
        raise click.UsageError(f"{wrong} needs --emit. To measure this machine, use --device; for several nodes, use torchrun.")
    if model is not None and preset is not None:
        raise click.UsageError("--model and --preset both name a model; give one of them.")
    if suite != "study" and (given := [name for name, value in of_study.items() if value is not None]):
        raise click.UsageError(f"{', '.join(given)} apply only to the suite study.")


def _rank(suite: str) -> int | None:
    """Rank of this process if torchrun started it; None otherwise."""
    from planner.observe.benchmark.worker import SUITE, rank_of

    return rank_of(os.environ) if suite == SUITE else None


def _worker_options(
    session: Session, suite: str, model: str | None, preset: str | None, options: Mapping[str, str | float | None]
) -> tuple[str, ...]:
    """Arguments of the worker: the given options, and the matrix products of the model if one is named."""
    from planner.observe.benchmark.worker import WITH_PRODUCTS, product_options

    if (law := options.get("--depth-law")) is not None:
        from planner.engine.study.sizes import depth_of

        depth_of(256, str(law))
    if (model or preset) and suite not in WITH_PRODUCTS:
        raise click.UsageError(f"--{'model' if model else 'preset'} applies only to the suites quick and standard.")
    of_model = model or (session.presets.load(preset).workload.model if preset else None)
    given = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return (*given, *(product_options(session.architecture(of_model)) if of_model else ()))


def _measure(session: Session, request: BenchRequest, *, as_json: bool) -> int:
    """Run the benchmark and report its events; returns the exit code."""
    from planner.cli.bench.narrator import Narrator
    from planner.observe.benchmark.process import BenchRun

    narrator = Narrator(as_json=as_json, measured=session.log_prediction)
    asked: list[signal.Signals] = []
    last = asyncio.run(_follow(BenchRun(request, session.store, session.canonical_name), narrator, asked))
    part = session.part_named(narrator.device)
    if part is not None and not as_json and request.suite in CALIBRATING:
        from planner.cli.terminal.sections import console, print_sections
        from planner.present.benchmark.measurement import change_sections
        from planner.session.before_after import change_of

        session.refresh()
        print_sections(change_sections(change_of(session, part)), console())
    proven = request.suite != PROVING or part is None or _proven(session, part, narrator.measurements, as_json=as_json)
    return _exit_code(last, asked) or (ExitCode.ANSWERED if proven else ExitCode.NOTHING_FOUND)


def _proven(session: Session, part: Gpu, points: Sequence[Measurement], *, as_json: bool) -> bool:
    """Print how each point compares with its prediction; returns True if they prove the device."""
    from planner.cli.terminal.sections import console, print_json, print_sections
    from planner.engine.estimate.proof import is_proven, load_expected, prove
    from planner.present.benchmark.measurement import proof_section

    expected = load_expected(presets_folder() / "expected").get(part.name)
    lines = list(prove(points, part, session.ceilings(part, basis="spec"), expected, session.architecture))
    if as_json:
        print_json(lines)
    else:
        print_sections([proof_section(part.name, lines)], console())
    return is_proven(lines)


def _measured_before(store: Store, suite: str) -> tuple[tuple[str, ...], str | None]:
    """Points that `suite` measured under the fingerprint of its last run, and that fingerprint."""
    runs = [run for run in store.runs() if run.suite == suite]
    if not runs:
        return (), None
    latest = store.latest(runs[0].device, runs[0].fingerprint, suite=suite)
    return tuple(one.point for one in latest if one.reliable), runs[0].fingerprint


async def _as_rank(python: Path | None, device: str) -> int:
    """Run as one of the further ranks that torchrun started; the first one measures and stores the results."""
    from planner.observe.benchmark.interpreter import NoInterpreter, probe_interpreter_async
    from planner.observe.benchmark.worker import follow

    found = await probe_interpreter_async(python)
    if isinstance(found, NoInterpreter):
        say(f"error: {found.message} {found.next_step}")
        return ExitCode.WRONG_INPUT
    return ExitCode.ANSWERED if await follow(found, device) == 0 else ExitCode.NOTHING_FOUND


async def _follow(run: BenchRun, narrator: Narrator, signals: list[signal.Signals]) -> Finished | Failed:
    """Report every event and return the last one. Ctrl+C and SIGTERM are added to `signals` and stop the worker; the run then ends as cancelled."""
    from planner.observe.benchmark.events import Failed, Finished

    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[None]] = []

    def stop(number: signal.Signals) -> None:
        signals.append(number)
        stopping.append(loop.create_task(run.stop()))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        async for event in run.events():
            narrator.report(event)
            if isinstance(event, Finished | Failed):
                return event
    finally:
        await asyncio.gather(run.stop(), *stopping)
    raise AssertionError("a benchmark run ends with Finished or Failed")


def _exit_code(last: Finished | Failed, signals: Sequence[signal.Signals]) -> int:
    if last.state == "cancelled":
        return ExitCode.TERMINATED if signals[:1] == [signal.SIGTERM] else ExitCode.INTERRUPTED
    if last.state in WRONG_INPUT:
        return ExitCode.WRONG_INPUT
    if last.waiting:
        return ExitCode.OUTPUT_LOST
    return ExitCode.ANSWERED if last.state == "finished" and last.kept else ExitCode.NOTHING_FOUND
