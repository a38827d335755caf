"""Scores of predictions against measurements, as a struct, as tables and as CSV."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

import planner
from planner.cli.terminal.streams import say
from planner.engine.validation import Comparison, Score, by_kind, by_source, worst
from planner.present.cells import Points, Section, text_table
from planner.present.files.csv_text import csv_text
from planner.reading import read_toml
from planner.schema import read_struct
from planner.units import UNKNOWN, digits, percent_text
from planner.workload.published.experiments import PublishedSet

REASONS = Path(__file__).with_name("reasons.toml")
HEADS = ("n", "answered", "median", "p90", "signed", "inside", "width")
NOT_ASKED_SHOWN = 12


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An explanation of the errors for a source; without framework or kind: for any."""

    source: str
    framework: str | None = None
    kind: str | None = None
    text: str

    def fits(self, score: Score) -> bool:
        """True if it applies to `score`."""
        pairs = ((self.source, score.source), (self.framework, score.framework), (self.kind, score.kind))
        return all(mine is None or mine == its for mine, its in pairs)


class _Reasons(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: tuple[Reason, ...] = ()


class Validation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scores of predictions against measurements."""

    folder: str | None = None
    """Name of the folder of published measurements."""
    experiments: int = 0
    kinds: list[Score] = []
    sources: list[Score] = []
    worst: list[Score] = []
    own: list[Score] = []
    """Scores for the user's machines."""
    not_asked: dict[str, int] = {}
    """Reason -> number of rows that could not be converted to requests."""
    refused: dict[str, int] = {}
    """Reason -> number of experiments that the planner could not evaluate."""
    own_left_out: dict[str, int] = {}
    version: str


def gathered(
    published: PublishedSet | None,
    compared: Sequence[Comparison],
    refused: Counter[str],
    own: Sequence[Comparison],
    own_left_out: Counter[str],
) -> Validation:
    """Scores of both kinds of measurements, the worst ones with reasons."""
    reasons = known_reasons()
    return Validation(
        folder=published.folder if published else None,
        experiments=len(published.experiments) if published else 0,
        kinds=by_kind(compared),
        sources=by_source(compared),
        worst=[msgspec.structs.replace(one, reason=reason_of(one, reasons)) for one in worst(compared)],
        own=by_source(own),
        not_asked=dict(published.left_out.most_common()) if published else {},
        refused=dict(refused.most_common()),
        own_left_out=dict(own_left_out.most_common()),
        version=planner.__version__,
    )


def known_reasons() -> tuple[Reason, ...]:
    """Known reasons for the errors of sources, the most specific first."""
    reasons = read_struct(_Reasons, read_toml(REASONS), REASONS.name).reason
    return tuple(sorted(reasons, key=lambda one: (one.framework is None) + (one.kind is None)))


def reason_of(score: Score, reasons: Sequence[Reason]) -> str | None:
    """Most specific reason that applies to `score`; None if none is known."""
    return next((reason.text for reason in reasons if reason.fits(score)), None)


def cells(score: Score) -> list[str]:
    """Statistics of a score as text, in the order of `HEADS`."""
    answered = percent_text(score.answered / score.n) if score.n else UNKNOWN
    if score.right is not None:
        wrong = f"{score.wrongly_fit} wrongly fit" if score.wrongly_fit else ""
        return [str(score.n), answered, f"{score.right} right", "", wrong, "", ""]
    signed = UNKNOWN if score.signed_error is None else f"{score.signed_error:+.1%}"
    sizes = [UNKNOWN if value is None else f"{value:.1%}" for value in (score.median_error, score.p90_error)]
    inside = UNKNOWN if score.coverage is None else f"{score.coverage:.0%}"
    width = UNKNOWN if score.width is None else f"× {digits(score.width, 2)}"
    return [str(score.n), answered, *sizes, signed, inside, width]


def sections(result: Validation, *, on_terminal: bool) -> list[Section]:
    """Tables with rows; reasons for the worst scores are in a column, on a terminal below their table."""
    folder = f" ({result.folder}: {result.experiments} experiments)" if on_terminal else ""
    worst = [[one.kind, one.source or "", one.framework or "not stated", *cells(one)] for one in result.worst]
    reasons = [one.reason or "not examined" for one in result.worst]
    found = [
        _section(f"By kind{folder}", ("kind",), [[one.kind, *cells(one)] for one in result.kinds]),
        _section("By source", ("kind", "source"), [[one.kind, one.source or "", *cells(one)] for one in result.sources]),
        _section("Worst", ("kind", "source", "framework"), worst, () if on_terminal else reasons),
        _section(
            "Own measurements", ("kind", "device or month"), [[one.kind, one.source or "", *cells(one)] for one in result.own]
        ),
    ]
    if on_terminal and worst:
        lines = [f"{', '.join(row[:3])}: {reason}" for row, reason in zip(worst, reasons, strict=True)]
        found[2] = Section("Worst", [*found[2].parts, Points(lines)], 3)
    return [section for section, rows in zip(found, (result.kinds, result.sources, result.worst, result.own), strict=True) if rows]


def _section(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], reasons: Sequence[str] = ()) -> Section:
    if reasons:
        return Section(
            title, [text_table((*names, *HEADS, "why"), [[*r, why] for r, why in zip(rows, reasons, strict=True)], HEADS)], 3
        )
    return Section(title, [text_table((*names, *HEADS), rows, HEADS)], 3)


def print_tables(result: Validation) -> None:
    """Write the tables to the terminal, and a list of left-out rows to stderr."""
    from planner.cli.terminal.sections import console, print_sections

    print_sections(sections(result, on_terminal=True), console())
    sys.stdout.flush()
    for line in remarks(result):
        say(line)


def remarks(result: Validation) -> list[str]:
    """One line for each kind of rows that were left out or refused."""
    lines = []
    for words, counted in (
        ("rows not converted", result.not_asked),
        ("experiments refused", result.refused),
        ("own points left out", result.own_left_out),
    ):
        if counted:
            shown = [
                f"{reason.partition('; it has to be one of ')[0]} ({count})"
                for reason, count in list(counted.items())[:NOT_ASKED_SHOWN]
            ]
            more = len(counted) - len(shown)
            lines.append(f"{words}: {'; '.join(shown)}{f'; {more} more reasons' if more > 0 else ''}.")
    return lines


def scores_csv(result: Validation) -> str:
    """CSV with one line per score: fractions as numbers, an empty cell for an unknown value."""
    columns = [name for name in Score.__struct_fields__ if name != "reason"]
    tables = (("kind", result.kinds), ("source", result.sources), ("own", result.own))
    lines = [[table, *(getattr(one, name) for name in columns)] for table, scores in tables for one in scores]
    return csv_text(["table", *columns], lines)
