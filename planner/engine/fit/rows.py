"""Rows of the answer: the best candidate of each model in each precision, evaluated as `estimate` does."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.answers.answer import Answer
from planner.engine.answers.fit import FitRow
from planner.engine.columns import Floats, Rows
from planner.engine.estimate.estimate import Prepared, answers_of_kind, candidates_of, evaluated_requests
from planner.engine.estimate.service_load import in_flight
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.evaluate.probability import probability_fits
from planner.engine.fit.candidates import Candidate, Competition, Pool, rows_of
from planner.engine.fit.load import lateness, longest_context, steady_load
from planner.engine.fit.ranking import precision_bits, verdict_of
from planner.engine.fit.variants import is_load_open
from planner.errors import UserError
from planner.workload.tasks import Request


def rows_of_kind(kind: str, candidates: Sequence[Candidate], pool: Pool) -> tuple[list[FitRow], int]:
    """(the best candidate of each row, evaluated as `estimate` does; how many candidates fit)."""
    request = candidates[0].variant.request
    screened = _screened(kind, [one.prepared for one in candidates])
    contexts = _contexts(screened)
    loaded = steady_load(screened, request) if kind == "serve" and is_load_open(request) else screened
    competing = rows_of(candidates)
    order = _best_first(loaded, request)
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    best = [min(numbers, key=lambda number: place[number]) for numbers in competing]
    chosen = _at_load(candidates, best, screened, loaded, pool)
    answers = _answers(kind, chosen)
    if loaded is not screened:
        _lighten(chosen, answers, pool)
    items = [one.prepared for one in chosen]
    alone = _alone_tokens_per_s(items) if kind == "serve" else np.full(len(items), np.nan)
    rows, reach = [], np.nan_to_num(contexts, nan=-1.0)
    for row, (one, number, answer, others) in enumerate(zip(chosen, best, answers, competing, strict=True)):
        longest = max(others, key=lambda other: reach[other])
        found = _row(one, answer, contexts[number], contexts[longest], candidates[longest].prepared)
        fast = float(alone[row]) if answer.fits and np.isfinite(alone[row]) else None
        rows.append(msgspec.structs.replace(found, alone_tokens_per_s=fast))
    return rows, int(np.count_nonzero(screened.memory.fits))


def _screened(kind: str, prepared: Sequence[Prepared]) -> Evaluated:
    """Candidates by closed formulas alone."""
    candidates = candidates_of(prepared)
    if kind != "serve":
        return evaluated_requests(kind, prepared)
    candidates, table = in_flight(candidates)
    return evaluate(candidates, table=table)


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
        late = lateness(e.serve, request.targets, e.table.rows)
        if request.request_rate_per_s:
            late = np.maximum(late, request.request_rate_per_s / speed)
    sure = probability_fits(e) >= request.confidence
    misses = np.where(late > 1, late, 0.0)
    need = np.where(e.memory.fits, 0.0, e.memory.total / e.memory.usable)
    return np.lexsort((-speed, misses, ~sure, need))


def _at_load(
    candidates: Sequence[Candidate], best: Sequence[int], screened: Evaluated, loaded: Evaluated, pool: Pool
) -> list[Candidate]:
    """Candidates `best`, with the requests at once of `loaded` where they are fewer than in `screened`."""
    if loaded is screened:
        return [candidates[number] for number in best]
    wanted, most, replicas = (
        np.broadcast_to(column, screened.table.rows).tolist()
        for column in (loaded.table.layout.sequences, screened.table.layout.sequences, screened.table.layout.dp)
    )
    return [
        pool.with_requests(candidates[number], round(wanted[number] * replicas[number]))
        if wanted[number] < most[number]
        else candidates[number]
        for number in best
    ]


def _answers(kind: str, candidates: Sequence[Candidate]) -> list[Answer]:
    items = [one.prepared for one in candidates]
    return list(answers_of_kind(kind, items, evaluated_requests(kind, items))) if items else []


def _lighten(chosen: list[Candidate], answers: list[Answer], pool: Pool) -> None:
    """Halve the requests at once where the simulation of requests of several lengths misses a limit that closed formulas keep, until it keeps it."""
    late: Sequence[int] = range(len(chosen))
    while late := [number for number in late if _can_be_lighter(chosen[number], answers[number])]:
        for number in late:
            layout = answers[number].layout
            assert layout is not None
            assert layout.batch is not None
            chosen[number] = pool.with_requests(chosen[number], layout.batch // 2 * layout.dp)
        for number, answer in zip(late, _answers("serve", [chosen[number] for number in late]), strict=True):
            answers[number] = answer


def _can_be_lighter(one: Candidate, answer: Answer) -> bool:
    batch = answer.layout.batch if answer.layout else None
    return bool(batch and batch > 1) and verdict_of(answer, one.variant.request, 1.0)[0] == "misses-target"


def _alone_tokens_per_s(prepared: Sequence[Prepared]) -> Floats:
    """Tokens a second of one request alone on each replica; NaN if it answers with a single token."""
    candidates = candidates_of(prepared)
    single = replace(candidates, layout=replace(candidates.layout, sequences=np.ones(len(prepared))))
    serve = evaluate(single).serve
    assert serve is not None
    seconds = np.broadcast_to(serve.tpot_s.mean, len(prepared))
    return np.where(seconds > 0, 1 / np.where(seconds > 0, seconds, 1.0), np.nan)


def _row(one: Candidate, answer: Answer, context: float, longest: float, where: Prepared) -> FitRow:
    request = one.variant.request
    verdict, why = verdict_of(answer, request, answer.probability_fits or 0.0)
    train = answer.step_s is not None
    layout, spread = where.layout, answer.layout
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
        concurrency=spread.micro_batch if train and spread else answer.max_concurrency,
        at_once=spread.batch * spread.dp if answer.fits and spread and spread.batch else None,
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


def unsupported(key: Competition, found: Answer | UserError) -> FitRow:
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
