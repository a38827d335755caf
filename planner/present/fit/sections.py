"""Answer of `fit` as sections: the question, the best models, the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.answers.fit import Fit, FitRow
from planner.present.cells import Facts, Paragraph, Part, Section, basis_legend
from planner.present.command_line import spelled
from planner.present.fit.best import AMONG_LARGE, LARGE_FIRST, best_facts
from planner.present.fit.table import fit_table
from planner.present.plan import throughput
from planner.units import number_text

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
