"""AIPerf's and GenAI-Perf's profile_export JSON: metrics with unit and mean at the top level, settings in `input_config`.

Keys by AIPerf's JSON export 1.0 to 1.4 and genai-perf's (https://github.com/ai-dynamo/aiperf, docs on outputs, read 2026-11-22), of 1.4 by
files of AIPerf 0.13, which call the load `phases` and the model `models`.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import Reader, Result, each_object, known, load, number, served, whole

UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
"""Unit of a latency -> seconds; genai-perf wrote none, which means ms."""


def _result(one: dict[str, Any]) -> Result:
    config = one.get("input_config") or {}
    rate, at_once = _first(config, "request_rate", "rate"), _first(config, "concurrency")
    achieved = number(one, "request_throughput", "avg")
    given = load(rate, at_once, number(one, "request_count", "avg"), achieved) if rate or at_once else {}
    seen = known(
        ttft_s=_seconds(one, "time_to_first_token"),
        tpot_s=_seconds(one, "inter_token_latency"),
        request_s=_seconds(one, "request_latency"),
        output_tokens_per_s=number(one, "output_token_throughput", "avg"),
        requests_per_s=achieved,
    )
    return served(
        "AIPerf" if "aiperf_version" in one else "GenAI-Perf",
        given,
        seen,
        model=_model(config),
        input_tokens=whole(number(one, "input_sequence_length", "avg")),
        output_tokens=whole(number(one, "output_sequence_length", "avg")),
        taken_at=str(one.get("start_time") or ""),
    )


def _seconds(one: dict[str, Any], metric: str) -> float | None:
    given = one.get(metric)
    unit = str(given.get("unit") or "ms") if isinstance(given, dict) else "ms"
    return number(one, metric, "avg", scale=UNITS[unit]) if unit in UNITS else None


def _model(config: dict[str, Any]) -> str:
    endpoint, models = _part(config, "endpoint"), _part(config, "models").get("items")
    named = endpoint.get("model_names") or config.get("model_names") or config.get("model") or models or ""
    named = named[0] if isinstance(named, list) and named else named
    return str((named.get("name") if isinstance(named, dict) else named) or "")


def _first(config: dict[str, Any], *names: str) -> float | None:
    """A number of the load, from the first place that has it.

    AIPerf writes it under `phases` (since 0.13) or `loadgen`, GenAI-Perf under `perf_analyzer.stimulus` or at the top, in a list or alone.
    """
    phases = config.get("phases")
    measured = (
        [one for one in phases if isinstance(one, dict) and one.get("kind") == "profiling"] if isinstance(phases, list) else []
    )
    stimulus = _part(_part(config, "perf_analyzer"), "stimulus")
    for place in (*measured, _part(config, "loadgen"), stimulus, config):
        for name in names:
            found = place.get(name)
            found = found[0] if isinstance(found, list) and found else found
            if (value := number({"": found}, "")) is not None:
                return value
    return None


def _part(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Object `name` of the settings; empty by default."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}


READER = Reader(
    "AIPerf",
    lambda contents: (
        contents.have("request_throughput", "request_latency") and isinstance(contents.objects[0]["request_latency"], dict)
    ),
    each_object(_result),
    "profile_export_aiperf.json or profile_export_genai_perf.json",
)
