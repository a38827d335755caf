"""Running job on the roofline of its GPU, in words and as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.engine.advice.running_point import Running, RunningPoint
from planner.engine.performance.operators.chip import Chip
from planner.present.cells import BASIS_WORDS, Paragraph, Part, Points, Section
from planner.present.drawing.chart import Chart, Curve, Dot, Limit, LogAxis, Point
from planner.present.names import device_name
from planner.units import MEGA, UNKNOWN, digits, duration_text, percent_text, si_text

BEFORE, BEYOND = 30.0, 6.0
"""Minimum factors by which a roof extends below and beyond its ridge."""
NOBODY = "No GPU is watched."


def running_sections(found: Sequence[Running]) -> list[Section]:
    """A section for each GPU."""
    return [_section(one) for one in found] or [Section("", [Paragraph(NOBODY)])]


def _section(one: Running) -> Section:
    parts: list[Part] = [Points(list(sentences(one)))]
    if one.chip is not None:
        parts.append(_chart(one, one.chip))
        parts.append(Paragraph(_basis(one, one.chip), "faint"))
    return Section(f"GPU {one.observed.index} · {device_name(one.observed.gpu)} · products as {one.dtype}", parts)


def sentences(one: Running) -> Iterator[str]:
    """Rates of the running job and its roof, or the reason why they are unknown."""
    chip, now = one.chip, one.now
    if chip is None or now is None:
        yield f"No point now: {one.unknown or UNKNOWN}."
        return
    yield (
        f"Now at most {si_text(now.flop_per_s, 'FLOP/s')} and {si_text(now.bytes_per_s, 'B/s')}: "
        f"{digits(now.intensity)} FLOP per byte, over the last {duration_text(one.observed.seconds)}."
    )
    ridge = chip.flop_per_s / chip.bandwidth_bytes_per_s
    if now.intensity < ridge:
        share, roof, side = now.bytes_per_s / chip.bandwidth_bytes_per_s, "memory bandwidth", "left of"
    else:
        share, roof, side = now.flop_per_s / chip.flop_per_s, "arithmetic", "right of"
    yield f"That is {side} the ridge at {digits(ridge)} FLOP per byte: {roof} is its roof, and it is at {percent_text(share)} of it."


def _basis(one: Running, chip: Chip) -> str:
    seen = one.observed
    clock = f"{seen.sm_clock_hz / MEGA:,.0f} MHz" if seen.sm_clock_hz else "an unknown clock"
    return (
        f"FLOP/s: matrix pipes at work in {percent_text(seen.tensor_active)} of the cycles at {clock}, times the data sheet's "
        f"{one.dtype} rate; a cycle need not be full. B/s: {percent_text(seen.dram_bandwidth)} of the theoretical bandwidth. "
        f"The roof that is reached rests on {BASIS_WORDS[chip.basis]}."
    )


def _chart(one: Running, chip: Chip) -> Chart:
    points = [*one.before, *([one.now] if one.now is not None else [])]
    peak = chip.peak_flop_per_s, chip.gpu.memory_bandwidth_bytes_per_s
    ridge = chip.flop_per_s / chip.bandwidth_bytes_per_s
    across = [*(point.intensity for point in points), ridge / BEFORE, ridge * BEYOND]
    x = LogAxis.around(across, lambda value: digits(value, 2))
    foot = [chip.bandwidth_bytes_per_s * min(across)]
    y = LogAxis.around([*(point.flop_per_s for point in points), peak[0], *foot], lambda value: si_text(value, significant=2))
    dots = [_dot(point, "") for point in one.before] + ([_dot(one.now, "now")] if one.now is not None else [])
    return Chart(
        "Roofline",
        x,
        y,
        "FLOP per byte",
        "FLOP/s",
        [Curve("reached", _roof(x, y, chip.flop_per_s, chip.bandwidth_bytes_per_s)), Curve("data sheet", _roof(x, y, *peak))],
        dots,
        [Limit(ridge, "ridge", at_foot=True)],
        unnamed="before" if one.before else "",
    )


def _dot(point: RunningPoint, label: str) -> Dot:
    return Dot(point.intensity, point.flop_per_s, label)


def _roof(x: LogAxis, y: LogAxis, flop_per_s: float, bytes_per_s: float) -> list[Point]:
    """Points of a roof: bandwidth up to the ridge, arithmetic beyond it."""
    begin = max(x.low, y.low / bytes_per_s)
    return [(begin, begin * bytes_per_s), (flop_per_s / bytes_per_s, flop_per_s), (x.high, flop_per_s)]
