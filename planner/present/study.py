"""Study of compute per dollar: a table over sizes, its conditions, and the sizes at which the best GPU changes."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.answers.study import StudyAnswer, StudyCurve, story
from planner.present.cells import Cell, Column, Paragraph, Section, Table, figure_cell, range_cell
from planner.units import UNKNOWN, count_text, si_text, usd_text

MOST_CURVES = 5
"""GPUs with separate columns; with more, the table has the best ones of each size."""
PLACES = ("best FLOP/$", "second", "third")
LAWS = {"printed": "depth = 0.77 log2(width) - 2.5", "log2": "log2(depth) = 0.77 log2(width) - 2.5"}
"""Reading of the published study's depth law -> its formula."""


def study_sections(answer: StudyAnswer) -> list[Section]:
    """Table with its conditions, then the findings as sentences, compared with the published study."""
    conditions = [Paragraph(line, "faint") for line in _conditions(answer)]
    sentences = [Paragraph(line) for line in story(answer)]
    published = [Paragraph(line, "faint") for line in answer.published]
    return [
        Section(_title(answer), [study_table(answer), *conditions]),
        Section("Which GPU gives the most FLOP per dollar", [*sentences, *published]),
    ]


def study_table(answer: StudyAnswer) -> Table[int]:
    """One row per size along the axis: speed and FLOP per dollar of every GPU, or only the best GPUs if there are many."""
    sizes = answer.curves[0].points if answer.curves else []
    columns: list[Column[int]]
    if answer.axis == "batch":
        columns = [Column("tokens", "tokens/step", lambda number: f"{sizes[number].tokens_per_step:,}", right=True)]
    else:
        columns = [
            Column("parameters", "parameters", lambda number: count_text(sizes[number].parameters), right=True),
            Column("width", "width", lambda number: f"{sizes[number].width:,}", right=True, priority=20),
            Column("depth", "depth", lambda number: str(sizes[number].depth), right=True, priority=20),
        ]
    if len(answer.curves) <= MOST_CURVES:
        for place, curve in enumerate(answer.curves):
            columns += _curve_columns(curve, place)
        columns.append(Column("best", "best", lambda number: next((gpu for gpu, _ in best(answer, number)), UNKNOWN)))
    else:
        columns += [_place_column(answer, place) for place in range(len(PLACES))]
    return Table(columns, range(len(sizes)))


def best(answer: StudyAnswer, number: int) -> list[tuple[str, float]]:
    """GPUs with FLOP per dollar at one size along the axis, the highest first."""
    known = [(curve.gpu, figure.value) for curve in answer.curves if (figure := curve.points[number].flop_per_usd)]
    return sorted(known, key=lambda entry: -entry[1])


def _curve_columns(curve: StudyCurve, place: int) -> list[Column[int]]:
    def speed(number: int) -> Cell:
        return range_cell(curve.points[number].flop_per_s, si_text)

    def per_usd(number: int) -> Cell:
        return figure_cell(curve.points[number].flop_per_usd, si_text)

    return [
        Column(f"{curve.gpu} speed", f"{curve.gpu} FLOP/s", speed, right=True, priority=60 - place),
        Column(f"{curve.gpu} value", f"{curve.gpu} FLOP/$", per_usd, right=True, priority=90 - place),
    ]


def _place_column(answer: StudyAnswer, place: int) -> Column[int]:
    def cell(number: int) -> str:
        ranked = best(answer, number)
        return f"{ranked[place][0]} {si_text(ranked[place][1])}" if place < len(ranked) else UNKNOWN

    return Column(PLACES[place], PLACES[place], cell, priority=90 - place)


def _title(answer: StudyAnswer) -> str:
    model = f"width {answer.curves[0].points[0].width:,}" if answer.axis == "batch" and answer.curves else "growing model"
    prices = f"prices {answer.prices}" + (f" (oldest of {answer.prices_as_of})" if answer.prices_as_of else "")
    law = f"depth law {answer.depth_law}" if answer.depth_law in LAWS else f"{answer.depth_law} layers"
    return f"Compute per dollar · {model} · {law} · vocabulary {answer.vocabulary:,} · {prices}"


def _conditions(answer: StudyAnswer) -> Iterator[str]:
    """Sentences on the depth law, the prices, and the first size without a speed on each GPU."""
    if answer.depth_law in LAWS:
        yield f"Depth law {answer.depth_law}: {LAWS[answer.depth_law]}."
    shown = answer.curves[:MOST_CURVES]
    prices = [
        f"{curve.gpu} {usd_text(curve.usd_per_gpu_h)} $/h ({curve.price}{f', {curve.price_as_of}' if curve.price_as_of else ''})"
        for curve in shown
        if curve.usd_per_gpu_h is not None
    ]
    yield f"Prices: {'; '.join(prices)}"
    for curve in shown:
        first = next((point for point in curve.points if point.reason), None)
        if first is not None:
            batch = answer.axis == "batch"
            size = f"{first.tokens_per_step:,} tokens a step" if batch else f"{count_text(first.parameters)} parameters"
            yield f"{curve.gpu} from {size} on: {first.reason}"
