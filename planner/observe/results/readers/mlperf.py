"""MLPerf Inference's mlperf_log_summary.txt: one scenario of one language model, summarised by LoadGen.

Lines by loadgen/results.cc of https://github.com/mlcommons/inference (read 2026-11-23); latencies in ns, latencies of single tokens since
v4.0. The summary names neither model nor hardware: the model is taken from the folder of a submission, the user is asked for the rest.
"""

from __future__ import annotations

import re
from typing import Any

from planner.errors import Problem, UserError
from planner.observe.results.result import Contents, Reader, Result, known, number, number_or_text, ratio, served, stated, whole

NS = 1e-9
TITLE, LAST_PART = "MLPerf Results Summary", "Test Parameters Used"
LINE = re.compile(r"([A-Za-z][^:]*?)\s*:\s*(.+?)\s*")
MODELS = {
    "llama2-70b": "llama-2-70b",
    "llama3.1-405b": "llama-3.1-405b",
    "llama3.1-8b": "llama-3.1-8b",
    "mixtral-8x7b": "mixtral-8x7b",
    "gptj": "gpt-j-6b",
    "gpt-oss-120b": "gpt-oss-120b",
}
"""Beginning of a benchmark's folder -> model; 'llama2-70b-99.9' and 'llama2-70b-interactive-99' are the same model."""
FOLDER = re.compile(rf"(?:^|[/\\])({'|'.join(map(re.escape, MODELS))})(?:-[\w.-]+)?(?=[/\\])")
RATES = ("Completed samples per second", "Samples per second", "Scheduled samples per second")
TOKEN_RATES = ("Completed tokens per second", "Tokens per second")
TOKEN_TIMES = ("Mean Time per Output Token (ns)", "Mean Time to Output Token (ns)")


def _read(contents: Contents) -> list[Result]:
    if LAST_PART not in contents.text:
        raise UserError(Problem(contents.where, "", f"was cut off: it has no part '{LAST_PART}'."))
    lines = _values(contents)
    mode = str(lines.get("Mode") or "")
    return [_result(contents.where, lines)] if mode.startswith("Performance") else []


def _values(contents: Contents) -> dict[str, Any]:
    """Every 'name : value' of the text, numbers as numbers; the first of a name counts."""
    found: dict[str, Any] = {}
    for line in contents.whole_lines:
        if matched := LINE.fullmatch(line.strip()):
            found.setdefault(matched[1], number_or_text(matched[2]))
    return found


def _first(lines: dict[str, Any], names: tuple[str, ...], scale: float = 1.0) -> float | None:
    return next((value for name in names if (value := number(lines, name, scale=scale)) is not None), None)


def _result(where: str, lines: dict[str, Any]) -> Result:
    scenario, folder = str(lines.get("Scenario") or ""), FOLDER.search(where)
    per_s, tokens_per_s = _first(lines, RATES), _first(lines, TOKEN_RATES)
    given, name = _load(scenario, lines)
    seen = known(
        ttft_s=number(lines, "Mean First Token latency (ns)", scale=NS),
        tpot_s=_first(lines, TOKEN_TIMES, NS),
        request_s=None if scenario == "Offline" else number(lines, "Mean latency (ns)", scale=NS),
        output_tokens_per_s=tokens_per_s,
        requests_per_s=per_s,
    )
    model, outputs = MODELS[folder[1]] if folder else "", whole(ratio(tokens_per_s, per_s))
    notes = ("the run is not valid under MLPerf's rules",) if lines.get("Result is") != "VALID" else ()
    return served("MLPerf Inference", given, seen, name=name, model=model, output_tokens=outputs, notes=notes)


def _load(scenario: str, lines: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """(fields of the load, its name): Server sends at a rate, Offline everything at once, the stream scenarios one at a time."""
    rate, samples = number(lines, "target_qps"), number(lines, "samples_per_query")
    if scenario == "Server":
        return stated(request_rate_per_s=rate), f"{scenario}, rate {rate:g}/s" if rate else scenario
    if scenario == "Offline":
        return stated(concurrency=whole(samples), requests=whole(samples)), f"{scenario}, everything at once"
    return {"concurrency": 1}, f"{scenario}, 1 at once"


READER = Reader(
    "MLPerf Inference", lambda contents: not contents.is_json and TITLE in contents.text, _read, "mlperf_log_summary.txt"
)
