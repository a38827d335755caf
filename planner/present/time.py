"""Time of one row by phases and operators, with their limits and the roofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import BOUND_WORDS, Operator, PhaseTime, TimeDetail
from planner.present.cells import LEAST_SHARE, Column, Fact, Facts, Paragraph, Part, Section, Table
from planner.present.names import row_place
from planner.units import bytes_text, count_text, digits, duration_text, percent_text, si_text


class OperatorLine(NamedTuple):
    """One operator of a phase in the table, or the sum of all short ones."""

    phase: PhaseTime
    name: str
    seconds: float
    operator: Operator | None = None
    """None: several short ones."""
    first: bool = False
    """True if it is the first of its phase."""

    @property
    def share(self) -> float:
        """Share of the time of its phase."""
        return self.seconds / self.phase.seconds


def share_text(share: float) -> str:
    """Share of time, '<1 %' if it would read 0 %."""
    return "<1 %" if 0 < share < LEAST_SHARE else percent_text(share)


def _of_operator(name: str, text: Callable[[Any], str]) -> Callable[[OperatorLine], str]:
    """Function for cells with an attribute of the operator; empty if it is 0 or unknown, and for several operators in one line."""
    return lambda line: text(value) if (value := getattr(line.operator, name, None)) else ""


OPERATOR_COLUMNS: tuple[Column[OperatorLine], ...] = (
    Column("phase", "phase", lambda line: line.phase.name if line.first else "", priority=90),
    Column("operator", "operator", lambda line: line.name, least_width=16),
    Column("shape", "m·n·k", _of_operator("shape_text", str), right=True, priority=60),
    Column("count", "×", _of_operator("count", count_text), right=True, priority=50),
    Column("flop", "FLOP", _of_operator("flop", si_text), right=True, priority=55),
    Column("bytes", "bytes", _of_operator("bytes", bytes_text), right=True, priority=40),
    Column("intensity", "FLOP/B", _of_operator("intensity", digits), right=True, priority=70),
    Column("time", "time", lambda line: duration_text(line.seconds), right=True, priority=95),
    Column("share", "share", lambda line: share_text(line.share), right=True, priority=80),
    Column("bound", "bound by", lambda line: BOUND_WORDS[line.operator.bound] if line.operator else "", priority=75),
)


def time_section(row: PlanRow, detail: TimeDetail) -> Section:
    """Phases of the work on `row`, their operators, and the roofs."""
    title = f"Time of {detail.work} on {row_place(row)}: {duration_text(detail.total_s)}"
    note: list[Part] = [Paragraph(detail.note)] if detail.note else []
    lines = [line for phase in detail.phases() for line in operator_lines(detail, phase)]
    return Section(title, [*note, Facts(phase_facts(detail)), Table(OPERATOR_COLUMNS, lines), Facts(roofs(detail))])


def phase_facts(detail: TimeDetail) -> list[Fact]:
    """Phases in chronological order: time, share of the whole, and limit."""
    facts = []
    for phase in detail.phases():
        flop = f", {si_text(phase.flop, 'FLOP')} a GPU" if phase.flop else ""
        bound = f"bound by {BOUND_WORDS[phase.bound]} for {percent_text(phase.bound_share)} of it{flop}"
        facts.append(Fact(phase.name, duration_text(phase.seconds), f"{percent_text(phase.seconds / detail.total_s):>5}  {bound}"))
    return facts


def operator_lines(detail: TimeDetail, phase: PhaseTime) -> Iterator[OperatorLine]:
    """Operators of a phase, the longest first; the shortest ones are combined."""
    long, short = detail.longest(phase)
    for number, one in enumerate(long):
        yield OperatorLine(phase, one.name, one.seconds, one, first=number == 0)
    if short:
        yield OperatorLine(phase, f"{len(short)} shorter ones", sum(one.seconds for one in short))


def roofs(detail: TimeDetail) -> list[Fact]:
    """Reached compute and bandwidth and the ridge point, with the values of the data sheet."""
    return [
        Fact(
            detail.dtype,
            si_text(detail.flop_per_s, "FLOP/s"),
            f"of {si_text(detail.peak_flop_per_s, 'FLOP/s')}; {percent_text(peak_share(detail))} of that is used, "
            "recomputed FLOPs included",
        ),
        Fact("memory", si_text(detail.bytes_per_s, "B/s"), f"of {si_text(detail.peak_bytes_per_s, 'B/s')}"),
        Fact("ridge point", f"{digits(detail.ridge)} FLOP/B", f"{digits(detail.peak_ridge)} by the data sheet"),
    ]


def peak_share(detail: TimeDetail) -> float:
    """Share of the data sheet's FLOP/s that the whole work reaches."""
    return detail.flop / detail.total_s / detail.peak_flop_per_s


def below_roof(detail: TimeDetail, one: Operator) -> str:
    """Share of the data sheet's roof that an operator reaches."""
    roof = min(detail.peak_flop_per_s, detail.peak_bytes_per_s * (one.intensity or 0.0))
    return percent_text(one.flop / one.seconds / roof) if roof else ""
