"""Built-in study of compute per dollar: one training step over model sizes (or batch sizes) on several GPUs.

A Qwen3 decoder with AdamW under autocast to bfloat16, random tokens; heads of 128, half as many key heads, a feed-forward
of three widths, embedding and head tied. Along the axis of width the model grows at 4 × 256 tokens per step; along the axis of
batch the model stays and the tokens grow. Sentences compare it with a published study.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure, weakest
from planner.engine.answers.study import FEW, StudyAnswer, StudyCurve, StudyPoint, range_text, size_of, size_text
from planner.engine.estimate.estimate import estimate
from planner.engine.study.crossovers import leaders, leading_price, pairs_of
from planner.engine.study.inputs import StudyInputs, measured_sizes
from planner.engine.study.price_sets import Price, price_set
from planner.engine.study.sizes import DEFAULT_PRICES, MOST_PARAMETERS, Size, Study, sizes_of
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import TrainPoint
from planner.units import SECONDS_PER_HOUR, count_text, usd_text
from planner.workload.architecture import Architecture, Models
from planner.workload.studies import PublishedLead, PublishedStudy, study_config
from planner.workload.tasks import Request


def run_study(
    study: Study, inputs: StudyInputs, *, gpus: Sequence[str] = (), prices: str = "", given: Mapping[str, float] | None = None
) -> StudyAnswer:
    """Study on `gpus` ('all': the whole catalogue); if empty, on the usual ones and this machine's.

    `prices`: the name of a price set; `given`: USD per hour by GPU, which override it. Raises `UserError`.
    """
    named = tuple((inputs.catalogue.find(name).name, usd) for name, usd in (given or {}).items())
    chosen = price_set(prices or DEFAULT_PRICES, inputs.offers, named, inputs.published)
    by_name = {gpu.name: gpu for gpu in inputs.named(gpus) or inputs.usual(study, chosen)}
    sizes = sizes_of(study)
    models = {size: inputs.architecture(study_config(size.width, size.depth, study.vocabulary)) for size in sizes}
    sizes = [size for size in sizes if models[size].total <= MOST_PARAMETERS] or sizes[:1]
    requests = [_request(study, size, gpu) for gpu in by_name.values() for size in sizes]
    answers = iter(estimate(requests, by_name.__getitem__, lambda request: Models(inputs.architecture(request.model)), inputs.chip))
    here = {device.name for device in inputs.machine}
    curves, other_shapes = [], 0
    for gpu in by_name.values():
        steps = measured_sizes(inputs.measured.get(gpu.name, ()), study, inputs.architecture)
        price = chosen.of(gpu)
        points = [
            _point(study, size, models[size], next(answers), price.usd_per_gpu_h, steps.get((size, study.vocabulary)))
            for size in sizes
        ]
        other_shapes += len(steps) - sum((size, study.vocabulary) in steps for size in sizes)
        curves.append(_curve(gpu, price, points, here=gpu.name in here))
    answer = _answer(study, chosen.name, curves, _notes(curves, other_shapes))
    return msgspec.structs.replace(answer, published=compared(answer, inputs.published))


def _answer(study: Study, prices: str, curves: Sequence[StudyCurve], notes: list[str]) -> StudyAnswer:
    leads, crossovers = leaders(study, curves)
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
        notes=notes,
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
        optimizer="adamw-fused",
        checkpointing="none",
        compile=False,
        micro_batch=size.sequences,
        global_batch=size.sequences,
        sequence=study.sequence,
    )


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
    speed, seconds, mfu = answer.tokens_per_s.scaled(answer.flop_per_token), answer.step_s, answer.mfu
    if step is not None and step.step_s:
        rate = step.flop_per_s
        low, high = step.step_s * rate.value / rate.high, step.step_s * rate.value / rate.low
        seconds = Figure(step.step_s, low, high, "measured")
        before, speed = speed, Figure(flop / step.step_s, flop / high, flop / low, "measured")
        mfu = speed.scaled(mfu.value / before.value) if mfu else None
    held = memory.total.value - memory.overhead if memory else 0.0
    return msgspec.structs.replace(
        bare,
        flop_per_s=speed,
        flop_per_usd=speed.scaled(SECONDS_PER_HOUR / usd_per_h) if usd_per_h else None,
        step_s=seconds,
        mfu=mfu,
        flop_per_byte=flop / (2 * held) if held > 0 else None,
        bottleneck=answer.bottleneck,
    )


def _curve(gpu: Gpu, price: Price, points: list[StudyPoint], *, here: bool) -> StudyCurve:
    bases = [point.flop_per_s.basis for point in points if point.flop_per_s]
    return StudyCurve(
        gpu=gpu.name,
        basis=weakest(*bases),
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


def compared(answer: StudyAnswer, published: PublishedStudy) -> list[str]:
    """Findings of the published study, and where this one agrees; empty if they cannot be compared."""
    if answer.axis != "width" or not answer.leads or answer.curves[0].points[0].tokens_per_step != published.tokens_per_step:
        return []
    lines = [f"Published ({published.source}; {published.prices}): {_finding(published)}."]
    lines += _changes(answer, published.lead)
    for rare in published.rarely:
        lines += [text for curve in answer.curves if curve.gpu in rare.parts and (text := _rarely(answer, curve))]
    return lines


def _finding(published: PublishedStudy) -> str:
    parts = []
    for lead in published.lead:
        low, high = lead.from_parameters, lead.to_parameters
        where = f"below {count_text(high)}" if high and not low else f"above {count_text(low)}" if low and not high else ""
        parts.append(f"{lead.gpu} best {where or f'from {count_text(low)} to {count_text(high)}'} parameters")
    return ", ".join([*parts, *(f"{rare.gpu} nearly never" for rare in published.rarely)])


def _changes(answer: StudyAnswer, leads: Sequence[PublishedLead]) -> Iterator[str]:
    """Each published change of the best GPU, with the crossover of the same two GPUs here."""
    for before, after in pairwise(leads):
        left = [curve.gpu for curve in answer.curves if curve.gpu in before.parts]
        right = [curve.gpu for curve in answer.curves if curve.gpu in after.parts]
        if not left or not right or before.to_parameters is None:
            continue
        found = [one for one in answer.pair_crossovers if one.left in left and one.right in right]
        if not found:
            yield f"Here {right[0]} and {left[0]} do not cross in this direction at the sizes studied."
        for one in found:
            low, high = (0.0 if one.open_low else one.parameters.low), (float("inf") if one.open_high else one.parameters.high)
            agrees = "within its range" if low <= before.to_parameters <= high else "outside its range"
            size = size_text(size_of(one, answer.axis).value, answer.axis)
            published = count_text(before.to_parameters)
            yield f"Here {one.right} passes {one.left} at {size} ({range_text(one, answer.axis)}): {published} is {agrees}."


def _rarely(answer: StudyAnswer, curve: StudyCurve) -> str:
    """Sentence on a GPU that leads here but hardly ever in the published study; '' if it does not lead."""
    leads = [lead for lead in answer.leads if lead.gpu == curve.gpu]
    if not leads or curve.usd_per_gpu_h is None or curve.leads_below_usd_per_gpu_h is None:
        return ""
    stretches = " and ".join(f"{count_text(lead.from_parameters)} to {count_text(lead.to_parameters)}" for lead in leads)
    return (
        f"Here {curve.gpu} leads from {stretches} at {usd_text(curve.usd_per_gpu_h)} $/h; "
        f"from {usd_text(curve.leads_below_usd_per_gpu_h)} $/h on it would lead nowhere."
    )
