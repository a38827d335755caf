"""The lines of the file of measurements: JSON, each holding one run, measurement, prediction or removal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from planner.hardware.measurements.measurement import Measurement, Prediction, Run, faults_of

LAYOUT = 1
"""Version of the lines; raised when a field is added or changes its meaning, so that earlier versions leave the file alone."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the file, which gives exactly one of these."""

    layout: int | None = None
    """The first line: `LAYOUT` of the version that began the file."""
    run: Run | None = None
    """A run, or how it stands now."""
    measurement: Measurement | None = None
    prediction: Prediction | None = None
    removed: tuple[tuple[str, str], ...] = ()
    """(run, point) of measurements that were removed; runs that have no other go with them."""


encoded = msgspec.json.Encoder().encode_lines
"""Writes lines of the file."""
_DECODER = msgspec.json.Decoder(Line)
DAMAGE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
"""Errors raised by decoding a line that is not one of ours."""


def decoded(text: bytes) -> tuple[list[Line], list[str]]:
    """The readable and plausible lines of `text`, and the faults of the others."""
    problems: list[str] = []
    try:
        found = _DECODER.decode_lines(text)
    except DAMAGE:
        found = []
        for line in filter(None, text.split(b"\n")):
            try:
                found.append(_DECODER.decode(line))
            except DAMAGE as error:
                problems.append(str(error))
    wrong = {place: fault for place, one in enumerate(found) if (fault := next(faults_in(one), None))}
    return [one for place, one in enumerate(found) if place not in wrong], [*problems, *wrong.values()]


def faults_in(line: Line) -> Iterator[str]:
    """Statement of a line that cannot be true."""
    if line.measurement is not None:
        yield from (f"{name}: {text}" for name, text in faults_of(line.measurement))
    if line.prediction is not None and not all(0 < one < math.inf for one in (line.prediction.predicted, line.prediction.measured)):
        yield "a prediction without figures."


def unreadable_text(problems: Sequence[str]) -> str:
    """'2 lines cannot be read, the first: …'."""
    count = "one line" if len(problems) == 1 else f"{len(problems):,} lines"
    return f"{count} cannot be read, the first: {problems[0]}"
