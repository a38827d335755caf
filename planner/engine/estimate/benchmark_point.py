"""Prediction of a benchmark point before it is measured, in the unit of the point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.estimate.estimate import estimate
from planner.engine.evaluate.measured_steps import with_measured_steps
from planner.engine.performance.operators.chip import Chip, chip_of
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.ceilings.ceilings import Ceilings
from planner.hardware.ceilings.products import products_of
from planner.hardware.measurements.measurement import Measurement, Prediction
from planner.workload.architecture import Architecture, Models
from planner.workload.studies import model_of_point
from planner.workload.tasks import Request

Architectures = Callable[[str | dict[str, Any]], Architecture]
STREAMS = ("copy", "triad", "read", "gemv")
LEAN_PROMPT = 0.35
"""Host time of a layer of the benchmark's own decoder ÷ that of programs in torch that generate: 0.37 ms at 6.3 µs for a bare launch, for
166 launches (one H200 with a Xeon of 2.1 GHz, 2026-11-26)."""


def predict(point: Measurement, gpu: Gpu, ceilings: Ceilings, architecture: Architectures) -> Prediction | None:
    """Prediction for `point` with its measured value, for the store; None if either is missing."""
    figure = predicted_figure(point, gpu, ceilings, architecture) if point.value else None
    if figure is None or not point.value:
        return None
    return Prediction(
        run=point.run,
        point=point.point,
        device=point.device,
        kind=point.kind,
        predicted=figure.value,
        low=figure.low,
        high=figure.high,
        basis=figure.basis,
        measured=point.value,
        measured_at=point.taken_at,
        version=planner.__version__,
    )


def predicted_figure(point: Measurement, gpu: Gpu, ceilings: Ceilings, architecture: Architectures) -> Figure | None:
    """Prediction for `point` on `gpu` with `ceilings`; None for kinds of points without a formula."""
    if point.kind == "gemm":
        return _product(point, ceilings)
    if point.kind in STREAMS:
        warm = point.parameters.get("cache") == "warm"
        memory = ceilings.weight_bandwidth(point.dtype) if point.kind == "gemv" and point.dtype else ceilings.bandwidth_bytes_per_s
        return None if warm else Figure(memory.value, memory.low, memory.high, memory.basis)
    request = request_of(point, gpu.name)
    if request is None:
        return None
    try:
        architecture(request.model)
    except UserError:  # a model that is not in this catalogue
        return None

    def find_chip(part: Gpu, dtype: str, stored: str) -> Chip | None:
        chip = chip_of(part, ceilings, dtype, stored)
        if chip and ceilings.train_points:
            chip = with_measured_steps(chip, ceilings.train_points, architecture)
        return replace(chip, launch_s=chip.launch_s * _launches(point)) if chip else None

    (answer,) = estimate([request], lambda _: gpu, lambda given: Models(architecture(given.model)), find_chip)
    return _figure(point, answer) if isinstance(answer, Answer) else None


def request_of(point: Measurement, gpu: str) -> Request | None:
    """Point as a candidate; None if its parameters are not sufficient."""
    given = point.parameters
    try:
        model = model_of_point(given)
    except KeyError:
        return None
    fields: dict[str, Any] = {"model": model, "gpu": gpu, "gpus": 1}
    if point.kind in {"train", "train-compiled", "train-lora"}:
        fields |= {
            "task": "train",
            "engine": "torch",
            "dtype": point.dtype,
            "recipe": given.get("recipe"),
            "optimizer": "adamw-fused",
        }
        fields |= {"micro_batch": given.get("batch"), "sequence": given.get("sequence")}
        if point.kind == "train-compiled":
            fields["compile"] = True
        if point.kind == "train-lora":
            fields |= {"task": "finetune", "lora": {"rank": given.get("lora_rank"), "targets": "all-linear", "base": "bf16"}}
    elif point.kind == "prefill":
        fields |= {"task": "prefill", "engine": "torch", "dtype": point.dtype, "weight_dtype": given.get("weight_dtype")}
        fields |= {"batch": given.get("batch"), "input_tokens": given.get("input_tokens")}
    elif point.kind == "decode":
        fields |= {"task": "generate", "engine": "torch", "dtype": point.dtype, "weight_dtype": given.get("weight_dtype")}
        fields |= {"batch": given.get("batch"), "input_tokens": given.get("context"), "output_tokens": 2}
    else:
        return None
    try:
        return msgspec.convert(fields, Request)
    except msgspec.ValidationError:  # a kind of point of a later version, or one without a shape
        return None


def _launches(point: Measurement) -> float:
    """Host time of the point's launches ÷ that of the engine it stands for: a graph is launched once."""
    if point.parameters.get("graph"):
        return 0.0
    return LEAN_PROMPT if point.kind == "prefill" else 1.0


def _figure(point: Measurement, answer: Answer) -> Figure | None:
    """Answer in the unit of the point."""
    if point.kind == "decode":
        rate = answer.decode_tokens_per_s
        return rate.scaled(float(point.parameters["batch"])) if rate else None
    seconds = answer.prefill_s if point.kind == "prefill" else answer.step_s
    if seconds is None or not point.flop:
        return None
    return seconds.inverse(point.flop)


def _product(point: Measurement, ceilings: Ceilings) -> Figure | None:
    """FLOP/s by the formula; its range weighs the ranges of arithmetic and of memory by their shares of the time."""
    reached = ceilings.compute_flop_per_s.get(point.dtype or "")
    if reached is None or not point.flop or not point.value:
        return None
    memory = ceilings.bandwidth_bytes_per_s
    (product,) = products_of([point])
    error = product.error(reached.value, ceilings.kernel_latency_s.value, memory.value, ceilings.knee)
    flop_s, bytes_s = product.flop / reached.value, product.moved_bytes / memory.value
    share = flop_s / (flop_s + bytes_s)
    spread = math.hypot(share * reached.spread, (1 - share) * memory.spread)
    value = point.value * math.exp(-error)
    return Figure(value, value * math.exp(-spread), value * math.exp(spread), reached.basis)
