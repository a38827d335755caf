"""Comparisons of measurements on the user's machines with predictions from vendors' figures alone.

Training steps are compared as a whole, matrix products with the formula of `planner.hardware.ceilings.ceilings`, copies with the memory's
rate. Points that were disturbed (throttled, shared, out of memory) are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from planner.engine.answers.figure import Figure
from planner.engine.validation import Comparison
from planner.hardware.ceilings.calibration import ceilings_of

if TYPE_CHECKING:
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.measurements.measurement import Measurement
    from planner.session import Session


KINDS = {"train": "own training steps", "gemm": "own matrix products", "copy": "own memory copies"}
"""Kind of a point -> name of its row."""


def own_comparisons(session: Session) -> tuple[list[Comparison], Counter[str]]:
    """Comparisons of all undisturbed points of the store, and the number of points left out for each reason."""
    from planner.engine.estimate.benchmark_point import predicted_figure, request_of

    found, left_out = list[Comparison](), Counter[str]()
    ceilings: dict[str, Ceilings] = {}
    for point in session.store.latest():
        gpu = session.part_named(point.device)
        if gpu is None:
            left_out[f"{point.device} is neither in the catalogue nor this machine"] += 1
            continue
        if not point.reliable:
            left_out[f"status {point.status}"] += 1
            continue
        known = ceilings.setdefault(gpu.name, ceilings_of(gpu, session.ceiling_records))
        figure = predicted_figure(point, gpu, known, session.architecture) if point.kind in KINDS else None
        refused = point.kind == "train" and request_of(point, gpu.name) is not None
        if figure is not None or refused:
            found.append(_comparison(KINDS[point.kind], point, figure))
        else:
            left_out[f"kind {point.kind}, or without a known rate of {point.dtype}"] += 1
    return sorted(found, key=lambda one: one.kind == KINDS["train"]), left_out


def logged_comparisons(session: Session) -> list[Comparison]:
    """Comparisons of points with the predictions that were made before their measurement."""
    return [
        Comparison(
            kind="predicted before it was measured",
            source=one.device,
            framework=one.basis,
            experiment=one.point,
            gpu=one.device,
            measured=one.measured,
            predicted=one.predicted,
            low=one.low,
            high=one.high,
        )
        for one in session.store.predictions()
    ]


def seen_comparisons(session: Session) -> list[Comparison]:
    """Comparisons of predicted candidates with their results, by kind of figure and month."""
    return [
        Comparison(
            kind=f"own: {one.kind}",
            source=one.at[:7],
            framework=one.origin,
            experiment=one.id,
            gpu=one.gpu,
            model=one.model,
            gpus=one.gpus,
            measured=one.seen,
            predicted=one.predicted.value,
            low=one.predicted.low,
            high=one.predicted.high,
        )
        for one in session.predictions.pairs()
    ]


def _comparison(kind: str, point: Measurement, figure: Figure | None) -> Comparison:
    return Comparison(
        kind=kind,
        source=point.device,
        framework=point.dtype or "",
        experiment=point.point,
        gpu=point.device,
        model=str(point.parameters.get("model", "")),
        measured=float(point.value or math.nan),
        predicted=figure.value if figure else None,
        low=figure.low if figure else None,
        high=figure.high if figure else None,
    )
