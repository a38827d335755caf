"""`gpu-planner rightsize`: observed use of GPUs, and recommended changes with their monthly savings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Invocation, Number, folder_options, json_option, pass_invocation
from planner.cli.terminal.streams import print_line, say
from planner.cli.watch.source import Origin, Readings, demo_option
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.engine.advice.advice import Advice
    from planner.engine.advice.observation import Observed
    from planner.observe.snapshot import DeviceSnapshot, Snapshot
    from planner.observe.telemetry.window import FleetGpu
    from planner.session import Session
    from planner.workload.tasks import Workload

DEFAULT_SECONDS = 30.0
DEFAULT_FLEET_SECONDS = 3600.0
INTERVAL_S = 1.0
MOST_EACH = 16
"""Maximum number of GPUs with a section each; more are summarised as a fleet."""
GRACE_S = 15.0
"""Additional seconds to wait for a source that starts slowly."""


@click.command()
@click.option(
    "--seconds",
    type=Number(1, 31 * 86400),
    metavar="S",
    help="Duration to watch, or to use from the end of a recording. [default: 30; all of a recording; 3600 with --prometheus]",
)
@click.option("--replay", type=FILE, metavar="FILE", help="Use a recording instead of this machine.")
@demo_option
@click.option(
    "--source",
    "exporters",
    multiple=True,
    metavar="URL",
    help="Watch an exporter: dcgm-exporter's, or one in the format of watch --prometheus; repeatable.",
)
@click.option(
    "--prometheus",
    "servers",
    multiple=True,
    metavar="URL",
    help="Query a Prometheus server for the history of a fleet; repeatable.",
)
@click.option("--each", is_flag=True, help="Show a section for every GPU, even of a large fleet.")
@click.option(
    "--match", default="", metavar="LABELS", help='With --prometheus: label matchers, such as \'cluster="a",job=~"dcgm.*"\'.'
)
@click.option(
    "--preset", metavar="NAME", help="Workload that runs on each GPU; cheaper GPUs, batches and formats are then checked."
)
@click.option("--tokens-per-s", type=Number(0, 1e12, above=True), metavar="N", help="Tokens per second measured on one GPU.")
@click.option("--price", "usd_per_h", type=Number(0, 1e6), metavar="USD", help="Your price of one GPU per hour.")
@click.option(
    "--provider", "providers", multiple=True, metavar="NAME", help="Compare only with offers of this provider; repeatable."
)
@click.option("--kwh", type=Number(0, 1e3), default=0.15, show_default=True, metavar="USD", help="Price per kWh for an owned GPU.")
@click.option(
    "--hosting",
    type=Number(0, 1e9),
    default=0.0,
    metavar="USD",
    help="Cost of server and rack per month, for an owned GPU. [default: 0]",
)
@json_option
@folder_options
@pass_invocation
def rightsize(
    invocation: Invocation,
    *,
    seconds: float | None,
    replay: Path | None,
    demo: bool,
    exporters: Sequence[str],
    servers: Sequence[str],
    each: bool,
    match: str,
    preset: str | None,
    tokens_per_s: float | None,
    usd_per_h: float | None,
    providers: Sequence[str],
    kwh: float,
    hosting: float,
    as_json: bool,
    config: Path | None,
    state: Path | None,
) -> int:
    """Measure how well GPUs are used, and recommend larger batches, slices, 8-bit weights, another GPU, fewer GPUs, or no change.

    Exit code 1: there is no GPU to judge.
    """
    from planner.observe.telemetry.window import observe_fleet
    from planner.workload.hardware.owned import Owning

    invocation.config, invocation.state = config or invocation.config, state or invocation.state
    origins = [Origin(replay=replay, demo=demo, source=url) for url in exporters or (None,)]
    if servers and (replay or demo):
        raise UserError(Problem("", "", "--prometheus excludes --replay and --demo; give one."))
    if match and not servers:
        raise UserError(Problem("--match", "", "needs --prometheus."))
    session = invocation.session()
    workload = session.presets.load(preset).workload if preset is not None else None
    fleet = _fleet(servers, seconds or DEFAULT_FLEET_SECONDS, match)
    observed, badges, reason = observe_fleet(fleet, session.gpus), list(servers), ""
    if exporters or not servers:
        watched = windows(session, origins, seconds)
        observed += [gpu for window in watched for gpu in window.observed]
        badges += [window.badge for window in watched if window.badge]
        reason = watched[-1].nvml_detail
    if not observed:
        say(f"no GPU to judge: {reason}")
        return ExitCode.NOTHING_FOUND
    advice = session.rightsize(
        observed,
        workload=workload,
        tokens_per_s=tokens_per_s,
        usd_per_h=usd_per_h,
        providers=providers,
        owning=Owning(usd_per_kwh=kwh, hosting_usd_per_month=hosting),
    )
    if workload is not None and tokens_per_s:
        _log(session, workload, observed[0].gpu, tokens_per_s)
    several = bool(fleet) or len(origins) > 1 or len(observed) > MOST_EACH
    _print(_with_summary(advice, fleet) if several else advice, ", ".join(badges), as_json=as_json, each=each)
    return ExitCode.ANSWERED


def _log(session: Session, workload: Workload, gpu: str, tokens_per_s: float) -> None:
    """Store the observed rate of a job on one GPU with its prediction."""
    from planner.session.prediction_log import OF_SEARCH, log_results, predicted_and_seen
    from planner.workload.tasks import Request, trains

    asked = {key: value for key, value in msgspec.to_builtins(workload).items() if key not in OF_SEARCH}
    figure = "tokens_per_s" if trains(workload.task) else "output_tokens_per_s"
    try:
        request = msgspec.convert(asked | {"gpu": gpu, "gpus": 1}, Request)
        log_results(session, [predicted_and_seen(session, request, {figure: tokens_per_s}, "job", "rightsize")])
    except UserError as why:
        say(f"note: not stored with a prediction: {why}")


def _print(advice: Advice, badge: str, *, as_json: bool, each: bool) -> None:
    from planner.cli.terminal.sections import console, print_json, print_sections
    from planner.present.machine.advice import advice_sections, fleet_remarks, fleet_sections

    if as_json:
        print_json(advice)
        return
    if badge:
        print_line(f"[{badge}]")
    summed = fleet_sections(advice.fleet) if advice.fleet is not None and len(advice.gpus) > 1 else []
    if summed and len(advice.gpus) > MOST_EACH and not each:
        print_sections([*summed, *fleet_remarks(advice)], console())
    else:
        print_sections([*advice_sections(advice), *summed], console())


def _with_summary(advice: Advice, fleet: Sequence[FleetGpu]) -> Advice:
    """`advice` with the totals of a fleet and the memory errors of its GPUs."""
    from planner.engine.advice.fleet import summary_of
    from planner.observe.health import warning_text

    def texts(device: DeviceSnapshot) -> list[str]:
        values = msgspec.structs.asdict(device)
        return [warning_text(name, values).partition(":")[0] for name in device.health_warnings]

    warnings = {(one.host, one.device.index): texts(one.device) for one in fleet if one.device.health_warnings}
    return msgspec.structs.replace(advice, fleet=summary_of(advice, warnings))


def _fleet(servers: Sequence[str], seconds: float, match: str) -> list[FleetGpu]:
    """GPUs in the histories of all servers; raises `UserError` if a server does not answer."""
    if not servers:
        return []
    from planner.observe.telemetry.prometheus import Cost, read_fleet

    cost = Cost()
    found = [one for server in servers for one in read_fleet(server, seconds, match=match, cost=cost)]
    say(f"{cost.queries} queries, {cost.bytes / 1e6:.1f} MB in {cost.seconds:.1f} s")
    return found


class Window(NamedTuple):
    """GPUs observed from one source."""

    observed: list[Observed]
    badge: str
    """Label of a source that is not this machine's present state: DEMO, REPLAY."""
    nvml_detail: str
    """Reason if there are no GPUs."""


def windows(session: Session, origins: Sequence[Origin], seconds: float | None) -> list[Window]:
    """Observations of each source, watched at the same time; GPUs are named by the host in the source's address."""
    if len(origins) == 1:
        return [window_of(session, origins[0], seconds)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(origins)) as pool:
        hosts = [(one.source or "").partition("://")[2].partition("/")[0] for one in origins]
        return list(pool.map(lambda one, host: window_of(session, one, seconds, host), origins, hosts))


def window_of(session: Session, origin: Origin, seconds: float | None, host: str = "") -> Window:
    """GPUs of `origin` over its last, or the next, `seconds`; `host`: name of the host if the source has none."""
    from planner.observe.telemetry.window import observe

    recording = origin.recording()
    if recording is not None:
        last_s = recording.snapshots[-1].taken_at_s
        snapshots = [one for one in recording.snapshots if seconds is None or one.taken_at_s >= last_s - seconds]
    else:
        snapshots = _watched(origin, seconds or DEFAULT_SECONDS)
    return Window(observe(snapshots, session.gpus, host), snapshots[-1].badge or "", snapshots[-1].nvml_detail)


def _watched(origin: Origin, seconds: float) -> list[Snapshot]:
    """Readings of the next `seconds`; a machine without a driver is read once."""
    end_s = time.monotonic() + seconds
    snapshots: list[Snapshot] = []
    say(f"watching {origin.source + ' ' if origin.source else ''}for {seconds:g} s …")
    with Readings(origin, INTERVAL_S) as readings:
        for snapshot in readings:
            snapshots += [snapshot] if snapshot is not None else []
            if (snapshots and not snapshots[-1].devices) or time.monotonic() >= end_s + (0 if snapshots else GRACE_S):
                break
    if not snapshots:
        raise UserError(Problem("", "", f"no answer within {seconds + GRACE_S:g} s."))
    return snapshots
