"""Evaluation of every model of a catalogue on given GPUs, and the best layout of each in each weight precision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.fit import Fit, FitCounts, FitRow
from planner.engine.columns import Floats, Rows
from planner.engine.estimate.estimate import (
    Prepared,
    answered,
    candidates_of,
    evaluated_requests,
    job_of_request,
    laid_out,
    prepare,
)
from planner.engine.estimate.service_load import in_flight
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.probability import probability_fits
from planner.engine.fit.longest import longest_context
from planner.engine.fit.ranking import Order, precision_bits, ranked, verdict_of
from planner.engine.fit.variants import Variant, is_load_open, variants_of
from planner.engine.job.context_length import check_context
from planner.engine.job.job import Job
from planner.engine.performance.operators.chip import FindChip
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.workload.architecture import Models
from planner.workload.tasks import Request, trains

Competition = tuple[str, str, str]
"""Model, weight precision and training method: the candidates that compete for one row."""

DEGREES = ("gpus", "tp", "pp", "dp")
"""Keys of a request that belong to its layout, not to its job."""


class _Candidate(msgspec.Struct, frozen=True):
    variant: Variant
    prepared: Prepared

    @property
    def key(self) -> Competition:
        """The row it competes for."""
        return str(self.variant.request.model), self.variant.weight_dtype, self.variant.method


class _Candidates(NamedTuple):
    """Candidates that can be evaluated, by kind of task; why the others cannot; and how many there are in all."""

    by_kind: Mapping[str, Sequence[_Candidate]]
    refused: Mapping[Competition, Answer | UserError]
    considered: int

    def of(self, keys: Collection[Competition]) -> dict[str, list[_Candidate]]:
        """Those that compete for one of the rows `keys`, by kind of task."""
        chosen = {kind: [one for one in candidates if one.key in keys] for kind, candidates in self.by_kind.items()}
        return {kind: candidates for kind, candidates in chosen.items() if candidates}


def fit_models(
    base: Request,
    gpu: Gpu,
    gpus: int,
    catalogue: Mapping[str, Models],
    find_chip: FindChip,
    *,
    order: Order = "size",
    given: Mapping[str, object] | None = None,
) -> Fit:
    """Models of `catalogue` (name -> architectures) that run on `gpus` of `gpu` with the settings of `base`; the model of `base` is ignored.

    Raises `UserError` where the settings suit no model at all.
    """
    limited = bool(base.targets.latency_limits())
    found = _candidates(base, gpu, gpus, catalogue, find_chip, by_load=limited)
    rows, fit = list[FitRow](), 0
    for kind, candidates in found.by_kind.items():
        new, fitting = _rows_of_kind(kind, candidates)
        rows += new
        fit += fitting
    if is_load_open(base) and not limited:
        unsure = {_competition(row) for row in rows if row.verdict == "may-not-fit"}
        names = {model for model, _, _ in unsure}
        tried = {name: models for name, models in catalogue.items() if name in names}
        lighter = _candidates(base, gpu, gpus, tried, find_chip, by_load=True)
        rows = _with_fewer_requests(rows, lighter.of(unsure))
    if not rows:
        problems = [error for error in found.refused.values() if isinstance(error, UserError)]
        if problems and len(problems) == len(found.refused):
            raise _commonest(problems)
    answered = {_competition(row) for row in rows}
    rows += [_unsupported(key, refusal) for key, refusal in found.refused.items() if key not in answered]
    that_fit = len({row.model for row in rows if row.fits})
    return Fit(
        gpu=gpu.name,
        gpus=gpus,
        task=dict(given or {"task": base.task}),
        rows=ranked(rows, order),
        counts=FitCounts(models=len(catalogue), models_that_fit=that_fit, considered=found.considered, fit=fit),
        version=planner.__version__,
    )


def _candidates(
    base: Request, gpu: Gpu, gpus: int, catalogue: Mapping[str, Models], find_chip: FindChip, *, by_load: bool
) -> _Candidates:
    """The candidates of every model of `catalogue`; see `variants_of`."""
    by_kind: dict[str, list[_Candidate]] = defaultdict(list)
    refused: dict[Competition, Answer | UserError] = {}
    considered = 0
    for name, models in catalogue.items():
        before, jobs = considered, dict[tuple[object, ...], Job]()
        for variant in variants_of(msgspec.structs.replace(base, model=name), gpu, gpus, models.main, by_load=by_load):
            considered += 1
            found = _prepared(variant, gpu, models, find_chip, jobs)
            if isinstance(found, Prepared):
                by_kind[found.kind].append(_Candidate(variant, found))
            else:
                refused.setdefault((name, variant.weight_dtype, variant.method), found)
        if considered == before:
            why = f"{base.global_batch} sequences cannot be divided over {gpus} GPUs in whole micro batches."
            refused[name, base.weight_dtype or "", ""] = UserError(Problem("", "global_batch", why))
    return _Candidates(by_kind, refused, considered)


def _with_fewer_requests(rows: Sequence[FitRow], lighter: Mapping[str, Sequence[_Candidate]]) -> list[FitRow]:
    """`rows`, with the best of the `lighter` candidates (by kind) that surely fits in the place of the row it competes for."""
    sure = {
        _competition(row): row
        for kind, candidates in lighter.items()
        for row in _rows_of_kind(kind, candidates)[0]
        if row.verdict == "fits"
    }
    return [sure.get(_competition(row), row) for row in rows]


def _competition(row: FitRow) -> Competition:
    """What candidates competed for `row` by."""
    return row.model, row.weight_dtype, row.method


def _commonest(errors: Sequence[UserError]) -> UserError:
    """The error that most models got."""
    keys = Counter(error.problems[0].key for error in errors)
    return max(errors, key=lambda error: keys[error.problems[0].key])


def _prepared(
    variant: Variant, gpu: Gpu, models: Models, find_chip: FindChip, jobs: dict[tuple[object, ...], Job]
) -> Prepared | Answer | UserError:
    """`variant` as `prepare` makes it; layouts that differ in degrees alone share one of `jobs`, those of this model."""
    request = variant.request
    try:
        check_context(request, models.main)
        if trains(request.task):
            return prepare(request, gpu, models, find_chip)
        key = (variant.weight_dtype, variant.method, request.engine, request.dtype, request.concurrency)
        if (job := jobs.get(key)) is None:
            job = jobs[key] = job_of_request(request, gpu, models)
        degrees = {name: getattr(request, name) for name in DEGREES}
        workload = msgspec.structs.replace(job.workload, **degrees)
        return laid_out(msgspec.structs.replace(job, workload=workload, assumed=dict(job.assumed)), request, gpu, find_chip)
    except UserError as error:
        return error


def _rows_of_kind(kind: str, candidates: Sequence[_Candidate]) -> tuple[list[FitRow], int]:
    """(the best candidate of each row, evaluated as `estimate` does; how many candidates fit)."""
    screened = _screened(kind, [one.prepared for one in candidates])
    contexts = _contexts(screened)
    by_key: dict[Competition, list[int]] = defaultdict(list)
    for number, one in enumerate(candidates):
        by_key[one.key].append(number)
    order = _best_first(screened, candidates[0].variant.request)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    best = [min(numbers, key=lambda number: place[number]) for numbers in by_key.values()]
    chosen = [candidates[number] for number in best]
    items = [one.prepared for one in chosen]
    evaluated = evaluated_requests(kind, items)
    answers = answered(kind, items, evaluated)
    alone = _alone_tokens_per_s(items) if kind == "serve" else np.full(len(items), np.nan)
    rows, reach = [], np.nan_to_num(contexts, nan=-1.0)
    for row, (one, number, answer, others) in enumerate(zip(chosen, best, answers, by_key.values(), strict=True)):
        longest = max(others, key=lambda other: reach[other])
        found = _row(one, answer, contexts[number], contexts[longest], candidates[longest].prepared)
        fast = float(alone[row]) if answer.fits and np.isfinite(alone[row]) else None
        rows.append(msgspec.structs.replace(found, alone_tokens_per_s=fast))
    return rows, int(np.count_nonzero(screened.memory.fits))


def _alone_tokens_per_s(prepared: Sequence[Prepared]) -> Floats:
    """Tokens a second of one request alone on each replica; NaN where it answers with a single token."""
    candidates = candidates_of(prepared)
    single = replace(candidates, layout=replace(candidates.layout, sequences=np.ones(len(prepared))))
    serve = evaluate(single).serve
    assert serve is not None
    seconds = np.broadcast_to(serve.tpot_s.mean, len(prepared))
    return np.where(seconds > 0, 1 / np.where(seconds > 0, seconds, 1.0), np.nan)


def _screened(kind: str, prepared: Sequence[Prepared]) -> Evaluated:
    """Candidates by closed formulas alone."""
    candidates = candidates_of(prepared)
    return evaluate(in_flight(candidates)) if kind == "serve" else evaluated_requests(kind, prepared)


def _contexts(e: Evaluated) -> Floats:
    """Longest context of every candidate that fits; NaN of the others."""
    found, rows = np.full(e.table.rows, np.nan), np.flatnonzero(e.memory.fits)
    if rows.size:
        found[rows] = longest_context(e, rows)
    return found


def _best_first(e: Evaluated, request: Request) -> Rows:
    """Numbers of the candidates: those that surely fit, keep the limits of latency, and are fast, first."""
    if e.step is not None:
        speed, late = e.step.tokens / e.step.step_s, np.zeros(e.table.rows)
    else:
        assert e.serve is not None
        speed = e.serve.requests_per_s * e.table.layout.dp
        limits = request.targets.latency_limits()
        late = np.max([limit.of(e.serve) / limit.seconds for limit in limits], axis=0) if limits else np.zeros(e.table.rows)
        if request.request_rate_per_s:
            late = np.maximum(late, request.request_rate_per_s / speed)
        late = np.broadcast_to(late, e.table.rows)
    sure = probability_fits(e) >= request.confidence
    misses = np.where(late > 1, late, 0.0)
    need = np.where(e.memory.fits, 0.0, e.memory.total / e.memory.usable)
    return np.lexsort((-speed, misses, ~sure, need))


def _row(one: _Candidate, answer: Answer, context: float, longest: float, where: Prepared) -> FitRow:
    request = one.variant.request
    verdict, why = verdict_of(answer, request, answer.probability_fits or 0.0)
    train = answer.step_s is not None
    layout = where.layout
    degrees = (("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp))
    alone, most = (int(tokens) if np.isfinite(tokens) else None for tokens in (context, longest))
    return FitRow(
        rank=None,
        model=str(request.model),
        weight_dtype=one.variant.weight_dtype,
        method=one.variant.method,
        fits=answer.fits,
        verdict=verdict,
        why=why,
        probability_fits=answer.probability_fits,
        context_tokens=alone if answer.fits else None,
        concurrency=answer.layout.micro_batch if train and answer.layout else answer.max_concurrency,
        bits=precision_bits(one.variant.weight_dtype),
        headroom=_headroom(answer),
        positions=where.job.architecture.max_context,
        longest_context_tokens=most,
        longest_context_layout="·".join(f"{name}{degree:.0f}" for name, degree in degrees if degree > 1) or "single",
        answer=answer,
        request=_as_given(request, answer.gpus),
    )


def _headroom(answer: Answer) -> float | None:
    memory = answer.memory_bytes
    if memory is None or memory.capacity <= 0:
        return None
    kept = memory.total.value - (0.0 if answer.step_s else memory.kv_cache)
    return round(1 - kept / memory.capacity, 4)


def _as_given(request: Request, gpus: int) -> dict[str, object]:
    """`request` as a line of `estimate`."""
    stated: dict[str, object] = msgspec.to_builtins(request)
    return {key: value for key, value in stated.items() if value not in (None, [], {})} | {"gpus": gpus}


def _unsupported(key: Competition, found: Answer | UserError) -> FitRow:
    """A model that cannot run there whatever the memory."""
    model, weight_dtype, method = key
    if isinstance(found, UserError):
        reason = " ".join(problem.message for problem in found.problems)
        found = Answer(fits=False, reason=reason, bottleneck=None)
    return FitRow(
        rank=None,
        model=model,
        weight_dtype=weight_dtype,
        method=method,
        fits=False,
        verdict="not-supported",
        why=found.reason or "",
        answer=found,
    )
