"""AIPerf's and GenAI-Perf's profile_export JSON: metrics with unit and mean at the top level, settings in `input_config`.

Keys by AIPerf's JSON export 1.0 to 1.4 and genai-perf's (https://github.com/ai-dynamo/aiperf, docs on outputs, read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result, format_of, known, load, number, scaled, stated, whole

UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
"""Unit of a latency -> seconds; genai-perf wrote none, and meant ms."""


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in contents.objects]


def _result(one: dict[str, Any]) -> Result:
    config = one.get("input_config") or {}
    model = _model(config)
    rate, at_once = (_first(config, name) for name in ("request_rate", "concurrency"))
    achieved = number(one, "request_throughput", "avg")
    given = load(rate, at_once, number(one, "request_count", "avg"), achieved) if rate or at_once else {}
    return Result(
        tool="AIPerf" if "aiperf_version" in one else "GenAI-Perf",
        name=f"rate {rate:g}/s" if "request_rate_per_s" in given else f"{given.get('concurrency', '?')} at once",
        settings={"task": "serve"}
        | stated(
            model=model,
            input_tokens=whole(number(one, "input_sequence_length", "avg")),
            output_tokens=whole(number(one, "output_sequence_length", "avg")),
        )
        | format_of(model)
        | given,
        seen=known(
            ttft_s=_seconds(one, "time_to_first_token"),
            tpot_s=_seconds(one, "inter_token_latency"),
            request_s=_seconds(one, "request_latency"),
            output_tokens_per_s=number(one, "output_token_throughput", "avg"),
            requests_per_s=achieved,
        ),
        taken_at=str(one.get("start_time") or ""),
    )


def _seconds(one: dict[str, Any], metric: str) -> float | None:
    given = one.get(metric)
    unit = str(given.get("unit") or "ms") if isinstance(given, dict) else "ms"
    return scaled(number(one, metric, "avg"), UNITS[unit]) if unit in UNITS else None


def _model(config: dict[str, Any]) -> str:
    endpoint = config.get("endpoint") if isinstance(config.get("endpoint"), dict) else {}
    named = (endpoint or {}).get("model_names") or config.get("model_names") or config.get("model") or ""
    return str(named[0] if isinstance(named, list) and named else named or "")


def _first(config: dict[str, Any], name: str) -> float | None:
    """A number of the load: under `loadgen` (AIPerf), under `perf_analyzer.stimulus` or at the top, alone or in a list (GenAI-Perf)."""
    analyzer = config.get("perf_analyzer") if isinstance(config.get("perf_analyzer"), dict) else {}
    stimulus = (analyzer or {}).get("stimulus")
    for place in (config.get("loadgen"), stimulus, config):
        found = place.get(name) if isinstance(place, dict) else None
        found = found[0] if isinstance(found, list) and found else found
        if (value := number({"": found}, "")) is not None:
            return value
    return None


READER = Reader(
    "AIPerf",
    lambda contents: (
        contents.have("request_throughput", "request_latency") and isinstance(contents.objects[0]["request_latency"], dict)
    ),
    _read,
    "profile_export_aiperf.json or profile_export_genai_perf.json",
)
