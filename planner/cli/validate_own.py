"""What was measured on this user's machines, beside what the vendors' figures alone would have said of the same points.

Training steps, as the whole step; matrix products, by the product formula of `planner.hardware.ceilings`; copies, as the memory's
rate. Points that were disturbed (throttled, shared, out of memory) are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.engine.answers import Answer, Figure
from planner.engine.validation import Comparison
from planner.errors import UserError
from planner.hardware.calibration import ceilings_of
from planner.hardware.measured import Product, spread_of

if TYPE_CHECKING:
    from planner.engine.speed.chips import Chip
    from planner.hardware.ceilings import Ceilings
    from planner.hardware.gpus import Gpu
    from planner.hardware.measurement import Measurement
    from planner.session import Session
    from planner.workload.tasks import Request


def own_comparisons(session: Session) -> tuple[list[Comparison], Counter[str]]:
    """Every solid point of the store beside its prediction, and how many points were left out, by reason."""
    found, left_out = list[Comparison](), Counter[str]()
    steps: list[tuple[Measurement, Request]] = []
    ceilings: dict[str, Ceilings] = {}
    find = _finder(session)
    for point in session.store.latest():
        gpu = find(point.device)
        if gpu is None:
            left_out[f"{point.device} is neither in the catalogue nor this machine"] += 1
            continue
        known = ceilings.setdefault(gpu.name, ceilings_of(gpu, session.priors))
        request = _request(point)
        if not point.solid:
            left_out[f"status {point.status}"] += 1
        elif request is not None:
            steps.append((point, request))
        elif (figure := _product(point, known) or _copy(point, known)) is not None:
            kind = "own matrix products" if point.kind == "gemm" else "own memory copies"
            found.append(_comparison(kind, point, figure, float(point.value or math.nan)))
        else:
            left_out[f"kind {point.kind}, or without a known rate of {point.dtype}"] += 1
    return found + _steps(session, steps, find, ceilings), left_out


def logged_comparisons(session: Session) -> list[Comparison]:
    """What plans said of each point before it was measured: the running error."""
    return [
        Comparison(
            kind="predicted before it was measured",
            source=one.device,
            framework=one.basis,
            experiment=one.point,
            line=0,
            gpu=one.device,
            model="",
            gpus=1,
            measured=one.measured,
            predicted=one.predicted,
            low=one.low,
            high=one.high,
        )
        for one in session.store.predictions()
    ]


def _finder(session: Session) -> Callable[[str], Gpu | None]:
    here = {device.name: device for device in session.machine.devices}

    def find(name: str) -> Gpu | None:
        try:
            return here.get(name) or session.gpus.find(name)
        except UserError:
            return None

    return find


def _steps(
    session: Session, steps: list[tuple[Measurement, Request]], find: Callable[[str], Gpu | None], ceilings: dict[str, Ceilings]
) -> list[Comparison]:
    """Training steps: the rate of model FLOP/s, by the seconds of the step."""
    from planner.engine.estimate import estimate
    from planner.engine.speed.chips import chip_of

    def chip(gpu: Gpu, dtype: str, stored: str) -> Chip | None:
        return chip_of(gpu, ceilings[gpu.name], dtype, stored)

    def known(name: str) -> Gpu:
        gpu = find(name)
        assert gpu is not None
        return gpu

    answers = estimate([request for _, request in steps], known, lambda request: session.architecture(request.model), chip)
    compared = []
    for (point, _), answer in zip(steps, answers, strict=True):
        seconds = answer.step_s if isinstance(answer, Answer) else None
        figure = None
        if seconds and point.flop:
            figure = Figure(point.flop / seconds.value, point.flop / seconds.high, point.flop / seconds.low, seconds.basis)
        compared.append(_comparison("own training steps", point, figure, float(point.value or math.nan)))
    return compared


def _request(point: Measurement) -> Request | None:
    """The step of a training point as a request; None for other points, and for steps that do not say what they were."""
    from planner.workload.tasks import Request

    given = point.parameters
    batch, sequence, model, recipe = (given.get(name) for name in ("batch", "sequence", "model", "recipe"))
    described = isinstance(batch, int) and isinstance(sequence, int) and isinstance(model, str)
    if point.kind != "train" or not described or recipe not in {"amp", "fp32", "bf16", "mixed"}:
        return None
    fields = {"model": model, "gpu": point.device, "task": "train", "engine": "torch", "recipe": recipe, "dtype": point.dtype}
    return _as_request(Request, fields | {"micro_batch": batch, "sequence": sequence})


def _as_request(kind: type[Request], fields: dict[str, object]) -> Request | None:
    import msgspec

    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError:  # a dtype of a later version
        return None


def _product(point: Measurement, ceilings: Ceilings) -> Figure | None:
    """FLOP/s of a product by the formula; its range weighs that of arithmetic and of memory by their shares of the time."""
    reached = ceilings.compute_flop_per_s.get(point.dtype or "")
    if point.kind != "gemm" or reached is None or not point.flop or not point.value:
        return None
    memory = ceilings.bandwidth_bytes_per_s
    product = Product(point.flop, point.bytes or 0.0, point.flop / point.value, spread_of(point))
    error = product.error(reached.value, ceilings.kernel_latency_s.value, memory.value, ceilings.knee)
    flop_s, bytes_s = product.flop / reached.value, product.moved / memory.value
    share = flop_s / (flop_s + bytes_s)
    spread = math.hypot(share * reached.spread, (1 - share) * memory.spread)
    value = point.value * math.exp(-error)
    return Figure(value, value * math.exp(-spread), value * math.exp(spread), reached.basis)


def _copy(point: Measurement, ceilings: Ceilings) -> Figure | None:
    """Bytes/s of a copy through memory; one that stays in a cache says nothing of it."""
    memory = ceilings.bandwidth_bytes_per_s
    if point.kind != "copy" or point.parameters.get("cache") == "warm":
        return None
    return Figure(memory.value, memory.low, memory.high, memory.basis)


def _comparison(kind: str, point: Measurement, figure: Figure | None, measured: float) -> Comparison:
    return Comparison(
        kind=kind,
        source=point.device,
        framework=point.dtype or "",
        experiment=point.point,
        line=0,
        gpu=point.device,
        model=str(point.parameters.get("model", "")),
        gpus=1,
        measured=measured,
        predicted=figure.value if figure else None,
        low=figure.low if figure else None,
        high=figure.high if figure else None,
    )
