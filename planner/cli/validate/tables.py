"""What `gpu-planner validate` found: as one structure, as text, as Markdown, as CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

import planner
from planner.engine.validation import Comparison, Score, by_kind, by_source, worst
from planner.schema import read_struct, read_toml
from planner.units import UNKNOWN, digits, percent_text

if TYPE_CHECKING:
    from planner.workload.published.experiments import PublishedSet

REASONS = Path(__file__).with_name("reasons.toml")
HEADS = ("n", "answered", "median", "p90", "signed", "inside", "width")
NOT_ASKED_SHOWN = 12


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the planner is off on a source; absent framework or kind: any."""

    source: str
    framework: str | None = None
    kind: str | None = None
    text: str

    def fits(self, score: Score) -> bool:
        """Whether it is about what `score` is about."""
        pairs = ((self.source, score.source), (self.framework, score.framework), (self.kind, score.kind))
        return all(mine is None or mine == its for mine, its in pairs)


class _Reasons(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: tuple[Reason, ...] = ()


class Validation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Predictions against measurements."""

    folder: str | None = None
    """Name of the folder of published measurements."""
    experiments: int = 0
    kinds: list[Score] = []
    sources: list[Score] = []
    worst: list[Score] = []
    own: list[Score] = []
    """Measured on this user's machines."""
    not_asked: dict[str, int] = {}
    """Rows that became no request, by reason."""
    refused: dict[str, int] = {}
    """Experiments the planner could not evaluate, by what it said."""
    own_left_out: dict[str, int] = {}
    version: str


def gathered(
    published: PublishedSet | None,
    compared: Sequence[Comparison],
    refused: Counter[str],
    own: Sequence[Comparison],
    own_left_out: Counter[str],
) -> Validation:
    """The scores of both kinds of measurements, the worst ones with their reasons."""
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
    """Why sources are off, as far as somebody looked; the most telling first."""
    reasons = read_struct(_Reasons, read_toml(REASONS), REASONS.name).reason
    return tuple(sorted(reasons, key=lambda one: (one.framework is None) + (one.kind is None)))


def reason_of(score: Score, reasons: Sequence[Reason]) -> str | None:
    """The most telling reason that is about `score`; None where nobody looked."""
    return next((reason.text for reason in reasons if reason.fits(score)), None)


def cells(score: Score) -> list[str]:
    """The statistics of a score as text, in the order of `HEADS`."""
    answered = percent_text(score.answered / score.n) if score.n else UNKNOWN
    if score.right is not None:
        wrong = f"{score.wrongly_fit} wrongly fit" if score.wrongly_fit else ""
        return [str(score.n), answered, f"{score.right} right", "", wrong, "", ""]
    signed = UNKNOWN if score.signed_error is None else f"{score.signed_error:+.1%}"
    sizes = [UNKNOWN if value is None else f"{value:.1%}" for value in (score.median_error, score.p90_error)]
    inside = UNKNOWN if score.coverage is None else f"{score.coverage:.0%}"
    width = UNKNOWN if score.width is None else f"× {digits(score.width, 2)}"
    return [str(score.n), answered, *sizes, signed, inside, width]


def tables(result: Validation) -> list[tuple[str, list[str], list[list[str]]]]:
    """(title, heads, rows) of every table that has rows."""
    named = [one.source or "" for one in result.worst]
    found = [
        ("By kind", ["kind", *HEADS], [[one.kind, *cells(one)] for one in result.kinds]),
        ("By source", ["kind", "source", *HEADS], [[one.kind, one.source or "", *cells(one)] for one in result.sources]),
        (
            "Worst",
            ["kind", "source", "framework", *HEADS, "why"],
            [
                [one.kind, source, one.framework or "not stated", *cells(one), one.reason or "not looked into"]
                for one, source in zip(result.worst, named, strict=True)
            ],
        ),
        ("Own measurements", ["kind", "device", *HEADS], [[one.kind, one.source or "", *cells(one)] for one in result.own]),
    ]
    return [table for table in found if table[2]]


def print_tables(result: Validation) -> None:
    """Write the tables for a terminal, and on stderr what was not asked."""
    import sys

    from planner.cli.terminal.sections import print_columns

    for title, heads, rows in tables(result):
        print(f"{title}{f' ({result.folder}: {result.experiments} experiments)' if title == 'By kind' else ''}")
        bare = [row[:-1] if title == "Worst" else row for row in rows]
        print_columns(heads[: len(bare[0])], bare, HEADS)
        if title == "Worst":
            for row in rows:
                print(f"  {row[0]}, {row[1]}, {row[2]}: {row[-1]}")
        print()
    sys.stdout.flush()
    for line in remarks(result):
        print(line, file=sys.stderr)


def remarks(result: Validation) -> list[str]:
    """What was not asked or could not be answered, a line a kind."""
    lines = []
    for words, counted in (
        ("rows not asked", result.not_asked),
        ("experiments refused", result.refused),
        ("own points left out", result.own_left_out),
    ):
        if counted:
            told = [f"{reason} ({count})" for reason, count in list(counted.items())[:NOT_ASKED_SHOWN]]
            more = len(counted) - len(told)
            lines.append(f"{words}: {'; '.join(told)}{f'; {more} more reasons' if more > 0 else ''}.")
    return lines


def write_markdown(result: Validation, out: TextIO) -> None:
    """Write every table as a GitHub table under a heading."""
    for title, heads, rows in tables(result):
        right = {place for place, head in enumerate(heads) if head in HEADS}
        out.write(f"### {title}\n\n")
        out.write("| " + " | ".join(heads) + " |\n")
        out.write("| " + " | ".join("---:" if place in right else "---" for place in range(len(heads))) + " |\n")
        out.writelines("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)
        out.write("\n")


def write_csv(result: Validation, out: TextIO) -> None:
    """Write every score as a line: fractions as numbers, an empty cell for what is unknown or does not apply."""
    columns = [name for name in Score.__struct_fields__ if name != "reason"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *columns])
    for table, scores in (("kind", result.kinds), ("source", result.sources), ("own", result.own)):
        writer.writerows([table, *(getattr(one, name) for name in columns)] for one in scores)
