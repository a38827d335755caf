"""Effect of a calibration: plans for a fixed set of workloads on one part, before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from planner.engine.estimate.calibration_check import CalibrationCheck

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.hardware.catalogue.gpus import Gpu
    from planner.session import Session
    from planner.workload.tasks import Workload

WORKLOADS = (
    "qwen3-8b-single-user-chat",
    "qwen3-32b-batch-job",
    "llama-3.2-3b-offline",
    "llama-3.2-3b-real-time",
    "llama-3.1-8b-lora",
    "llama-3.1-8b-full-finetune",
    "qwen3-study-1024-tokens",
    "qwen3-study-small",
)
"""Presets that a single machine can run, of every task."""
ANY_OTHER = "T4"
"""A part to plan beside a processor, which no catalogue lists."""


class ChangedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of one workload's first row; None if nothing fits or nothing is known."""

    workload: str
    before: float | None
    after: float | None


class MeasuringEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of measuring a part."""

    gpu: str
    plans: list[ChangedPlan]
    check: CalibrationCheck


def change_of(session: Session, gpu: Gpu) -> MeasuringEffect:
    """Plan the fixed set on `gpu` with and without measurements."""
    plans = []
    known = gpu.name in {one.name for one in session.gpus.all}
    for name in WORKLOADS:
        workload = session.presets.load(name).workload
        workload = msgspec.structs.replace(workload, gpus_considered=[gpu.name if known else ANY_OTHER], max_gpus=1)
        before, after = (_tokens_per_s(session, gpu, workload, basis) for basis in ("spec", "measured"))
        plans.append(ChangedPlan(workload=name, before=before, after=after))
    return MeasuringEffect(gpu=gpu.name, plans=plans, check=session.ceilings_cache.check(gpu))


def _tokens_per_s(session: Session, gpu: Gpu, workload: Workload, basis: BasisChoice) -> float | None:
    """Figure of the best row on that part, whether or not it meets the targets; None if it does not fit."""
    answers = (row.answer for row in session.plan(workload, basis=basis, levers=False).rows if row.gpu == gpu.name)
    rates = (answer.tokens_per_s or answer.output_tokens_per_s or answer.decode_tokens_per_s for answer in answers if answer.fits)
    return next((rate.value for rate in rates if rate), None)
