"""GuideLLM's benchmarks.json: one benchmark for each rate or number of streams of a sweep.

Keys by guidellm/schemas of 0.5 to 0.8 (https://github.com/vllm-project/guidellm/blob/main/docs/guides/outputs.md, read 2026-11-22):
`metrics.<name>.successful.mean`, latencies of tokens in ms, of requests in s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.observe.results.result import Contents, Reader, Result, known, number, served, stated, whole

MS = 1e-3


def _read(contents: Contents) -> list[Result]:
    document = contents.objects[0]
    return [_result(document, one) for one in document["benchmarks"] if isinstance(one, dict)]


def _result(document: dict[str, Any], one: dict[str, Any]) -> Result:
    metrics = one.get("metrics") or {}

    def mean(name: str, scale: float = 1.0) -> float | None:
        return number(metrics, name, "successful", "mean", scale=scale)

    model = next(filter(None, _models(document)), "")
    given, name = _load(one, mean("request_concurrency"))
    seen = known(
        ttft_s=mean("time_to_first_token_ms", MS),
        tpot_s=mean("inter_token_latency_ms", MS),  # time_per_output_token_ms counts the first token in
        request_s=mean("request_latency"),
        output_tokens_per_s=mean("output_tokens_per_second"),
        requests_per_s=mean("requests_per_second"),
    )
    lengths: dict[str, Any] = {
        "input_tokens": whole(mean("prompt_token_count")),
        "output_tokens": whole(mean("output_token_count")),
    }
    return served("GuideLLM", given, seen, name=name, model=model, notes=_notes(metrics), **lengths)


def _models(document: dict[str, Any]) -> Iterator[str]:
    """Names of the model, by version of the file."""
    for place in ("args", "config"):
        given = document.get(place) or {}
        yield str(given.get("model") or "")
        backend = given.get("backend")
        yield str(backend.get("model") or "") if isinstance(backend, dict) else ""
    for one in document["benchmarks"]:
        backend = (one.get("config") or {}).get("backend") if isinstance(one, dict) else None
        yield str(backend.get("model") or "") if isinstance(backend, dict) else ""


def _load(one: dict[str, Any], mean_concurrency: float | None) -> tuple[dict[str, Any], str]:
    """(fields of the load, its name) from the strategy of the benchmark; a sweep states the strategy of each step."""
    config = one.get("config") or {}
    found: dict[str, Any] = next((config[key] for key in ("strategy", "profile") if isinstance(config.get(key), dict)), {})
    kind = str(found.get("type_") or found.get("kind") or found.get("strategy_type") or "")
    rate = number(found, "rate")
    if kind in {"constant", "poisson", "async"} and rate:
        return {"request_rate_per_s": rate} | ({"arrival_variation": 0.0} if kind == "constant" else {}), f"rate {rate:g}/s"
    if kind == "synchronous":
        return {"concurrency": 1}, "1 at once"
    streams = number(found, "streams") or number(found, "max_concurrency") or mean_concurrency
    return stated(concurrency=whole(streams)), f"{whole(streams) or '?'} at once"


def _notes(metrics: dict[str, Any]) -> Iterator[str]:
    for state in ("errored", "incomplete"):
        count = number(metrics, "request_totals", state)
        if count:
            yield f"{count:.0f} requests are {state} and not counted in any figure"


READER = Reader(
    "GuideLLM",
    lambda contents: contents.have("benchmarks") and isinstance(contents.objects[0]["benchmarks"], list),
    _read,
    "benchmarks.json",
)
