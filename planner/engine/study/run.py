"""The built-in study of compute per dollar: one training step over model sizes (or batch sizes) on several GPUs.

A Qwen3 decoder with AdamW under autocast to bfloat16, random tokens; heads of 128, half as many key heads, a feed-forward
of three widths, embedding and head tied. Along the axis of width the model grows at 4 × 256 tokens a step; along the axis of
batch the model stays and the tokens grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.study import FEW, StudyAnswer, StudyCurve, StudyPoint
from planner.engine.estimate.estimate import estimate
from planner.engine.performance.operators.chip import FindChip
from planner.engine.search.cost import scaled
from planner.engine.study.crossovers import WEAKEST, leading_price, leads_of, pairs_of
from planner.engine.study.price_sets import Price
from planner.engine.study.sizes import MOST_PARAMETERS, Size, Study, sizes_of, study_config
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.units import SECONDS_PER_HOUR
from planner.workload.architecture import Architecture
from planner.workload.tasks import Request

FindArchitecture = Callable[[str | dict[str, Any]], Architecture]


def run_study(
    study: Study,
    gpus: Sequence[Gpu],
    *,
    prices: str,
    price_of: Callable[[Gpu], Price],
    architecture: FindArchitecture,
    chip: FindChip,
    measured: Mapping[str, Sequence[TrainPoint]],
    here: frozenset[str] = frozenset(),
) -> StudyAnswer:
    """The study on `gpus`.

    `measured`: training steps measured on a GPU, by its name; where one is of a point of the study it stands for the
    prediction. Raises `UserError`.
    """
    sizes = sizes_of(study)
    models = {size: architecture(study_config(size.width, size.depth, study.vocabulary)) for size in sizes}
    sizes = [size for size in sizes if models[size].total <= MOST_PARAMETERS] or sizes[:1]
    by_name = {gpu.name: gpu for gpu in gpus}
    requests = [_request(study, size, gpu) for gpu in by_name.values() for size in sizes]
    answers = iter(estimate(requests, by_name.__getitem__, lambda request: architecture(request.model), chip))
    curves, other_shapes = [], 0
    for gpu in by_name.values():
        steps = measured_sizes(measured.get(gpu.name, ()), study, architecture)
        price = price_of(gpu)
        points = [
            _point(study, size, models[size], next(answers), price.usd_per_gpu_h, steps.get((size, study.vocabulary)))
            for size in sizes
        ]
        other_shapes += len(steps) - sum((size, study.vocabulary) in steps for size in sizes)
        curves.append(_curve(gpu, price, points, here=gpu.name in here))
    leads, crossovers = leads_of(study, curves)
    as_of = [curve.price_as_of for curve in curves if curve.price_as_of]
    return StudyAnswer(
        axis=study.axis,
        depth_law=study.depth_law,
        vocabulary=study.vocabulary,
        sequence=study.sequence,
        prices=prices,
        prices_as_of=min(as_of, default=None),
        curves=[msgspec.structs.replace(curve, leads_below_usd_per_gpu_h=leading_price(curve, curves)) for curve in curves],
        leads=leads,
        crossovers=crossovers,
        pair_crossovers=pairs_of(study, curves),
        notes=_notes(curves, other_shapes),
        version=planner.__version__,
    )


def _request(study: Study, size: Size, gpu: Gpu) -> Request:
    return Request(
        model=study_config(size.width, size.depth, study.vocabulary),
        gpu=gpu.name,
        task="train",
        engine="torch",
        dtype="bf16",
        recipe="amp",
        optimizer="adamw",
        checkpointing="none",
        compile=False,
        micro_batch=size.sequences,
        global_batch=size.sequences,
        sequence=study.sequence,
    )


def measured_sizes(
    points: Sequence[TrainPoint], study: Study, architecture: FindArchitecture
) -> dict[tuple[Size, int], TrainPoint]:
    """Measured steps in the conditions of the study, by size and vocabulary."""
    found: dict[tuple[Size, int], TrainPoint] = {}
    for point in points:
        given = point.parameters
        same = (given.get("recipe"), given.get("optimizer"), given.get("sequence")) == ("amp", "adamw", study.sequence)
        shape = shape_of(point, architecture)
        batch = given.get("batch")
        if same and point.dtype == "bf16" and point.step_s and shape is not None and isinstance(batch, int):
            width, depth, vocabulary = shape
            found[Size(width, depth, batch), vocabulary] = point
    return found


def shape_of(point: TrainPoint, architecture: FindArchitecture) -> tuple[int, int, int] | None:
    """(width, depth, vocabulary) of the study's model that a step was measured on; None: it was another model."""
    given = point.parameters
    if not str(given.get("model")).startswith("qwen3-study-"):
        return None
    width, depth, vocabulary = (given.get(name) for name in ("width", "depth", "vocabulary"))
    if isinstance(width, int) and isinstance(depth, int) and isinstance(vocabulary, int):
        return width, depth, vocabulary
    try:
        model = architecture(str(given["model"]))
    except UserError:
        return None
    return model.width, model.layers, model.vocabulary


def _point(
    study: Study, size: Size, model: Architecture, answer: Answer | UserError, usd_per_h: float | None, step: TrainPoint | None
) -> StudyPoint:
    tokens = size.sequences * study.sequence
    bare = StudyPoint(
        parameters=model.total,
        non_embedding_parameters=model.total - model.embedding,
        width=size.width,
        depth=size.depth,
        sequences=size.sequences,
        tokens_per_step=tokens,
    )
    if isinstance(answer, UserError):
        return msgspec.structs.replace(bare, reason=str(answer))
    memory = answer.memory_bytes
    bare = msgspec.structs.replace(bare, memory_bytes=memory.total if memory else None)
    if step is None and (not answer.fits or answer.tokens_per_s is None):
        return msgspec.structs.replace(bare, reason=answer.reason or "its speed is not known")
    if answer.flop_per_token is None or answer.tokens_per_s is None or answer.step_s is None:
        return msgspec.structs.replace(bare, reason=answer.reason or "its speed is not known")
    flop = answer.flop_per_token * tokens
    speed, seconds, mfu = scaled(answer.tokens_per_s, answer.flop_per_token), answer.step_s, answer.mfu
    if step is not None and step.step_s:
        rate = step.flop_per_s
        low, high = step.step_s * rate.value / rate.high, step.step_s * rate.value / rate.low
        seconds = Figure(step.step_s, low, high, "measured")
        before, speed = speed, Figure(flop / step.step_s, flop / high, flop / low, "measured")
        mfu = scaled(speed, mfu.value / before.value) if mfu else None
    held = memory.total.value - memory.overhead if memory else 0.0
    return msgspec.structs.replace(
        bare,
        flop_per_s=speed,
        flop_per_usd=scaled(speed, SECONDS_PER_HOUR / usd_per_h) if usd_per_h else None,
        step_s=seconds,
        mfu=mfu,
        flop_per_byte=flop / (2 * held) if held > 0 else None,
        bottleneck=answer.bottleneck,
    )


def _curve(gpu: Gpu, price: Price, points: list[StudyPoint], *, here: bool) -> StudyCurve:
    bases = [point.flop_per_s.basis for point in points if point.flop_per_s]
    return StudyCurve(
        gpu=gpu.name,
        basis=min(bases, key=WEAKEST.index, default="spec"),
        here=here,
        measured_points=bases.count("measured"),
        usd_per_gpu_h=price.usd_per_gpu_h,
        price=price.text,
        price_as_of=price.as_of,
        price_source=price.source,
        points=points,
    )


def _notes(curves: Sequence[StudyCurve], other_shapes: int) -> list[str]:
    unpriced = [curve for curve in curves if curve.usd_per_gpu_h is None]
    notes = [f"{curve.gpu} has no FLOP per dollar: {curve.price}." for curve in unpriced]
    if len(unpriced) > FEW:
        notes = [f"No price, so no FLOP per dollar: {', '.join(curve.gpu for curve in unpriced)}."]
    if not any(curve.measured_points for curve in curves):
        notes.append("Nothing of this was measured here: `gpu-planner bench --suite study` measures this machine's part of it.")
    if other_shapes:
        plural = "s were" if other_shapes > 1 else " was"
        notes.append(
            f"{other_shapes} training step{plural} measured here at other sizes, vocabularies or depths, and only calibrate the predictions."
        )
    return notes
