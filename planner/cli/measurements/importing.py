"""`gpu-planner measurements import`: measurements exported elsewhere, and result files of other tools, compared with predictions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from bench.protocol import utc_now
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, json_option, pass_invocation, settings_option
from planner.cli.terminal.streams import print_line, say, write_json
from planner.durable import NotStoredError
from planner.errors import Problem, UserError
from planner.units import counted

if TYPE_CHECKING:
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.measurements.measurement import Measurement, Run
    from planner.observe.results.compared import Compared
    from planner.observe.results.sources import Source
    from planner.session import Session


def keep_results(session: Session, compared: Iterable[Compared]) -> None:
    """Store predicted results that are not stored yet, and print their number; raises `NotStoredError`."""
    from planner.session.prediction_log import GENERATING, log_results, predicted_and_seen

    log = session.predictions
    values = log.seen()
    there = [
        (one.request, {name: figure.value for (said, name), figure in values.items() if said == one.id}) for one in log.predicted()
    ]
    pairs, known = [], 0
    for one in compared:
        figures = {verdict.quantity for verdict in one.verdicts if verdict.predicted is not None and verdict.quantity in GENERATING}
        seen: dict[str, float] = {name: value for name, value in one.seen.items() if name in figures}
        request = msgspec.to_builtins(one.request)
        if one.refused or not seen:
            continue
        if (request, seen) in there:
            known += 1
            continue
        pairs.append(predicted_and_seen(session, one.request, seen, "import", one.title))
    if pairs:
        log_results(session, pairs)
    if pairs or known:
        say(f"{counted(len(pairs), 'result')} stored for validate" + (f", {known:,} already stored" if known else ""))


def say_outliers(session: Session, devices: Collection[str]) -> None:
    """Print the boards of these devices that are slower than others of their kind; plans do not use them."""
    from planner.present.benchmark.measurement import outlier_texts

    for text in outlier_texts((one for one in session.store.fleet_outliers() if one.device in devices), session.store.runs()):
        say(text)


MOST_NAMED = 5


class FileContents(msgspec.Struct):
    """Contents of all given files; nothing is stored before all are read."""

    exported: list[tuple[str, tuple[Run, ...], tuple[Measurement, ...]]] = msgspec.field(default_factory=list)
    results: list[Compared] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)
    """Files in folders that contain no results."""


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER|URL...")
@settings_option("A setting that the files do not contain, such as gpu=H100; repeatable.")
@json_option
@pass_invocation
def import_measurements(invocation: Invocation, files: tuple[str, ...], settings: Sequence[str], as_json: bool) -> int:
    """Import files exported by gpu-planner, and result files of other tools.

    Every row of gpu-planner's files is checked; values above what the part can reach are quarantined, and plans never use them.
    Results of vllm bench, sglang.bench_serving, GuideLLM, AIPerf, GenAI-Perf, inference-perf, trtllm-bench, llama-bench and MLPerf are
    compared with predictions and stored for `validate`; results of nccl-tests calibrate links. A FILE can also be a folder, https:// or
    hf://datasets/OWNER/NAME.
    """
    from planner.cli.plan.options import given_settings

    session = invocation.session()
    taken = _read(session, files, given_settings(settings))
    _keep(session, taken)
    if as_json:
        write_json(taken.results, indent=2)
    else:
        _print(session, taken)
    return ExitCode.ANSWERED


def _read(session: Session, files: Iterable[str], given: dict[str, Any]) -> FileContents:
    """Read all files; raises `UserError` with the problems of all of them."""
    from planner.observe.results.sources import sources

    taken, problems = FileContents(), list[Problem]()
    for file in files:
        try:
            for source in sources(file):
                try:
                    _read_one(session, source, given, taken)
                except UserError as wrong:
                    problems += wrong.problems
        except UserError as wrong:
            problems += wrong.problems
    if problems:
        raise UserError(_each_once(problems))
    if not taken.exported and not taken.results:
        raise UserError(Problem(", ".join(files), "", f"contains no measurements and no results in {len(taken.left_out):,} files."))
    return taken


def _each_once(problems: Sequence[Problem]) -> list[Problem]:
    """Problems without repetition: the same one in several files, such as a missing setting, becomes one."""
    files: dict[tuple[str, str], dict[str, Problem]] = {}
    for one in problems:
        files.setdefault((one.key, one.message), {}).setdefault(one.where, one)
    return [_of_several(list(found.values())) for found in files.values()]


def _of_several(found: Sequence[Problem]) -> Problem:
    more = len(found) - 1
    return found[0]._replace(where=f"{found[0].where} and {counted(more, 'more file')}") if more else found[0]


def _read_one(session: Session, source: Source, given: dict[str, Any], taken: FileContents) -> None:
    from planner.hardware.measurements.exchange import read_document
    from planner.observe.machine import cpu_key, match_gpu
    from planner.observe.results.collectives import measurement_of
    from planner.observe.results.compared import ResultFile, compare
    from planner.observe.results.read import is_exported, read_results, recognised
    from planner.observe.results.result import CollectiveTimes

    if is_exported(source.data):
        runs, rows = read_document(source.data, source.where, "imported", session.part_named, cpu_key(session.machine.cpu))
        taken.exported.append(
            (
                source.where,
                tuple(msgspec.structs.replace(run, environment={"imported_from": source.name} | run.environment) for run in runs),
                rows,
            )
        )
        return
    if not source.chosen and not recognised(source.data, source.where):
        taken.left_out.append(source.where)
        return

    def find(name: str) -> Gpu | None:
        return match_gpu(name, None, session.gpus)

    found = read_results(source.data, source.where)
    for one in found:
        if isinstance(one, CollectiveTimes):
            run, point = measurement_of(one, given, source.where, find, utc_now())
            taken.exported.append((source.where, (run,), (point,)))
    served = [one for one in found if not isinstance(one, CollectiveTimes)]
    taken.results += compare(session, ResultFile(source.where, source.name, served, given), find, session.models.names())


def _keep(session: Session, taken: FileContents) -> None:
    """Store everything; raises `NotStoredError` if it could not be written to disk."""
    for where, runs, rows in taken.exported:
        new, result = session.store.add_all(rows, runs)
        if not result.kept:
            raise NotStoredError(Problem(where, "", f"{counted(new, 'measurement')} not imported: {result.path} {result.reason}."))
        print_line(
            f"{where}: {counted(new, 'measurement')} imported"
            + (f", {len(rows) - new:,} already stored" if new < len(rows) else "")
        )
    keep_results(session, taken.results)


def _print(session: Session, taken: FileContents) -> None:
    from planner.cli.terminal.sections import console, print_sections
    from planner.present.benchmark.results import result_section

    rows = [one for _, _, rows in taken.exported for one in rows]
    for one in rows:
        if one.quarantine:
            say(f"quarantined {one.id} {one.point} of {one.device}: {one.quarantine}")
    for device in dict.fromkeys(one.device for one in rows):
        if session.part_named(device) is None:
            say(f"note: {device} is not in the catalogue; its rows could not be compared with vendor figures")
    say_outliers(session, {one.device for one in rows})
    for where in taken.left_out[:MOST_NAMED]:
        say(f"{where}: no results, left out")
    if len(taken.left_out) > MOST_NAMED:
        say(f"… and {len(taken.left_out) - MOST_NAMED:,} more files")
    print_sections(
        (result_section(one.title, one.verdicts, one.why, refused=one.refused, notes=one.notes) for one in taken.results), console()
    )
