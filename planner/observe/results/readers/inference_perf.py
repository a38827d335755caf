"""inference-perf's lifecycle reports (stage_N_lifecycle_metrics.json): load, latencies and throughput of one stage.

Keys by https://github.com/kubernetes-sigs/inference-perf/blob/main/docs/reports.md (read 2026-11-22); latencies in s. Later versions
call `prompt_len` and `output_len` `prompt_tokens` and `output_tokens`.
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import Reader, Result, each_object, known, load, number, served, whole


def _result(one: dict[str, Any]) -> Result:
    done, summary = one["successes"], one["load_summary"]
    latency = done.get("latency") or {}
    rate = number(summary, "requested_rate")
    achieved = number(done, "throughput", "requests_per_sec")
    given = load(rate, number(summary, "concurrency"), number(done, "count"), achieved) if rate else {}
    delay = number(summary, "schedule_delay", "mean") or 0.0
    seen = known(
        ttft_s=number(latency, "time_to_first_token", "mean"),
        tpot_s=number(latency, "time_per_output_token", "mean"),
        request_s=number(latency, "request_latency", "mean"),
        output_tokens_per_s=number(done, "throughput", "output_tokens_per_sec"),
        requests_per_s=achieved,
    )
    return served(
        "inference-perf",
        given,
        seen,
        name=f"rate {rate:g}/s" if rate else "",
        input_tokens=whole(number(done, "prompt_len", "mean") or number(done, "prompt_tokens", "mean")),
        output_tokens=whole(number(done, "output_len", "mean") or number(done, "output_tokens", "mean")),
        notes=(f"the client fell {delay:.3g} s behind its schedule on average",) if delay > 1 else (),
    )


READER = Reader(
    "inference-perf",
    lambda contents: (
        contents.have("load_summary", "successes")
        and all(isinstance(one["successes"], dict) and isinstance(one["load_summary"], dict) for one in contents.objects)
    ),
    each_object(_result),
    "stage_0_lifecycle_metrics.json",
)
