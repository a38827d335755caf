"""Best models for given GPUs: the largest, larger ones that are not quite sufficient, and those with the most speed, users and context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.answers.fit import Fit, FitRow
from planner.engine.answers.plan import Verdict
from planner.engine.fit.ranking import LARGE, chance_text, parameters
from planner.present.cells import Fact
from planner.present.plan import rate_text, throughput
from planner.units import bytes_text, count_text

LOADS = ("concurrency", "request_rate_per_s", "daily_users")
"""Keys that state the load of a service."""
AMONG_LARGE = "The other bests are of the models at least half as large as the largest."
LARGE_FIRST = "Models at least half as large as the largest come first, then those at least half as large as these, and so on."


def best_facts(found: Fit) -> list[Fact]:
    """Largest model, larger ones that are uncertain or too slow, and the best of the large ones in speed, users and context."""
    solutions = [row for row in found.rows if row.rank]
    sure = [row for row in solutions if row.verdict == "fits"]
    solutions = sure or solutions
    if not solutions:
        return []
    largest = max(solutions, key=_size)
    facts = [_fact("largest model", largest, _largest_text(largest))]
    for label, verdict, reason in _LARGER:
        larger = [row for row in found.rows if sure and row.verdict == verdict and parameters(row) > parameters(largest)]
        if larger:
            row = max(larger, key=_size)
            facts.append(_fact(label, row, f"{count_text(parameters(row))} parameters, {reason(row, found)}"))
    large = [row for row in solutions if parameters(row) >= LARGE * parameters(largest)]
    for label, measure, text in _MEASURES:
        known = [row for row in large if measure(row) > 0]
        if known and _is_asked(label, found):
            best = _best(known, measure)
            facts.append(_fact(label, best, text(best)))
    return facts


def _best(rows: Sequence[FitRow], measure: Callable[[FitRow], float]) -> FitRow:
    """Row with the highest `measure`; among equal ones the largest model."""
    return max(rows, key=lambda row: (measure(row), _size(row)))


def _fact(label: str, row: FitRow, text: str) -> Fact:
    method = f", {row.method}" if row.method else ""
    return Fact(label, row.model, f"{row.weight_dtype}{method}: {text}")


def _is_asked(label: str, found: Fit) -> bool:
    """True if models can differ in it: not in throughput at a given rate, and not in users if their number is given."""
    given = {key for key in LOADS if key in found.task}
    if label == "most users":
        return found.task.get("task") == "serve" and not given
    return label != "most tokens/s" or not given - {"concurrency"}


def _size(row: FitRow) -> tuple[int, int, float]:
    return parameters(row), row.bits, _speed(row)


def _speed(row: FitRow) -> float:
    rate = throughput(row.answer)
    return rate.value if rate else 0.0


def _largest_text(row: FitRow) -> str:
    """Size of a model, and its users with their speed, or else its weights."""
    memory, text = row.answer.memory_bytes, f"{count_text(parameters(row))} parameters"
    if row.at_once and row.answer.decode_tokens_per_s:
        return f"{text}, {_users_text(row)}"
    return text + (f", weights {bytes_text(memory.weights)} a GPU" if memory else "")


def _users_text(row: FitRow) -> str:
    each = row.answer.decode_tokens_per_s
    return f"{row.at_once or 0:,} at once" + (f", {rate_text(each.value)} tokens/s each" if each else "")


def _context(row: FitRow) -> float:
    """Longest context; 0 for a model without a maximum, which says nothing about the GPUs."""
    return float(row.longest_context_tokens or 0) if row.positions is not None else 0.0


def _slow_text(row: FitRow, found: Fit) -> str:
    """Speed if the target is in tokens per second; otherwise the missed targets."""
    latency = row.answer.tpot_s if found.each_tokens_per_s is not None else None
    return f"{rate_text(1 / latency.p95.value)} tokens/s for one user alone" if latency and latency.p95 else row.why


_LARGER: tuple[tuple[str, Verdict, Callable[[FitRow, Fit], str]], ...] = (
    ("larger, may not fit", "may-not-fit", lambda row, _: chance_text(row.probability_fits or 0.0)),
    ("larger, too slow", "misses-target", _slow_text),
)
_MEASURES: tuple[tuple[str, Callable[[FitRow], float], Callable[[FitRow], str]], ...] = (
    ("most tokens/s", _speed, lambda row: f"{rate_text(_speed(row))} tokens/s"),
    ("most users", lambda row: float(row.at_once or 0), _users_text),
    (
        "longest context",
        _context,
        lambda row: f"{row.longest_context_tokens or 0:,} tokens of one sequence, {row.longest_context_layout}",
    ),
)
