"""A workload from traffic: the keys of a service, merged with those of a preset or a bare model."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from planner.errors import Problem, UserError
from planner.units import duration_text
from planner.workload.tasks import Lengths, Workload
from planner.workload.traffic.summary import Traffic
from planner.workload.traffic.trace import Trace

RateChoice = Literal["peak", "mean"]
LOAD = ("batch", "requests", "concurrency", "request_rate_per_s", "daily_users", "people", "arrival_variation", "prefix_tokens")
"""Keys of the load, which traffic replaces."""


def service_of(base: Workload, traffic: Traffic, *, rate: RateChoice = "peak") -> dict[str, Any]:
    """Keys of a service under `traffic`; model, engine, formats and targets are those of `base`, without a deadline, which applies to jobs.

    Without arrival times it is a batch job of that many requests, with its deadline. Raises `UserError` naming each unknown length or rate.
    """
    missing = [
        Problem(traffic.source, name, f"is not in the traffic; give it as --{name.replace('_', '-')}.")
        for name in ("input_tokens", "output_tokens")
        if getattr(traffic, name) is None
    ]
    if missing:
        raise UserError(missing)
    kept = msgspec.to_builtins(base)
    for key in LOAD:
        kept.pop(key, None)
    keys: dict[str, Any] = {
        **kept,
        "title": f"{base.model if isinstance(base.model, str) else 'your model'}, {traffic.source}"[:200],
        "description": _description(traffic, rate),
        "input_tokens": _plain(traffic.input_tokens),
        "output_tokens": _plain(traffic.output_tokens),
        **({"prefix_tokens": int(traffic.prefix_tokens)} if traffic.prefix_tokens else {}),
    }
    if traffic.rate_per_s is None and traffic.seconds is None and not traffic.hours:
        return {**keys, "task": "generate", "requests": traffic.requests, "concurrency": "max"}
    chosen = traffic.peak_rate_per_s if rate == "peak" and traffic.peak_rate_per_s else traffic.rate_per_s
    if chosen is None:
        raise UserError(Problem(traffic.source, "rate", "is not known: all requests arrived at the same time."))
    variation = {} if traffic.arrival_variation is None else {"arrival_variation": round(traffic.arrival_variation, 2)}
    keys["targets"] = {name: value for name, value in keys.get("targets", {}).items() if name != "deadline_h"}
    return {**keys, "task": "serve", "request_rate_per_s": float(f"{chosen:.4g}"), **variation}


def _description(traffic: Traffic, rate: RateChoice) -> str:
    span = "" if traffic.seconds is None else f" over {duration_text(traffic.seconds)}"
    begins = f" from {traffic.begins}" if traffic.begins else ""
    which = {"peak": " The rate is the busiest hour's.", "mean": " The rate is the mean."}[rate] if span else ""
    return f"{traffic.requests:,} requests{span}{begins}, read from {traffic.source}.{which}"


def _plain(lengths: Lengths | None) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(lengths)
    return {name: value for name, value in found.items() if value is not None}


def traced(trace: Trace) -> Trace:
    """`trace`, if it has the lengths and times for a replay; raises `UserError` naming missing ones."""
    problems = []
    if not trace.requests:
        problems.append(Problem(trace.source, "", "holds no request that could be replayed."))
    elif not trace.has_lengths:
        problems.append(Problem(trace.source, "", "has no lengths of its requests; give --input-tokens and --output-tokens."))
    if trace.requests and not trace.timed:
        problems.append(Problem(trace.source, "", "has no arrival times, so there is nothing to replay; `traffic` can read it."))
    if problems:
        raise UserError(problems)
    return trace
