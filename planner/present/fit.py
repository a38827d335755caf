"""Models that given GPUs can run: the table of models, and the largest, fastest and longest of them in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.answers.fit import Fit, FitRow
from planner.present.cells import Cell, Column, Fact, Facts, Paragraph, Part, Section, Table, basis_legend, range_cell
from planner.present.command_line import spelled
from planner.present.names import VERDICT_SIGNS
from planner.present.plan import rate_text, throughput
from planner.units import UNKNOWN, bytes_text, count_text, number_text, percent_text
from planner.workload.tasks import trains

FASTER_READING = (
    "At full load one stream may be slow: --set targets.p95_tpot_s=0.1 limits the users so that each gets 10 tokens per second."
)
HELD = "out tok/s and tok/s each are for the requests “at once”; users: the maximum whose cache fits."
LEAST_NAME = 22
"""Cells for names of models; longer names continue on a second line where users and speeds would have no room."""
LOADS = ("concurrency", "request_rate_per_s", "targets")


def shown_rows(found: Fit, *, every: bool) -> list[FitRow]:
    """The rows for people: of each model the first that is a solution; `every`: all of them."""
    if every:
        return found.rows
    first: dict[str, FitRow] = {}
    for row in found.rows:
        if row.rank:
            first.setdefault(row.model, row)
    return list(first.values())


def fit_sections(found: Fit, rows: Sequence[FitRow], total: int) -> list[Section]:
    """The answer: the question, the best model by each measure, and `rows`, the first of `of` rows."""
    counts = found.counts
    more = f"; {len(rows)} of {total} rows shown" if len(rows) < total else ""
    heading = f"{found.gpus:,} × {found.gpu}: {counts.models_that_fit} of {counts.models} models fit"
    asked = ", ".join(text.replace("=", " ", 1) for key, value in found.task.items() for text in spelled(key, value))
    asked += "".join(f", {key} {number_text(value)} (chosen)" for key, value in _lengths(rows))
    parts: list[Part] = [Paragraph(f"{asked}; {counts.fit:,} of {counts.considered:,} candidates fit{more}", "faint")]
    parts += [Facts(best_facts(found))] if any(row.rank for row in found.rows) else [Paragraph(nearest_text(found))]
    if not rows:
        return [Section(heading, parts)]
    legend = basis_legend(rate for row in rows if (rate := throughput(row.answer)))
    meaning = HELD if found.task.get("task") == "serve" else ""
    hints = [Paragraph(text, "faint") for text in (legend, meaning, hint(found)) if text]
    return [Section(heading, parts), Section("", [fit_table(found, rows), *hints])]


def _lengths(rows: Sequence[FitRow]) -> list[tuple[str, float]]:
    """Lengths that nobody gave, with their values; those of the first row, as all rows have the same."""
    assumed = rows[0].answer.assumed if rows else {}
    return [(key, assumed[key]) for key in ("input_tokens", "output_tokens", "sequence") if key in assumed]


def hint(found: Fit) -> str:
    """Next question for a service whose load was left open; '' where it was given."""
    return FASTER_READING if found.task.get("task") == "serve" and not any(key in found.task for key in LOADS) else ""


def best_facts(found: Fit) -> list[Fact]:
    """The largest model, the most tokens a second, the most users and the longest context among the solutions; of equal ones the larger counts."""
    solutions = [row for row in found.rows if row.rank]
    solutions = [row for row in solutions if row.verdict == "fits"] or solutions
    training = trains(found.task.get("task"))
    facts = []
    for label, measure, text in _MEASURES:
        known = [row for row in solutions if measure(row) > 0 and (row.positions is not None or label != "longest context")]
        if not known or (training and label == "most users"):
            continue
        best = max(known, key=measure)
        facts.append(Fact(label, best.model, f"{best.weight_dtype}{_method(best)}: {text(best)}"))
    return facts


def nearest_text(found: Fit) -> str:
    """The row closest to a solution, if nothing is a solution."""
    nearest = next(iter(found.rows), None)
    return "No model in the catalogue fits." + (
        f" The nearest, {nearest.model} in {nearest.weight_dtype}: {nearest.why}." if nearest else ""
    )


def fit_table(found: Fit, rows: Sequence[FitRow]) -> Table[FitRow]:
    """`rows` as a table, the solutions among them counted; the first stands out, rows that are no solution stand back."""
    training = trains(found.task.get("task"))
    places = {id(row): place for place, row in enumerate((row for row in rows if row.rank), start=1)}
    columns: list[Column[FitRow]] = [
        Column("rank", "#", lambda row: str(places[id(row)]) if row.rank else VERDICT_SIGNS[row.verdict], right=True),
        Column("model", "model", lambda row: row.model, least_width=LEAST_NAME),
        Column("parameters", "params", lambda row: count_text(_parameters(row)) if _parameters(row) else UNKNOWN, right=True, priority=90),
        Column("weights", "weights", lambda row: row.weight_dtype, priority=99),
        *([Column[FitRow]("method", "trained", lambda row: row.method, priority=95)] if training else []),
        Column("layout", "layout", lambda row: row.answer.layout.text if row.answer.layout else UNKNOWN, priority=60),
        Column("headroom", "free", _headroom, right=True, priority=55),
        Column("rate", "tok/s" if training else "out tok/s", _rate, right=True, priority=98),
        *([] if training else _service_columns()),
        Column("context", "context", lambda row: number_text(row.context_tokens), right=True, priority=85),
        Column("longest", "longest", lambda row: number_text(row.longest_context_tokens), right=True, priority=50),
        Column("chance", "fits", lambda row: percent_text(row.probability_fits), right=True, priority=45),
        Column("why", "why", lambda row: row.why, priority=40, least_width=20),
    ]  # fmt: skip
    return Table(columns, rows, lambda row: "strong" if places.get(id(row)) == 1 else "faint" if row.rank is None else "")


def _service_columns() -> list[Column[FitRow]]:
    return [
        Column("stream", "tok/s each", _stream, right=True, priority=65),
        Column("at-once", "at once", _at_once, right=True, priority=64),
        Column("alone", "tok/s alone", lambda row: rate_text(row.alone_tokens_per_s), right=True, priority=88),
        Column("users", "users", lambda row: number_text(row.concurrency), right=True, priority=92),
    ]


def _parameters(row: FitRow) -> int:
    return row.answer.parameters.total if row.answer.parameters else 0


def _method(row: FitRow) -> str:
    return f", {row.method}" if row.method else ""


def _speed(row: FitRow) -> float:
    rate = throughput(row.answer)
    return rate.value if rate else 0.0


def _rate(row: FitRow) -> Cell:
    return range_cell(throughput(row.answer) if row.answer.fits else None, rate_text)


def _stream(row: FitRow) -> Cell:
    rate = row.answer.decode_tokens_per_s if row.answer.fits else None
    return Cell(rate_text(rate.value)) if rate else Cell()


def _at_once(row: FitRow) -> str:
    """Requests in flight on all replicas that the speeds are of."""
    layout = row.answer.layout if row.answer.fits else None
    return number_text(layout.batch * layout.dp if layout and layout.batch else None)


def _headroom(row: FitRow) -> Cell:
    """Share of the fullest GPU that is left for caches, or in training at all."""
    if row.headroom is None:
        return Cell()
    return Cell(percent_text(row.headroom) if row.headroom > -9.995 else f"{row.headroom:.0f}×", share=max(0.0, row.headroom))


def _largest_text(row: FitRow) -> str:
    memory = row.answer.memory_bytes
    taken = f", weights {bytes_text(memory.weights)} a GPU" if memory else ""
    return f"{count_text(_parameters(row))} parameters{taken}"


_MEASURES: tuple[tuple[str, Callable[[FitRow], float], Callable[[FitRow], str]], ...] = (
    ("largest model", lambda row: float(_parameters(row)), _largest_text),
    ("most tokens/s", _speed, lambda row: f"{rate_text(_speed(row))} tokens/s"),
    ("most users", lambda row: float(row.concurrency or 0), lambda row: f"{row.concurrency or 0:,} sequences at once"),
    (
        "longest context",
        lambda row: float(row.longest_context_tokens or 0),
        lambda row: f"{row.longest_context_tokens or 0:,} tokens of one sequence, {row.longest_context_layout}",
    ),
)
