"""Access logs: arrival times of requests, and their tokens where the log has them.

Text in the common or combined format (httpd.apache.org/docs/current/logs.html, nginx's default) only has times. One JSON object per line is
read by the keys that gateways use: a time, and `usage` as OpenAI's interface returns it (platform.openai.com/docs/api-reference/chat).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.numbers import as_number
from planner.observe.traffic.lines import NumberedLines
from planner.observe.traffic.traces import seconds_of
from planner.workload.traffic.trace import Trace, TraceBuilder

ACCESS = re.compile(
    rb'\S+ \S+ \S+ \[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\] "(\S+)(?: (\S+)[^"]*)?" (\d{3})'
)
MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
TIMES = ("timestamp", "time", "ts", "@timestamp", "startTime", "start_time", "created", "created_at", "time_iso8601", "msec")
INPUTS = ("prompt_tokens", "input_tokens")
OUTPUTS = ("completion_tokens", "output_tokens")


def read_access_log(path: Path) -> Trace:
    """Answered POST requests of a text log; raises `UserError`."""
    lines, builder = NumberedLines(path), TraceBuilder("access log", str(path))
    for number, line in lines:
        matched = ACCESS.match(line)
        if matched is None:
            lines.wrong(number, "is not of the common or combined log format.")
        elif matched[10] != b"POST":
            builder.left_out["not a POST request"] += 1
        elif matched[12][:1] not in b"2":
            builder.left_out["answered with an error"] += 1
        else:
            try:
                builder.add(_clock(matched), None, None)
            except ValueError as error:
                lines.wrong(number, f"has no such date: {error}.")
    builder.left_out.update(lines.unusable())
    if not builder.times:
        raise UserError(Problem(str(path), "", "holds no POST request that was answered."))
    return builder.trace(absolute=True)


def _clock(matched: re.Match[bytes]) -> float:
    """Seconds since 1970 of the time in brackets."""
    day, year, hour, minute, second = (int(matched[place]) for place in (1, 3, 4, 5, 6))
    offset = dt.timedelta(hours=int(matched[8]), minutes=int(matched[9])) * (1 if matched[7] == b"+" else -1)
    month = MONTHS.index(matched[2]) + 1
    return dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.timezone(offset)).timestamp()


def read_json_log(path: Path) -> Trace:
    """Requests of a log of JSON objects; raises `UserError`."""
    lines, builder = NumberedLines(path), TraceBuilder("JSON access log", str(path))
    cached = False
    for number, line in lines:
        try:
            found = msgspec.json.decode(line)
            time_s = _time(found)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            lines.wrong(number, f"is no request: {error}.")
            continue
        if not 200 <= (_number(found, ("status",)) or 200) < 300:
            builder.left_out["answered with an error"] += 1
            continue
        usage = next(_tables(found, ("usage",)), found)
        details = next(_tables(usage, ("prompt_tokens_details", "input_tokens_details")), {})
        hit = _number(details, ("cached_tokens",))
        cached = cached or hit is not None
        builder.add(time_s, _number(usage, INPUTS), _number(usage, OUTPUTS), hit)
    builder.left_out.update(lines.unusable())
    trace = builder.trace(absolute=True, prefix_basis="cached tokens of the answers" if cached else "")
    if not trace.requests:
        raise UserError(Problem(str(path), "", "holds no request that was answered."))
    return trace


def _tables(found: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Tables with one of `names`, in `found` or in a table of it."""
    for name in names:
        if isinstance(found.get(name), dict):
            yield found[name]
    for inner in found.values():
        if isinstance(inner, dict):
            yield from (inner[name] for name in names if isinstance(inner.get(name), dict))


def _time(found: Any) -> float:
    """Seconds since 1970; raises ValueError where no key holds a time."""
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  # as for every other line that is no request
    for name in TIMES:
        value = found.get(name)
        if isinstance(value, (int, float, str)):
            return seconds_of(str(value))
    raise ValueError(f"none of {', '.join(TIMES)} is there")


def _number(table: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    value = next((table[name] for name in names if isinstance(table.get(name), (int, float))), None)
    return as_number(value)
