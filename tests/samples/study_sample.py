"""A small study with fixed speeds: power laws, so that crossovers can be worked out by hand."""

from __future__ import annotations

import math

import msgspec

from planner.engine.answers.figure import Basis, Figure
from planner.engine.answers.study import Axis, StudyAnswer, StudyCurve, StudyPoint
from planner.engine.study.crossovers import leaders, leading_price, pairs_of
from planner.engine.study.sizes import Study

SIZES = (10e6, 30e6, 100e6, 300e6, 1e9, 3e9)
MEASURED = {("H200 SXM 141GB", 100e6), ("H200 SXM 141GB", 1e9)}


def sample_curve(
    gpu: str,
    speed_at_100m: float,
    power: float,
    usd_per_h: float | None,
    spread: float,
    *,
    basis: Basis = "spec",
    most: float = math.inf,
    axis: Axis = "width",
) -> StudyCurve:
    """FLOP/s = speed · (size ÷ 100 M)^power up to the size `most`; half width of the logarithm `spread`."""
    points = []
    for size in SIZES:
        value, measured = speed_at_100m * (size / 100e6) ** power, (gpu, size) in MEASURED
        half = 0.05 if measured else spread
        speed = Figure(value, value * math.exp(-half), value * math.exp(half), "measured" if measured else basis)
        bare = StudyPoint(
            parameters=int(size) if axis == "width" else 219_000_000,
            non_embedding_parameters=int(size / 2),
            width=1024,
            depth=5,
            sequences=4,
            tokens_per_step=1024 if axis == "width" else int(size / 1e4),
        )
        if size > most:
            points.append(
                msgspec.structs.replace(
                    bare, reason="does not fit: 7.8 GiB short (31.1 GiB needed, 23.3 GiB usable; weights 30.5 GiB)"
                )
            )
            continue
        per_usd = speed.scaled(3600 / usd_per_h) if usd_per_h else None
        points.append(msgspec.structs.replace(bare, flop_per_s=speed, flop_per_usd=per_usd))
    measured_points = sum(gpu == name for name, _ in MEASURED)
    price = "runpod 1x, secure" if usd_per_h else f"runpod-secure has no price for {gpu}"
    return StudyCurve(
        gpu=gpu,
        basis=basis,
        here=bool(measured_points),
        measured_points=measured_points,
        usd_per_gpu_h=usd_per_h,
        price=price,
        points=points,
    )


def sample_study(
    axis: Axis = "width", prices: str = "runpod-secure", law: str = "printed", vocabulary: int = 151936
) -> StudyAnswer:
    """Three GPUs: the L4 leads small models, the H200 large ones, the A100 none."""
    curves = [
        sample_curve("L4", 12e12, 0.2, 0.44, 0.3, most=1.5e9, axis=axis),
        sample_curve("A100 80GB SXM", 38e12, 0.3, 1.89, 0.2, basis="public", axis=axis),
        sample_curve("H200 SXM 141GB", 80e12, 0.45, 3.59, 0.15, basis="transferred", axis=axis),
    ]
    study = Study(axis=axis, depth_law=law, vocabulary=vocabulary)
    leads, crossovers = leaders(study, curves)
    return StudyAnswer(
        axis=axis,
        depth_law=law,
        vocabulary=vocabulary,
        sequence=256,
        prices=prices,
        prices_as_of="2026-05-24",
        curves=[msgspec.structs.replace(curve, leads_below_usd_per_gpu_h=leading_price(curve, curves)) for curve in curves],
        leads=leads,
        crossovers=crossovers,
        pair_crossovers=pairs_of(study, curves),
        published=["Published: L4 best below 500 M parameters, H100 best above 500 M parameters, A100 80GB nearly never."],
        version="0.1.0",
    )
