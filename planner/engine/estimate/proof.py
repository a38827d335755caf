"""Proof of a first run on a device: expected and measured figures of every point, and a verdict on each."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from planner.engine.answers.figure import Figure
from planner.engine.estimate.benchmark_point import predicted_figure
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import Ceilings
from planner.hardware.measurements.measurement import Measurement
from planner.reading import read_toml
from planner.schema import read_struct
from planner.workload.architecture import Architecture
from planner.workload.published.spreads import published_spreads

SHARE = 0.95
"""Nominal share of predicted figures inside: with ranges of 0.9, four of forty correct figures would lie outside."""
Verdict = Literal["within", "outside", "disturbed", "not measured", "no range"]
AT_WORK = {"gemm": {"sm_active": 0.65, "tensor_active": 0.45}, "copy": {"dram_active": 0.6}}
"""Smallest share of the time that a hardware counter has to show while the device does nothing but this, with caches emptied in between: an
H200 shows 0.71 (products of 0.9 ms) to 0.91 (1.5 ms), 0.53 to 0.81, and 0.78, an H100 0.70 to 0.93, 0.49 to 0.82, and 0.78 (2026-11-26)."""
LARGE_FLOP = 1e12
"""FLOPs of a product below which it does not fill a GPU."""


class ExpectedFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A point and the range that nine of ten boards lie in, in the unit of its kind."""

    point: str
    low: float
    high: float


class ExpectedPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Expected figures of one part."""

    gpu: str
    source: str
    retrieved: dt.date
    figure: list[ExpectedFigure]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    point: str
    unit: str
    low: float | None
    high: float | None
    seen: float | None
    verdict: Verdict
    why: str = ""


def load_expected(folder: Path) -> dict[str, ExpectedPart]:
    """Parts of `folder/*.toml` by their names; raises `UserError`."""
    found = (read_struct(ExpectedPart, read_toml(path), str(path)) for path in sorted(folder.glob("*.toml")))
    return {part.gpu: part for part in found}


def prove(
    points: Iterable[Measurement],
    gpu: Gpu,
    published: Ceilings,
    expected: ExpectedPart | None,
    architecture: Callable[[str | dict[str, Any]], Architecture],
) -> Iterator[Proof]:
    """A verdict on each point of a run, and on the hardware counters measured with it.

    The range is that of `expected` where it has one, else that of the prediction from `published` ceilings, which contains `SHARE` of the truths.
    """
    listed = {one.point: (one.low, one.high) for one in expected.figure} if expected else {}
    for one in points:
        predicted = predicted_figure(one, gpu, published, architecture) if one.value and one.point not in listed else None
        low, high = listed.get(one.point) or (_range(predicted) if predicted else (None, None))
        yield Proof(
            point=one.point, unit=one.unit, low=low, high=high, seen=one.value, verdict=_verdict(one, low, high), why=one.detail
        )
        if one.kind in AT_WORK and one.reliable and (one.kind != "gemm" or (one.flop or 0.0) >= LARGE_FLOP):
            yield from _counters(one)


def is_proven(lines: Sequence[Proof]) -> bool:
    """True if no figure is outside of its expected range, and at least as many are inside as were disturbed."""
    verdicts = Counter(one.verdict for one in lines)
    return not verdicts["outside"] and verdicts["disturbed"] <= verdicts["within"]


def _range(predicted: Figure) -> tuple[float, float]:
    """Ends of the range of nominal `SHARE`: the logarithms lie further from the value than those of 0.9 by the quotient of the two quantiles."""
    further = dict(published_spreads().quantiles)[SHARE]
    low, high = (predicted.value * (end / predicted.value) ** further for end in (predicted.low, predicted.high))
    return low, high


def _verdict(one: Measurement, low: float | None, high: float | None) -> Verdict:
    if one.value is None:
        return "outside" if one.status == "error" else "not measured"
    if not one.reliable:
        return "disturbed"
    if one.kind == "fault":
        return "within"
    if low is None or high is None:
        return "no range"
    return "within" if low <= one.value <= high else "outside"


def _counters(one: Measurement) -> Iterator[Proof]:
    for name, least in AT_WORK[one.kind].items():
        seen = one.telemetry.get(name)
        if isinstance(seen, (int, float)) and not (name == "tensor_active" and one.dtype == "fp32"):
            verdict: Verdict = "within" if seen >= least else "outside"
            yield Proof(point=f"{one.point} {name}", unit="", low=least, high=1.0, seen=float(seen), verdict=verdict)
