"""Result files of other tools, recognised by what they hold: the table of formats."""

from __future__ import annotations

from importlib import import_module

from planner.errors import Problem, UserError
from planner.observe.results.contents import Contents
from planner.observe.results.result import Read, Reader
from planner.reading import check_depth
from planner.text import one_line

READERS = (
    "vllm_serve",
    "vllm_throughput",
    "sglang_serving",
    "guidellm",
    "aiperf",
    "inference_perf",
    "trtllm_bench",
    "llama_bench",
    "nccl_tests",
    "mlperf",
    "own_serving",
)
"""Modules of `planner.observe.results.readers`; the first that recognises a file reads it."""
MOST_RESULTS = 10_000
SHOWN = 60


def readers() -> tuple[Reader, ...]:
    """Every format, in the order in which they are tried."""
    return tuple(import_module(f"planner.observe.results.readers.{name}").READER for name in READERS)


def is_exported(data: bytes) -> bool:
    """Whether the file is gpu-planner's own, or was meant to be: a JSON object with a schema and measurements."""
    contents = Contents("", data)
    try:
        return (
            contents.is_json and isinstance(contents.json, dict) and ("schema" in contents.json or "measurements" in contents.json)
        )
    except UserError:
        return False


def recognised(data: bytes, where: str) -> bool:
    """Whether a format fits; False for what cannot be read."""
    contents = Contents(where, data)
    try:
        return any(one.recognises(contents) for one in readers())
    except UserError:
        return contents.is_json and b"ttft" in data  # a result that was cut off is reported, not left out


def read_results(data: bytes, where: str) -> Read:
    """The results in a file, at least one; raises `UserError` for a file that no format fits, is cut off, or holds none."""
    contents = Contents(where, data)
    if not data.strip():
        raise UserError(Problem(where, "", "is empty."))
    reader = next((one for one in readers() if one.recognises(contents)), None)
    if reader is None:
        raise UserError(Problem(where, "", _telemetry(contents) or _unknown(contents)))
    try:
        found = reader.read(contents)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise UserError(Problem(where, "", f"looks like {reader.tool}'s, but is not of a form that is known: {error!r}.")) from None
    if not found:
        raise UserError(Problem(where, "", f"is {reader.tool}'s, and holds no result."))
    if len(found) > MOST_RESULTS:
        raise UserError(Problem(where, "", f"holds {len(found):,} results; {MOST_RESULTS:,} is the most that is read of a file."))
    return found


def _telemetry(contents: Contents) -> str:
    """The way to read a log of telemetry, which measures nothing; '' for another file."""
    from planner.observe.telemetry.smi_log import logged_snapshots

    try:
        logged = not contents.is_json and logged_snapshots(contents.text, contents.where, "") is not None
    except UserError:
        logged = True
    return (
        f"is a log of what GPUs did, not a measurement: gpu-planner rightsize --replay {contents.where} judges it."
        if logged
        else ""
    )


def _unknown(contents: Contents) -> str:
    if contents.is_json:
        check_depth(contents.json, contents.where)
        keys = ", ".join(list(contents.objects[0])[:6]) if contents.objects else "a list"
        begins = f"it holds {one_line(keys)[:SHOWN]}"
    else:
        begins = f"it begins with {one_line(next(iter(contents.lines), ''))[:SHOWN]!r}"
    known = "; ".join(f"{one.tool} ({one.looks_like})" for one in readers())
    return f"is no result file of a tool that is read: {begins}. Read are measurements exported by gpu-planner; {known}."
