"""Answer of the study of compute per dollar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from planner.engine.answers.figure import Basis, Figure
from planner.units import UNKNOWN, count_text, usd_text

Axis = Literal["width", "batch"]
FEW = 5
"""Number of GPUs that get a sentence each."""


class StudyPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One training step of one model on one GPU. Where it cannot be done there is a `reason` and no speed."""

    parameters: int
    non_embedding_parameters: int
    width: int
    depth: int
    sequences: int
    tokens_per_step: int
    reason: str | None = None
    """Reason why there is no speed: it does not fit, or is not supported."""
    flop_per_s: Figure | None = None
    """Model FLOPs (6·N·tokens + causal attention) ÷ seconds of the step."""
    flop_per_usd: Figure | None = None
    """Absent where there is no speed or no price."""
    step_s: Figure | None = None
    mfu: Figure | None = None
    memory_bytes: Figure | None = None
    flop_per_byte: float | None = None
    """Model FLOPs ÷ bytes moved if every byte of the step were read and written once: an upper limit of the intensity."""
    bottleneck: str | None = None


class StudyCurve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Results of one GPU along the axis."""

    gpu: str
    basis: Basis
    """Weakest basis among its points."""
    here: bool = False
    """True if it is a device of this machine."""
    measured_points: int = 0
    usd_per_gpu_h: float | None = None
    price: str = ""
    """Source of the price, or the reason why there is none."""
    price_as_of: str | None = None
    price_source: str = ""
    leads_below_usd_per_gpu_h: float | None = None
    """Price below which it gives the most FLOP per dollar at some point of the axis, if the other prices stay as they are."""
    points: list[StudyPoint] = []


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the axis on which `gpu` gives the most FLOP per dollar."""

    gpu: str
    from_parameters: float
    to_parameters: float
    from_tokens_per_step: float
    to_tokens_per_step: float


class Crossover(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"left": "from", "right": "to"}):
    """Place on the axis where the best GPU (or the better of two) changes."""

    parameters: Figure
    """Size of the model; on the axis of batch sizes, that of the one model studied."""
    tokens_per_step: Figure
    left: str
    right: str
    cause: Literal["price", "memory"] = "price"
    """'memory': the model no longer fits `from`; the range is given by the largest size that fits and the smallest that does not."""
    open_low: bool = False
    """True if the range extends below the smallest point studied; `low` is that point."""
    open_high: bool = False
    """True if the range extends beyond the largest point studied; `high` is that point."""


class StudyAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of the whole study."""

    axis: Axis
    depth_law: str
    vocabulary: int
    sequence: int
    prices: str
    """Name of the price set."""
    prices_as_of: str | None = None
    """Oldest price used."""
    curves: list[StudyCurve] = []
    leads: list[Lead] = []
    crossovers: list[Crossover] = []
    pair_crossovers: list[Crossover] = []
    """Crossovers of every pair of GPUs, whatever a third GPU does."""
    published: list[str] = []
    """Comparison with a published study, in sentences."""
    notes: list[str] = []
    version: str = ""


def size_of(crossover: Crossover, axis: Axis) -> Figure:
    """Size at the crossover, on the axis of the study."""
    return crossover.parameters if axis == "width" else crossover.tokens_per_step


def place_of(axis: Axis, point: StudyPoint) -> float:
    """Position of a point on the axis: parameters, or tokens per step."""
    return float(point.parameters if axis == "width" else point.tokens_per_step)


def round_text(text: str) -> str:
    """A round number without zero decimals: '50.0 M' -> '50 M'."""
    number, blank, unit = text.partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + blank + unit


def size_text(value: float | None, axis: Axis) -> str:
    """A size along the axis: '420 M', or '4,096'."""
    if axis == "width":
        return count_text(value)
    return f"{value:,.0f}" if value is not None and value < 1e6 else count_text(value)


def range_text(crossover: Crossover, axis: Axis) -> str:
    """A range such as '300 M to 610 M', with 'below' or 'beyond' where an end is open."""
    size = size_of(crossover, axis)
    low, high = size_text(size.low, axis), size_text(size.high, axis)
    return f"{'below ' if crossover.open_low else ''}{low} to {'beyond ' if crossover.open_high else ''}{high}"


def crossover_text(crossover: Crossover, axis: Axis) -> str:
    """One sentence on a crossover."""
    what = "parameters" if axis == "width" else "tokens a step"
    size, reach = size_text(size_of(crossover, axis).value, axis), range_text(crossover, axis)
    if crossover.cause == "memory":
        return f"At {size} {what} ({reach}) the step does not fit {crossover.left} any more and {crossover.right} is the best left."
    return f"At {size} {what} ({reach}) the most FLOP per dollar passes from {crossover.left} to {crossover.right}."


def story(answer: StudyAnswer) -> list[str]:
    """Findings of the study, one sentence each: the crossovers or the GPU that leads throughout, GPUs that lead nowhere, and where curves end."""
    lines = [crossover_text(crossover, answer.axis) for crossover in answer.crossovers]
    if answer.leads and not answer.crossovers:
        lines.append(f"{answer.leads[0].gpu} gives the most FLOP per dollar at every size studied.")
    leading = {lead.gpu for lead in answer.leads}
    for curve in answer.curves if len(answer.curves) <= FEW else ():
        price, enough = curve.usd_per_gpu_h, curve.leads_below_usd_per_gpu_h
        if curve.gpu not in leading and price is not None and enough is not None:
            lines += [f"{curve.gpu} leads nowhere at {usd_text(price)} $/h; below {usd_text(enough)} $/h it would."]
    if not answer.leads:
        lines.append("No GPU of the study has both a speed and a price.")
    return [*lines, *(ending for curve in answer.curves if len(answer.curves) <= FEW for ending in _ending(curve, answer.axis))]


def _ending(curve: StudyCurve, axis: Axis) -> Iterator[str]:
    """Sentence that says where the curve of a GPU ends before the axis does, and why."""
    known = [number for number, point in enumerate(curve.points) if point.flop_per_s is not None]
    if known and known[-1] + 1 < len(curve.points):
        beyond = curve.points[known[-1] + 1]
        what = "parameters" if axis == "width" else "tokens a step"
        yield f"The line of {curve.gpu} ends below {size_text(place_of(axis, beyond), axis)} {what}: {beyond.reason or UNKNOWN}."
