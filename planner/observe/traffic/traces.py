"""Published traces of requests: CSV with one request per line below a header, and JSON lines with hashes of the leading blocks of prompts.

CSV. Azure (github.com/Azure/AzurePublicDataset, 2023 and 2024): `TIMESTAMP,ContextTokens,GeneratedTokens`. BurstGPT
(github.com/HPMLL/BurstGPT): `Timestamp` in seconds, `Request tokens`, `Response tokens`, from its third part on `Session ID`. Other tables
are read where their columns have a known name.
JSON. Mooncake (github.com/kvcache-ai/Mooncake, FAST25-release/traces): `timestamp` in ms, `input_length`, `output_length`, `hash_ids` of
blocks of 512 tokens. ServeGen's offline traces (github.com/alibaba/ServeGen, data/offline): the same without times, blocks of 16.
"""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from planner.errors import Problem, UserError, nearest_names
from planner.numbers import as_number
from planner.observe.traffic.lines import NumberedLines
from planner.paths import read_shipped_part
from planner.workload.traffic.trace import Trace, TraceBuilder

COLUMNS = read_shipped_part(dict[str, tuple[str, ...]], "columns", "catalogues", "traffic_columns.toml")
"""Meaning of a column -> possible names, in lower case, with punctuation between words replaced by spaces."""
MILLISECONDS = 1e11
"""Numbers above this count milliseconds since 1970, not seconds."""
NAMED = {"contexttokens": "Azure LLM inference trace", "request tokens": "BurstGPT trace"}


def column_places(head: Sequence[str]) -> dict[str, int]:
    """Meaning of each known column of `head` -> its position."""
    plain = [" ".join(name.replace("_", " ").replace("-", " ").replace(".", " ").split()).casefold() for name in head]
    return {what: plain.index(name) for what, names in COLUMNS.items() for name in names[::-1] if name in plain}


def read_table(path: Path) -> Trace:
    """Trace in `path`; raises `UserError` naming the columns that are missing."""
    lines = NumberedLines(path)
    rows = _rows(lines)
    _, head = next(rows, (0, list[str]()))
    places = column_places(head)
    problems = [
        Problem(
            str(path), what, f"no column of {', '.join(head)[:200]} is a request's {words}.", nearest_names(COLUMNS[what][0], head)
        )
        for what, words in (("time", "time"), ("input", "input tokens"), ("output", "output tokens"))
        if what not in places
    ]
    if problems:
        raise UserError(problems)
    plain = head[places["input"]].casefold()
    builder = TraceBuilder(NAMED.get(plain, "CSV trace"), str(path))
    absolute, sessions = False, dict[str, float]()
    for number, row in rows:
        try:
            moment = row[places["time"]]
            absolute = absolute or as_number(moment) is None
            time_s = seconds_of(moment)
            inputs, outputs = float(row[places["input"]]), float(row[places["output"]])
            prefix = float(row[places["prefix"]]) if "prefix" in places else None
        except (ValueError, IndexError) as error:
            lines.wrong(number, f"is no request: {error}.")
            continue
        if prefix is None and "session" in places:
            prefix = _of_session(sessions, row[places["session"]], inputs, outputs)
        builder.add(time_s, inputs, outputs, prefix)
    builder.left_out.update(lines.unusable())
    basis = "as the source says" if "prefix" in places else "earlier turns of a session" if "session" in places else ""
    return builder.trace(absolute=absolute, prefix_basis=basis)


def _rows(lines: NumberedLines) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        try:
            yield number, cells_of(line)
        except ValueError as error:
            lines.wrong(number, f"is not a line of CSV: {error}.")


def cells_of(line: bytes) -> list[str]:
    """Cells of one line of CSV; raises `ValueError`."""
    try:
        return next(csv.reader([line.decode("utf-8", "replace")]))
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _of_session(sessions: dict[str, float], session: str, inputs: float, outputs: float) -> float:
    """Tokens of the previous turns, where the prompt is long enough to contain them; 0 outside a session."""
    before = sessions.get(session, 0.0) if session else 0.0
    if session:
        sessions[session] = inputs + outputs
    return before if before <= inputs else 0.0


def seconds_of(text: str) -> float:
    """A number of seconds, or a date as seconds since 1970 (UTC where it names no zone); raises ValueError."""
    if (number := as_number(text)) is not None:
        return number / (1e3 if number > MILLISECONDS else 1.0)
    moment = dt.datetime.fromisoformat(text.strip())
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
"""Possible tokens per block; the lengths determine which it is."""


class HashedRequest(msgspec.Struct):
    """One line; other keys are ignored."""

    input_length: float
    timestamp: float | None = None
    """Milliseconds."""
    output_length: float | None = None
    hash_ids: list[int] | None = None


def read_hashed(path: Path) -> Trace:
    """Trace in `path`; raises `UserError`."""
    decoder = msgspec.json.Decoder(HashedRequest)
    lines, found = NumberedLines(path), list[HashedRequest]()
    for number, line in lines:
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            lines.wrong(number, f"is not a request of this trace: {error}.")
    timed = any(one.timestamp is not None for one in found)
    builder = TraceBuilder("Mooncake trace" if timed else "ServeGen offline trace", str(path))
    prefixes = _prefixes(found)
    for one, prefix in zip(found, prefixes, strict=True):
        if timed and one.timestamp is None:
            builder.left_out["without a time"] += 1
        else:
            builder.add((one.timestamp or 0.0) / 1e3, one.input_length, one.output_length, prefix)
    builder.left_out.update(lines.unusable())
    known = any(prefix is not None for prefix in prefixes)
    return builder.trace(timed=timed, prefix_basis="blocks seen before, in a cache that never evicts" if known else "")


def _prefixes(requests: list[HashedRequest]) -> list[float | None]:
    """Tokens of each prompt's leading blocks that appeared earlier in the file; None if no request has blocks."""
    hashed = [one for one in requests if one.hash_ids]
    if not hashed:
        return [None] * len(requests)
    widest = max(one.input_length / len(one.hash_ids or [0]) for one in hashed)
    block = next((size for size in BLOCKS if size >= widest), BLOCKS[-1])
    seen: set[int] = set()
    found: list[float | None] = []
    for one in requests:
        ids = one.hash_ids or []
        known = next((place for place, name in enumerate(ids) if name not in seen), len(ids))
        seen.update(ids)
        found.append(float(min(known * block, one.input_length)))
    return found
