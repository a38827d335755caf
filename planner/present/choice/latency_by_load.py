"""Latency against load: sentences on the loads at which targets are missed and requests queue up, a chart and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import PlanRow
from planner.engine.answers.time import Latency, LoadPoint, TargetEnd, UnderLoad
from planner.present.cells import BASIS_WORDS, Paragraph, Part, Points, Section, text_table
from planner.present.choice.sentence import count_and_device
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, LinearAxis, axis_around
from planner.units import UNKNOWN, digits, duration_text, percent_text

LATENCY_WORDS: Mapping[Latency, str] = {"request": "whole request", "ttft": "first token", "tpot": "next token"}
UNITS: Mapping[str, tuple[str, str]] = {
    "rate": ("requests a second", "requests/s"),
    "in-flight": ("requests in flight", "requests in flight"),
}
"""Kind of load -> title of its axis, and unit after a number."""
CURVES = ("p95", "p50")
SHORT_NAMES: Mapping[Latency, str] = {"request": "total", "ttft": "TTFT", "tpot": "TPOT"}
"""Latency -> its name in the heading of a column, as in the form."""
NEARLY_FULL = 0.9
"""Share of the maximum load above which the end of the lines is explained by queues."""
AIR = 1.15
"""Factor by which the axis extends beyond the last load, for the names of lines."""
NO_SERVICE = "No latency by load: this needs a service whose replicas do both prefill and decode."


def load_sections(row: PlanRow, found: UnderLoad | None, latency: Latency | None = None) -> list[Section]:
    """Latency of `row` by load as text, chart and table; `latency`: which one (None: the one with a target)."""
    title = f"Latency of {count_and_device(row)} against load"
    if found is None or not found.points:
        return [Section(title, [Paragraph(NO_SERVICE)])]
    shown: Latency = latency or (found.ends[0].latency if found.ends else "request")
    chart = _chart(found, shown)
    parts: list[Part] = [
        Points(list(sentences(found))),
        *([chart] if chart else []),
        _table(found),
        Paragraph(_basis(found), "faint"),
    ]
    return [Section(title, parts)]


def sentences(found: UnderLoad) -> Iterator[str]:
    """Sentences on the load at which each target is missed, and on the load above which requests queue up."""
    _, unit = UNITS[found.by]
    for one in found.ends:
        what = f"{one.share} of the {LATENCY_WORDS[one.latency]}"
        limit = duration_text(one.limit_s)
        if one.load is None:
            yield f"{what} is above {limit} at every load."
            continue
        spread = f" ({digits(one.load.low)} to {digits(one.load.high)} by its range)" if one.load.low < one.load.high else ""
        asked = f"; {digits(found.asked)} are asked for"
        yield f"{what} stays within {limit} up to {digits(one.load.value)} {unit}{spread}{asked}."
    if not found.ends:
        yield f"No latency is limited; {digits(found.asked)} {unit} are asked for."
    if found.full is not None:
        yield f"Beyond {digits(found.full)} {unit} requests arrive faster than they are answered, and the queue grows without limit."


def _basis(found: UnderLoad) -> str:
    basis = found.points[0].request_s.mean.basis
    replicas = f"{found.replicas:,} replica{'s' * (found.replicas != 1)}"
    burst = f", each at {percent_text(found.burst)} more than the load shown (targets.burst)" if found.burst else ""
    how = (
        f"Simulated on {replicas}: {found.requests:,} requests a point"
        if found.requests
        else f"By formulas of clients that wait, on {replicas}"
    )
    return f"{how}{burst}; speeds rest on {BASIS_WORDS[basis]}."


def _figure(point: LoadPoint, latency: Latency, share: str) -> Figure | None:
    percentiles = getattr(point, f"{latency}_s")
    figure: Figure | None = getattr(percentiles, share) if percentiles is not None else None
    return figure


def _chart(found: UnderLoad, latency: Latency) -> Chart | None:
    """p95 and p50 over the load, with the limit, the requested load, and the load at which the limit is exceeded."""
    ends = [one for one in found.ends if one.latency == latency]
    shares = list(dict.fromkeys([*(one.share for one in ends), *CURVES]))
    curves = [
        Curve(share, points)
        for share in shares
        if (points := [(one.load, figure.value) for one in found.points if (figure := _figure(one, latency, share)) is not None])
    ]
    if not curves:
        return None
    title, unit = UNITS[found.by]
    whole = max(found.asked, found.full or 0.0, found.points[-1].load)
    limits = [Limit(found.asked, "asked")]
    limits += [Limit(found.full, "full")] if found.full is not None else []
    limits += [Limit(one.limit_s, f"{one.share} wanted", upright=False) for one in ends]
    dots = [
        Dot(one.load.value, one.limit_s, f"{one.share} passes {duration_text(one.limit_s)} at {digits(one.load.value)} {unit}")
        for one in ends
        if one.load is not None and _passed(found, one)
    ]
    words = LATENCY_WORDS[latency]
    return Chart(
        f"{words[:1].upper()}{words[1:]} against load",
        LinearAxis(0.0, whole * AIR),
        axis_around([*(seconds for curve in curves for _, seconds in curve.points), *(one.limit_s for one in ends)], duration_text),
        title,
        f"time of the {words}",
        curves,
        dots,
        limits,
        note=_end_of_lines(found, unit),
    )


def _end_of_lines(found: UnderLoad, unit: str) -> str:
    """Reason for the end of the lines."""
    last = found.points[-1].load
    if found.full is None:
        return ""
    if last >= NEARLY_FULL * found.full:
        return "The lines end where requests come faster than they are answered."
    return f"The lines end at {digits(last)} {unit}, the highest load that was worked out."


def _passed(found: UnderLoad, end: TargetEnd) -> bool:
    """True if the limit is exceeded on the chart, not only at its last load."""
    return end.load is not None and end.load.value < found.points[-1].load


def _table(found: UnderLoad) -> Part:
    """Every simulated load with its percentiles."""
    _, unit = UNITS[found.by]
    columns = [(f"{share} {name}", latency, share) for latency, name in SHORT_NAMES.items() for share in ("p50", "p95")]
    rows = [
        (
            digits(one.load),
            *(
                duration_text(figure.value) if (figure := _figure(one, latency, share)) else UNKNOWN
                for _, latency, share in columns
            ),
            percent_text(one.busy),
        )
        for one in found.points
    ]
    heads = (unit, *(head for head, _, _ in columns), "replicas busy")
    return text_table(heads, rows, heads)
