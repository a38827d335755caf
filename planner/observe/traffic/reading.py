"""Reading of traffic files, each according to its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from planner.errors import Problem, UserError
from planner.observe.traffic.logs import ACCESS, read_access_log, read_json_log
from planner.observe.traffic.pages import is_page, read_pages
from planner.observe.traffic.spans import read_spans
from planner.observe.traffic.traces import read_hashed, read_table
from planner.reading import open_file
from planner.workload.traffic.summary import Traffic, summarised
from planner.workload.traffic.trace import Trace, joined

LOOKED_AT = 1 << 16
"""Bytes of a file that identify its format."""
KNOWN = (
    "Mooncake or ServeGen JSON lines, Azure or BurstGPT CSV, OpenTelemetry spans, an access log, or metrics of vLLM, SGLang or TGI"
)


def read_traffic(paths: Sequence[Path], *, seconds: float | None = None) -> tuple[Traffic, Trace | None]:
    """Summary of the files, and their requests where they are listed one by one; raises `UserError`.

    `seconds`: time between two pages of metrics, or since the engine started.
    """
    readers = [_reader(path) for path in paths]
    if all(reader is None for reader in readers):
        return read_pages(paths, seconds), None
    if any(reader is None for reader in readers):
        raise UserError(Problem(str(paths[0]), "", "pages of metrics and lists of requests cannot be read together."))
    trace = read_trace(paths)
    return summarised(trace), trace


def read_trace(paths: Sequence[Path]) -> Trace:
    """Requests of the files in one trace; raises `UserError`."""
    traces = []
    for path in paths:
        reader = _reader(path)
        if reader is None:
            raise UserError(Problem(str(path), "", "is a page of metrics and does not list single requests."))
        traces.append(reader(path))
    return joined(traces)


def _reader(path: Path) -> Callable[[Path], Trace] | None:
    """Reader of the file; None for a page of metrics. Raises `UserError` for one that is neither."""
    with open_file(path) as file:
        begun = file.read(LOOKED_AT)
    begun = begun.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begun:
        raise UserError(Problem(str(path), "", "is empty."))
    first = begun.splitlines()[0].strip()
    if begun.startswith((b"{", b"[")):
        return _json_reader(path, begun, first)
    if ACCESS.match(first):
        return read_access_log
    text = begun.decode("utf-8", "replace")
    if is_page(text):
        return None
    if b"," in first:
        return read_table  # which names the missing columns
    raise UserError(Problem(str(path), "", f"is not in a supported format: {KNOWN}."))


def _json_reader(path: Path, begun: bytes, first: bytes) -> Callable[[Path], Trace]:
    if b'"resourceSpans"' in begun:
        return read_spans
    try:
        keys = msgspec.json.decode(first)
    except (msgspec.DecodeError, ValueError, RecursionError):
        keys = None
    if isinstance(keys, dict):
        return read_hashed if "input_length" in keys else read_json_log
    raise UserError(Problem(str(path), "", f"begins as JSON, but is not in a supported format: {KNOWN}."))
