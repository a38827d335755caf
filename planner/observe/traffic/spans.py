"""Spans of model calls exported by OpenTelemetry as JSON: one document, or one on each line, as the collector's file exporter writes them.

Attributes are those of the GenAI semantic conventions (opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai). A span that
sums up others, such as an agent's, counts tokens twice and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.errors import Problem, UserError
from planner.numbers import as_number
from planner.observe.traffic.lines import NumberedLines
from planner.reading import read_file
from planner.workload.traffic.trace import Trace, TraceBuilder

MOST_BYTES = 256 << 20
INPUTS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUTS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
CACHED = ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.input_tokens.cached", "gen_ai.usage.cached_input_tokens")
"""Current names first, then those of earlier versions and of particular exporters."""
CALLS = {"", "chat", "text_completion", "generate_content"}
"""Operations that are one call of a model."""


def read_spans(path: Path) -> Trace:
    """The model calls in `path`; raises `UserError`."""
    builder = TraceBuilder("OpenTelemetry spans", str(path))
    lines = NumberedLines(path)
    cached = False
    for number, document in _documents(path, lines):
        for span in _spans(document):
            facts = _attributes(span)
            inputs, outputs, hit = (_number(facts, names) for names in (INPUTS, OUTPUTS, CACHED))
            if inputs is None and outputs is None:
                continue
            if str(facts.get("gen_ai.operation.name", "")) not in CALLS:
                builder.left_out["not a call of a model"] += 1
                continue
            began_ns = as_number(span.get("startTimeUnixNano"))
            if began_ns is None:
                lines.wrong(number, "a span has no startTimeUnixNano.")
                continue
            cached = cached or hit is not None
            builder.add(began_ns / 1e9, inputs, outputs, hit)
    builder.left_out.update(lines.unusable())
    if not builder.times and not builder.left_out:
        raise UserError(Problem(str(path), "", f"holds no span with {INPUTS[0]}."))
    trace = builder.trace(absolute=True, prefix_basis="cache reads of the calls" if cached else "")
    return trace if not cached else _known_prefix(trace)


def _known_prefix(trace: Trace) -> Trace:
    """`trace` with no cache reads for calls that do not report them, if other calls of the file do."""
    return replace(trace, prefix_tokens=np.nan_to_num(trace.prefix_tokens))


def _documents(path: Path, lines: NumberedLines) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each document with its line number."""
    whole = _decoded(read_file(path, most_bytes=MOST_BYTES)) if path.stat().st_size <= MOST_BYTES else None
    if whole is not None:
        lines.read += 1
        yield 1, whole
        return
    for number, line in lines:
        document = _decoded(line)
        if document is None:
            lines.wrong(number, "is not a JSON object with resourceSpans.")
        else:
            yield number, document


def _decoded(text: bytes) -> Mapping[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("resourceSpans"), list) else None


def _spans(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in document["resourceSpans"]:
        scopes = resource.get("scopeSpans", ()) if isinstance(resource, dict) else ()
        for scope in scopes if isinstance(scopes, list) else ():
            spans = scope.get("spans") if isinstance(scope, dict) else None
            yield from (span for span in spans if isinstance(span, dict)) if isinstance(spans, list) else ()


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value of a span's attributes; the wire form has each in a table by type."""
    found = {}
    listed = span.get("attributes", ())
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("value"), dict):
            found[str(one.get("key"))] = next(iter(one["value"].values()), None)
    return found


def _number(facts: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """First of `names` that is a number; 64-bit numbers are written as text."""
    return next((value for name in names if (value := as_number(facts.get(name))) is not None), None)
