"""The two charts of the study as one SVG file: FLOP/s and FLOP per dollar, with ranges, crossovers and findings."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from planner.engine.answers.figure import Figure
from planner.engine.answers.study import StudyAnswer, StudyPoint, place_of, size_of, size_text, story
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, LogAxis
from planner.present.drawing.svg import charts_file
from planner.units import si_text

TEXT_WIDTH = 200


def study_svg(answer: StudyAnswer) -> str:
    """Text of the SVG file."""
    law = f"depth law {answer.depth_law}, vocabulary {answer.vocabulary:,}, sequences of {answer.sequence}"
    notes = (f"{law}; shaded: contains the true value nine times in ten; dots: measured here.", *story(answer), *answer.published)
    charts = (
        _chart(answer, "FLOP/s", lambda point: point.flop_per_s),
        _chart(answer, f"FLOP per dollar ({answer.prices})", lambda point: point.flop_per_usd),
    )
    return charts_file(charts, [line for note in notes for line in wrap(note, TEXT_WIDTH)])


def _chart(answer: StudyAnswer, title: str, figure_of: Callable[[StudyPoint], Figure | None]) -> Chart:
    curves, dots = list[Curve](), list[Dot]()
    for curve in answer.curves:
        found = [(place_of(answer.axis, point), figure) for point in curve.points if (figure := figure_of(point))]
        price = f"{curve.usd_per_gpu_h:.2f} $/h" if curve.usd_per_gpu_h is not None else "no price"
        if found:
            points, ranges = [(place, figure.value) for place, figure in found], [(figure.low, figure.high) for _, figure in found]
            curves.append(Curve(f"{curve.gpu}, {price}", points, ranges))
            dots += [Dot(place, figure.value, detail=curve.gpu) for place, figure in found if figure.basis == "measured"]
    return Chart(
        title,
        LogAxis.around([place for curve in curves for place, _ in curve.points], lambda place: size_text(place, answer.axis)),
        LogAxis.around([end for curve in curves for ends in curve.ranges for end in ends], si_text),
        "parameters" if answer.axis == "width" else "tokens a step",
        title if curves else f"{title}: nothing is known",
        curves,
        dots,
        [Limit(place, size_text(place, answer.axis)) for one in answer.crossovers for place in (size_of(one, answer.axis).value,)],
    )
