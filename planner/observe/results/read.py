"""Result files of other tools, recognised by content: the table of formats."""

from __future__ import annotations

import msgspec

from planner.errors import Problem, UserError
from planner.observe.results.readers import (
    aiperf,
    guidellm,
    inference_perf,
    llama_bench,
    mlperf,
    nccl_tests,
    serving_scripts,
    trtllm_bench,
)
from planner.observe.results.result import Contents, Read, Reader, Result
from planner.reading import check_depth
from planner.schema import faults
from planner.text import one_line

MOST_RESULTS = 10_000
SHOWN = 60


def _own(contents: Contents) -> list[Result]:
    """Results in a file with one JSON line per load, in the planner's own names."""
    if problems := [problem for one in contents.objects for problem in faults(Result, one, contents.where)]:
        raise UserError(problems)
    return [msgspec.convert(one, Result) for one in contents.objects]


READERS = (
    *serving_scripts.READERS,
    guidellm.READER,
    aiperf.READER,
    inference_perf.READER,
    trtllm_bench.READER,
    llama_bench.READER,
    nccl_tests.READER,
    mlperf.READER,
    Reader(
        "gpu-planner bench serve",
        lambda contents: contents.have("tool", "settings", "seen"),
        _own,
        "what bench --suite serve --out wrote",
    ),
)
"""Readers in order; the first that recognises a file reads it."""


def is_exported(data: bytes) -> bool:
    """True if the file looks like gpu-planner's own: a JSON object with a schema and measurements."""
    contents = Contents("", data)
    try:
        return (
            contents.is_json and isinstance(contents.json, dict) and ("schema" in contents.json or "measurements" in contents.json)
        )
    except UserError:
        return False


def recognised(data: bytes, where: str) -> bool:
    """True if a format matches; False for files that cannot be read."""
    contents = Contents(where, data)
    try:
        return any(one.recognises(contents) for one in READERS)
    except UserError:
        return contents.is_json and b"ttft" in data  # a result that was cut off is reported, not left out


def read_results(data: bytes, where: str) -> Read:
    """Results in a file, at least one; raises `UserError` for a file in no known format, that is cut off, or without results."""
    contents = Contents(where, data)
    if not data.strip():
        raise UserError(Problem(where, "", "is empty."))
    reader = next((one for one in READERS if one.recognises(contents)), None)
    if reader is None:
        raise UserError(Problem(where, "", _telemetry(contents) or _unknown(contents)))
    try:
        found = reader.read(contents)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise UserError(Problem(where, "", f"looks like {reader.tool}'s, but its form is not known: {error!r}.")) from None
    if not found:
        raise UserError(Problem(where, "", f"is {reader.tool}'s, and holds no result."))
    if len(found) > MOST_RESULTS:
        raise UserError(Problem(where, "", f"holds {len(found):,} results; {MOST_RESULTS:,} is the most that is read from a file."))
    return found


def _telemetry(contents: Contents) -> str:
    """Hint for reading a log of telemetry, which contains no measurement; '' for another file."""
    from planner.observe.telemetry.smi_log import logged_snapshots

    try:
        logged = not contents.is_json and logged_snapshots(contents.text, contents.where, "") is not None
    except UserError:
        logged = True
    return (
        f"is a log of GPU activity, not a measurement: gpu-planner rightsize --replay {contents.where} judges it." if logged else ""
    )


def _unknown(contents: Contents) -> str:
    if contents.is_json:
        check_depth(contents.json, contents.where)
        keys = ", ".join(list(contents.objects[0])[:6]) if contents.objects else "a list"
        begins = f"it holds {one_line(keys)[:SHOWN]}"
    else:
        begins = f"it begins with {one_line(next(iter(contents.lines), ''))[:SHOWN]!r}"
    known = "; ".join(f"{one.tool} ({one.looks_like})" for one in READERS)
    return f"is not a result file of a supported tool: {begins}. Accepted files: measurements exported by gpu-planner; {known}."
