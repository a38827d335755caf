"""A trace: the arrival and the length of each request."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from planner.errors import Problem, UserError

Floats = NDArray[np.float64]

HOUR_S = 3600.0
MOST = 1e11
"""Upper end of times in seconds since 1970 (year 5138) and of tokens."""
LONGEST_S = 366 * 24 * HOUR_S
"""Longest time from the first request of a trace to its last."""


class Trace(msgspec.Struct, frozen=True):
    """Requests in the order of arrival. Arrays have shape [requests]."""

    arrival_s: Floats
    """Seconds since the first request."""
    input_tokens: Floats
    """NaN: not recorded."""
    output_tokens: Floats
    """NaN: not recorded."""
    prefix_tokens: Floats
    """Leading input tokens that an earlier request had too; NaN: not stated in the source."""
    source: str
    """Format of the source."""
    begins: dt.datetime | None = None
    """Time of the first request; None: the source counts from it."""
    timed: bool = True
    """True if the source has the times of requests; else all arrived at once."""
    left_out: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Reason -> requests that were left out."""
    prefix_basis: str = ""
    """Source of the prefix; empty if it is not known."""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return int(self.arrival_s.size)

    @property
    def seconds(self) -> float:
        """Time from the first request to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if self.requests else 0.0

    @property
    def has_lengths(self) -> bool:
        """True if every request's tokens are recorded."""
        return not (np.isnan(self.input_tokens).any() or np.isnan(self.output_tokens).any())

    def with_lengths(self, input_tokens: float | None, output_tokens: float | None) -> Trace:
        """Trace with these numbers of tokens where none was recorded."""

        def filled(values: Floats, given: float | None) -> Floats:
            return values if given is None else np.where(np.isnan(values), given, values)

        return replace(
            self, input_tokens=filled(self.input_tokens, input_tokens), output_tokens=filled(self.output_tokens, output_tokens)
        )

    def faster(self, factor: float) -> Trace:
        """Trace of the same requests in 1/`factor` of the time."""
        return replace(self, arrival_s=self.arrival_s / factor)

    def hour_edges(self) -> Floats:
        """Ends of the hours in seconds since the first request: whole hours of the clock where that is known; shape [hours + 1]."""
        into = 0.0
        if self.begins is not None:
            into = self.begins.minute * 60 + self.begins.second + self.begins.microsecond / 1e6
        count = int((into + self.seconds) // HOUR_S) + 1
        edges: Floats = np.arange(count + 1, dtype=np.float64) * HOUR_S - into
        return edges

    def hours(self) -> Iterator[tuple[float, str, float]]:
        """(begin in seconds since the first request, time of the clock where it is known, seconds that the trace covers) of each hour."""
        for begins_s, ends_s in pairwise(self.hour_edges().tolist()):
            clock = (self.begins + dt.timedelta(seconds=begins_s)).isoformat(timespec="minutes") if self.begins else ""
            yield begins_s, clock, min(ends_s, self.seconds) - max(begins_s, 0.0)


class TraceBuilder:
    """Builder that collects requests of one source, in any order, and counts unusable ones by reason."""

    def __init__(self, source: str, where: str) -> None:
        self.source, self.where = source, where
        self.times: list[float] = []
        self.inputs: list[float] = []
        self.outputs: list[float] = []
        self.prefixes: list[float] = []
        self.left_out: Counter[str] = Counter()

    def add(self, time_s: float, inputs: float | None, outputs: float | None, prefix: float | None = None) -> None:
        """Add one request; without an input or an output token it is left out, as in engines."""
        if not all(value is None or -MOST <= value <= MOST for value in (time_s, inputs, outputs, prefix)):
            self.left_out["with an impossible number"] += 1
        elif inputs is not None and inputs <= 0:
            self.left_out["without an input token"] += 1
        elif outputs is not None and outputs <= 0:
            self.left_out["failed: without an output token"] += 1
        else:
            self.times.append(time_s)
            self.inputs.append(np.nan if inputs is None else inputs)
            self.outputs.append(np.nan if outputs is None else outputs)
            self.prefixes.append(np.nan if prefix is None else prefix)

    def trace(self, *, absolute: bool = False, timed: bool = True, prefix_basis: str = "") -> Trace:
        """Requests in order; `absolute`: times are seconds since 1970, UTC. Raises `UserError` for impossible times."""
        times = np.array(self.times, dtype=np.float64)
        order = np.argsort(times, kind="stable")
        first = float(times[order[0]]) if times.size else 0.0
        if times.size and float(times[order[-1]]) - first > LONGEST_S:
            raise UserError(Problem(self.where, "", "spans more than a year: are its times seconds?"))
        inputs, outputs, prefixes = (
            np.array(values, dtype=np.float64)[order] for values in (self.inputs, self.outputs, self.prefixes)
        )
        return Trace(
            arrival_s=times[order] - first,
            input_tokens=inputs,
            output_tokens=outputs,
            prefix_tokens=np.minimum(prefixes, np.maximum(inputs - 1, 0.0)),
            source=self.source,
            begins=dt.datetime.fromtimestamp(first, dt.UTC) if absolute and times.size else None,
            timed=timed,
            left_out=dict(self.left_out),
            prefix_basis=prefix_basis,
        )


def joined(traces: Sequence[Trace]) -> Trace:
    """Requests of several traces in one; traces without a clock follow each other."""
    first = traces[0]
    if len(traces) == 1:
        return first
    begins = [trace.begins for trace in traces]
    clocked = [one for one in begins if one is not None]
    if len(clocked) == len(traces):
        start = min(clocked)
        offsets = [(one - start).total_seconds() for one in clocked]
    else:
        start, offsets = None, list(np.cumsum([0.0, *(trace.seconds for trace in traces[:-1])]))
    arrival = np.concatenate([trace.arrival_s + offset for trace, offset in zip(traces, offsets, strict=True)])
    order = np.argsort(arrival, kind="stable")

    def all_of(name: str) -> Floats:
        every: Floats = np.concatenate([getattr(trace, name) for trace in traces])[order]
        return every

    left_out: Counter[str] = Counter()
    for trace in traces:
        left_out.update(trace.left_out)
    return Trace(
        arrival_s=arrival[order],
        input_tokens=all_of("input_tokens"),
        output_tokens=all_of("output_tokens"),
        prefix_tokens=all_of("prefix_tokens"),
        source=" and ".join(dict.fromkeys(trace.source for trace in traces)),
        begins=start,
        timed=all(trace.timed for trace in traces),
        left_out=dict(left_out),
        prefix_basis=" and ".join(dict.fromkeys(trace.prefix_basis for trace in traces if trace.prefix_basis)),
    )
