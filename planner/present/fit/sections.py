"""Answer of `fit` as sections: the question, the best models, and the table of models that given GPUs can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.answers.fit import Fit, FitRow
from planner.engine.fit.ranking import parameters
from planner.present.cells import Cell, Column, Facts, Paragraph, Part, Section, Table, basis_legend, range_cell
from planner.present.command_line import spelled
from planner.present.fit.best import AMONG_LARGE, LARGE_FIRST, best_facts
from planner.present.names import VERDICT_SIGNS
from planner.present.plan import rate_text, throughput
from planner.units import UNKNOWN, count_text, number_text, percent_text
from planner.workload.tasks import trains

ANSWERING = ("serve", "generate")
"""Tasks whose speed is that of output tokens."""
LEAST_NAME = 22
"""Width for names of models; longer names continue on a second line if users and speeds would have no room."""
HELD = "out tok/s and tok/s each are of all “users” at once; cached: requests whose cache fits."


def shown_rows(found: Fit, *, every: bool) -> list[FitRow]:
    """Rows to show: the first solution of each model, or `every` row."""
    if every:
        return found.rows
    first: dict[str, FitRow] = {}
    for row in found.rows:
        if row.rank:
            first.setdefault(row.model, row)
    return list(first.values())


def fit_sections(found: Fit, rows: Sequence[FitRow], total: int, hints: Sequence[str] = ()) -> list[Section]:
    """Question, the best model by each measure, and `rows`, the first of `total` rows, followed by `hints`."""
    counts = found.counts
    more = f"; {len(rows)} of {total} rows shown" if len(rows) < total else ""
    heading = f"{found.gpus:,} × {found.gpu}: {counts.models_that_fit} of {counts.models} models fit"
    asked = ", ".join(_asked(found, rows))
    parts: list[Part] = [Paragraph(f"{asked}; {counts.fit:,} of {counts.considered:,} candidates fit{more}", "faint")]
    parts += [Facts(best_facts(found))] if any(row.rank for row in found.rows) else [Paragraph(nearest_text(found))]
    if not rows:
        return [Section(heading, parts)]
    legend = basis_legend(rate for row in rows if (rate := throughput(row.answer)))
    meaning = HELD if found.task.get("task") == "serve" else ""
    among = (AMONG_LARGE if found.order == "size" else LARGE_FIRST) if found.counts.models_that_fit > 1 else ""
    below = [Paragraph(text, "faint") for text in (legend, meaning, among, left_out_text(found), *hints) if text]
    return [Section(heading, parts), Section("", [fit_table(found, rows), *below])]


def _asked(found: Fit, rows: Sequence[FitRow]) -> Iterator[str]:
    """Given settings, and chosen values of others."""
    for key, value in found.task.items():
        yield from (text.replace("=", " ", 1) for text in spelled(key, value))
    if found.each_tokens_per_s is not None:
        yield f"at least {number_text(found.each_tokens_per_s)} tokens/s for each user"
    yield from (f"{key} {number_text(value)} (chosen)" for key, value in _lengths(rows))


def _lengths(rows: Sequence[FitRow]) -> list[tuple[str, float]]:
    """Chosen lengths with their values, which are the same in all rows."""
    assumed = rows[0].answer.assumed if rows else {}
    return [(key, assumed[key]) for key in ("input_tokens", "output_tokens", "sequence") if key in assumed]


def left_out_text(found: Fit) -> str:
    """Number of models that were left out, and the reason; '' for none."""
    if not found.left_out:
        return ""
    return (
        f"{len(found.left_out)} encoders and encoder-decoders are left out: they are made for other tasks than answering prompts."
    )


def nearest_text(found: Fit) -> str:
    """Sentence on the row closest to a solution, if there is no solution."""
    nearest = next(iter(found.rows), None)
    return "No model in the catalogue fits." + (
        f" The nearest, {nearest.model} in {nearest.weight_dtype}: {nearest.why}." if nearest else ""
    )


def fit_table(found: Fit, rows: Sequence[FitRow]) -> Table[FitRow]:
    """`rows` as a table with numbered solutions; the first is emphasised, and rows that are no solution are faint."""
    task = found.task.get("task")
    training = trains(task)
    places = {id(row): place for place, row in enumerate((row for row in rows if row.rank), start=1)}
    columns: list[Column[FitRow]] = [
        Column("rank", "#", lambda row: _place(row, places.get(id(row))), right=True),
        Column("model", "model", lambda row: row.model, least_width=LEAST_NAME),
        Column("parameters", "params", lambda row: count_text(parameters(row)) if parameters(row) else UNKNOWN, right=True, priority=90),
        Column("weights", "weights", lambda row: row.weight_dtype, priority=99),
        *([Column[FitRow]("method", "trained", lambda row: row.method, priority=95)] if training else []),
        Column("layout", "layout", lambda row: row.answer.layout.text if row.answer.layout else UNKNOWN, priority=60),
        Column("headroom", "free", _headroom, right=True, priority=55),
        Column("rate", "out tok/s" if task in ANSWERING else "tok/s", _rate, right=True, priority=98),
        *([] if training else _columns_of_requests(str(task))),
        Column("context", "context", lambda row: number_text(row.context_tokens), right=True, priority=85),
        Column("longest", "longest", lambda row: number_text(row.longest_context_tokens), right=True, priority=50),
        Column("chance", "fits", lambda row: percent_text(row.probability_fits), right=True, priority=45),
        Column("why", "why", lambda row: row.why, priority=40, least_width=20),
    ]  # fmt: skip
    return Table(columns, rows, lambda row: "strong" if places.get(id(row)) == 1 else "faint" if row.rank is None else "")


def _place(row: FitRow, place: int | None) -> str:
    """Number among the solutions, marked if it may not fit; a sign for other rows."""
    sign = "" if row.verdict == "fits" else VERDICT_SIGNS[row.verdict]
    return " ".join(filter(None, (sign, str(place) if place else "")))


def _columns_of_requests(task: str) -> Iterator[Column[FitRow]]:
    """Columns of requests at once and their speed, if the task has them."""
    at_once = "users" if task == "serve" else "at once"
    yield Column("users", at_once, lambda row: number_text(row.at_once), right=True, priority=92)
    if task in ANSWERING:
        yield Column("stream", "tok/s each", _stream, right=True, priority=65)
    if task == "serve":
        yield Column("alone", "tok/s alone", lambda row: rate_text(row.alone_tokens_per_s), right=True, priority=88)
    yield Column("cached", "cached", lambda row: number_text(row.concurrency), right=True, priority=48)


def _rate(row: FitRow) -> Cell:
    return range_cell(throughput(row.answer) if row.answer.fits else None, rate_text)


def _stream(row: FitRow) -> Cell:
    rate = row.answer.decode_tokens_per_s if row.answer.fits else None
    return Cell(rate_text(rate.value)) if rate else Cell()


def _headroom(row: FitRow) -> Cell:
    """Share of the fullest GPU's memory that is left for caches, or in training left free."""
    if row.headroom is None:
        return Cell()
    return Cell(percent_text(row.headroom) if row.headroom > -9.995 else f"{row.headroom:.0f}×", share=max(0.0, row.headroom))
