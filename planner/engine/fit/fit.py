"""Evaluation of every model of a catalogue on given GPUs, and the best layout of each in each weight precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

import planner
from planner.engine.answers.fit import Fit, FitCounts, FitRow, Order
from planner.engine.fit.candidates import Pool
from planner.engine.fit.ranking import ranked
from planner.engine.fit.rows import rows_of_kind, unsupported
from planner.engine.fit.variants import is_load_open
from planner.engine.performance.operators.chip import FindChip
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Architecture, Models
from planner.workload.tasks import Request

READER_TOKENS_PER_S = 10.0
"""Tokens a second that a user is given at least: twice the pace at which people read, which is the 200 ms a token that MLPerf Inference allows
Llama 2 70B (https://mlcommons.org/2024/03/mlperf-llama2-70b/, 2024-03-27)."""


def fit_models(
    base: Request,
    gpu: Gpu,
    gpus: int,
    catalogue: Mapping[str, Models],
    find_chip: FindChip,
    *,
    order: Order = "size",
    given: Mapping[str, object] | None = None,
    each_tokens_per_s: float = 0.0,
    left_out: Sequence[str] = (),
) -> Fit:
    """Models of `catalogue` (name -> architectures) that run on `gpus` of `gpu` with the settings of `base`; the model of `base` is ignored.

    `each_tokens_per_s`: what each user of a service gets at least (0: anything); not asked for where `base` has a load or a limit of latency.
    `left_out`: names of models that are not made for the task. Raises `UserError` where the settings suit no model at all.
    """
    told = not base.targets.latency_limits() and is_load_open(base) and not base.disaggregated and each_tokens_per_s > 0
    if told:
        base = msgspec.structs.replace(base, targets=msgspec.structs.replace(base.targets, p95_tpot_s=1 / each_tokens_per_s))
    pool = Pool(gpu, gpus, catalogue, find_chip)
    found = pool.candidates(base)
    rows, fit = list[FitRow](), 0
    for kind, candidates in found.by_kind.items():
        new, fitting = rows_of_kind(kind, candidates, pool)
        rows += new
        fit += fitting
    if not rows:
        problems = [error for error in found.refused.values() if isinstance(error, UserError)]
        if problems and len(problems) == len(found.refused):
            raise _commonest(problems)
    answered = {(row.model, row.weight_dtype, row.method) for row in rows}
    rows += [unsupported(key, refusal) for key, refusal in found.refused.items() if key not in answered]
    return Fit(
        gpu=gpu.name,
        gpus=gpus,
        task=dict(given or {"task": base.task}),
        each_tokens_per_s=each_tokens_per_s if told else None,
        order=order,
        rows=ranked(rows, order),
        counts=FitCounts(
            models=len(catalogue),
            models_that_fit=len({row.model for row in rows if row.fits}),
            considered=found.considered,
            fit=fit,
        ),
        left_out=list(left_out),
        version=planner.__version__,
    )


def is_made_for(task: str, model: Architecture) -> bool:
    """True if `model` is one to do `task` with: a prompt is answered by decoders, not by encoders (BERT) or what stands behind one (T5, Whisper)."""
    return task not in {"serve", "generate"} or not (model.encoder or model.source)


def _commonest(errors: Sequence[UserError]) -> UserError:
    """Error that most models got."""
    keys = Counter(error.problems[0].key for error in errors)
    return max(errors, key=lambda error: keys[error.problems[0].key])
