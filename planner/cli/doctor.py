"""`gpu-planner doctor`: drivers, GPUs, torch, folders and prices of this machine and installation."""

from __future__ import annotations

import datetime as dt
import platform
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

import planner
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation
from planner.cli.terminal import sections as listing
from planner.errors import UserError
from planner.observe.machine import LocalGpu
from planner.paths import presets_folder
from planner.session import Session
from planner.units import UNKNOWN, age_text, bytes_text, si_text

Facts = dict[str, Any]
TOPIC = 14
"""Width of the column of topics in cells."""


@click.command()
@click.option("--python", metavar="PATH", type=click.Path(path_type=Path), help="Interpreter whose torch would be measured.")
@json_option
@pass_invocation
def doctor(invocation: Invocation, python: Path | None, as_json: bool) -> int:
    """Show this installation: driver and GPUs, processor, torch, folders, catalogue, age of the prices, measurements."""
    found = examine(invocation, python)
    if as_json:
        listing.print_json(found)
    else:
        for topic, facts in found.items():
            _print_topic(topic, facts)
    return ExitCode.ANSWERED


class Subject(NamedTuple):
    """Examined installation: its session and the interpreter that would measure."""

    session: Session
    python: Path | None
    """Interpreter whose torch would be measured; None: this process's own."""


class Topic(NamedTuple):
    """One part of the output."""

    facts: Callable[[Subject], Facts]
    lines: Callable[[Facts], list[str]]
    """Function that returns the facts as lines of text."""


def examine(invocation: Invocation, python: Path | None) -> dict[str, Facts]:
    """Facts of every topic; a topic that cannot be read has the key `error` instead."""
    subject = Subject(invocation.session(), python)
    return {name: _facts_or_error(topic, subject) for name, topic in TOPICS.items()}


def _facts_or_error(topic: Topic, subject: Subject) -> Facts:
    try:
        return topic.facts(subject)
    except (UserError, OSError) as wrong:
        return {"error": str(wrong)}


def _program(_: Subject) -> Facts:
    return {
        "version": planner.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _nvml(subject: Subject) -> Facts:
    machine = subject.session.machine
    return {
        "state": machine.nvml_state,
        "detail": machine.nvml_detail,
        "driver": machine.driver_version,
        "cuda": machine.cuda_version,
        "gpus": [_gpu(local) for local in machine.gpus],
    }


def _gpu(local: LocalGpu) -> Facts:
    facts = local.facts
    return {
        "index": facts.index,
        "uuid": facts.uuid,
        "name": facts.nvml_name,
        "catalogue": local.gpu.name if local.gpu else None,
        "memory_bytes": facts.memory_total_bytes,
        "compute_capability": facts.compute_capability,
        "cuda_ordinal": facts.cuda_ordinal,
        "mig": None if facts.mig_profiles is None else list(facts.mig_profiles),
        "gpm": facts.gpm_state,
    }


def _cpu(subject: Subject) -> Facts:
    cpu = subject.session.machine.cpu
    return {
        "name": cpu.name,
        "cores": cpu.sm_count,
        "memory_bytes": cpu.memory_bytes,
        "peak_flop_per_s": dict(cpu.compute_flop_per_s),
        "memory_bandwidth_bytes_per_s": cpu.memory_bandwidth_bytes_per_s,
        "note": cpu.note,
    }


def _torch(subject: Subject) -> Facts:
    from planner.observe.benchmark.interpreter import Interpreter, probe_interpreter

    found = probe_interpreter(subject.python)
    if isinstance(found, Interpreter):
        return {"state": "ready", "interpreter": str(found.path), "python": found.python_version, "torch": found.torch_version}
    return {"state": found.state, "detail": str(found)}


def _folders(subject: Subject) -> Facts:
    session = subject.session
    folders = {"presets": presets_folder(), "config": session.config, "state": session.state}
    return {name: {"path": str(path), "exists": path.is_dir()} for name, path in folders.items()}


def _catalogue(subject: Subject) -> Facts:
    session = subject.session
    return {
        "gpus": len(session.gpus.all),
        "offers": len(session.offers),
        "models": len(session.models.names()),
        "presets": len(session.presets.names()),
    }


def _prices(subject: Subject) -> Facts:
    session = subject.session
    dates: list[dt.date] = []
    own: dict[str, str] = {}
    for offer in session.offers:
        try:
            dates.append(dt.date.fromisoformat(offer.as_of))
        except ValueError:
            continue  # some sources state only a year
    for offer in session.own_offers:
        own[offer.provider] = max(offer.as_of, own.get(offer.provider, ""))
    newest = max(dates, default=None)
    today = dt.datetime.now(tz=dt.UTC).date()
    return {
        "oldest": min(dates, default=None),
        "newest": newest,
        "age_days": (today - newest).days if newest else None,
        "undated": len(session.offers) - len(dates),
        "own": own,
        "own_folder": str(session.offers_folder),
    }


def _measurements(subject: Subject) -> Facts:
    store = subject.session.store
    count = len(store)
    return {"count": count, "file": str(store.path) if store.result.kept else None, "warnings": list(store.warnings)}


def _print_topic(topic: str, facts: Facts) -> None:
    if "error" in facts:
        first, *rest = str(facts["error"]).splitlines()
    else:
        first, *rest = TOPICS[topic].lines(facts)
    room = max(40, listing.console().width - TOPIC)
    for number, line in enumerate((first, *rest)):
        own = len(line) - len(line.lstrip())
        for part, text in enumerate(textwrap.wrap(line, room, subsequent_indent=" " * own, break_long_words=False) or [""]):
            print(f"{topic if number == part == 0 else '':<{TOPIC}}{text}")


def _nvml_lines(facts: Facts) -> list[str]:
    if facts["state"] != "ready":
        return [facts["detail"]]
    lines = [f"driver {facts['driver'] or UNKNOWN}, CUDA up to {facts['cuda'] or UNKNOWN}, {len(facts['gpus'])} GPUs"]
    for gpu in facts["gpus"]:
        known = f"= {gpu['catalogue']}" if gpu["catalogue"] else "not in the catalogue"
        slices = "" if gpu["mig"] is None else f", MIG {' '.join(gpu['mig']) or 'without slices'}"
        lines.append(f"{gpu['index']} {gpu['name']}, {bytes_text(gpu['memory_bytes'])}, {known}{slices}")
        lines.append(f"  SM, tensor and bandwidth counters (GPM): {_gpm_text(gpu)}")
    return lines


def _gpm_text(gpu: Facts) -> str:
    from planner.observe.driver.counters import NO_GPM, NOT_WITH_MIG
    from planner.observe.snapshot import REASON_TEXTS

    if gpu["gpm"] == "ok":
        return "readable"
    if gpu["gpm"] == "not supported":
        return NOT_WITH_MIG if gpu["mig"] is not None else NO_GPM.partition("counters ")[2]
    return REASON_TEXTS[gpu["gpm"]]


def _cpu_lines(facts: Facts) -> list[str]:
    peaks = ", ".join(f"{dtype} {si_text(rate, 'FLOP/s')}" for dtype, rate in facts["peak_flop_per_s"].items()) or UNKNOWN
    return [f"{facts['name']}, {facts['cores']} cores, {bytes_text(facts['memory_bytes'])}", f"at most {peaks}", facts["note"]]


def _torch_lines(facts: Facts) -> list[str]:
    if facts["state"] != "ready":
        return [facts["detail"]]
    return [f"{facts['torch']} in {facts['interpreter']} (Python {facts['python']})"]


def _folder_lines(facts: Facts) -> list[str]:
    return [f"{name}: {folder['path']}" + ("" if folder["exists"] else " (created when needed)") for name, folder in facts.items()]


def _price_lines(facts: Facts) -> list[str]:
    if facts["newest"] is None:
        return ["no dated offer"]
    undated = f"; {facts['undated']} offers state only a year" if facts["undated"] else ""
    yours = ", ".join(f"{provider} of {as_of}" for provider, as_of in facts["own"].items())
    return [
        f"newest of {facts['newest']}, {age_text(facts['age_days'])}; oldest of {facts['oldest']}{undated}",
        f"yours: {yours}, in {facts['own_folder']}" if yours else "all as shipped; today's: gpu-planner offers refresh",
    ]


def _measurement_lines(facts: Facts) -> list[str]:
    where = f" in {facts['file']}" if facts["file"] else ", kept in memory"
    return [f"{facts['count']}{where}"]


TOPICS: Mapping[str, Topic] = {
    "program": Topic(_program, lambda facts: [f"gpu-planner {facts['version']}, Python {facts['python']}, {facts['platform']}"]),
    "nvml": Topic(_nvml, _nvml_lines),
    "cpu": Topic(_cpu, _cpu_lines),
    "torch": Topic(_torch, _torch_lines),
    "folders": Topic(_folders, _folder_lines),
    "catalogue": Topic(_catalogue, lambda facts: [", ".join(f"{count} {kind}" for kind, count in facts.items())]),
    "prices": Topic(_prices, _price_lines),
    "measurements": Topic(_measurements, _measurement_lines),
}
