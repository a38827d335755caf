"""Log of predictions: entries made of answers, with the request, each figure's range, and the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

import planner
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.validation import kind_of
from planner.errors import Problem, UserError
from planner.predictions.entries import Origin, Predicted, Range, Seen, identity, utc_now
from planner.session.session import Session
from planner.workload.published.spreads import OF_A_BATCH
from planner.workload.tasks import Request, Workload, trains

TRAINING = ("step_s", "tokens_per_s")
GENERATING = ("prefill_s", "ttft_s", "tpot_s", "request_s", "decode_tokens_per_s", "output_tokens_per_s")
MEMORY = "memory_bytes"
"""Figures of an answer that are kept."""
OF_SEARCH = ("title", "description", "targets", "gpus_considered", "providers", "max_gpus", "objective", "market", "confidence")
"""Keys of a workload about the search, not the work."""
DEGREES = (
    *("gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "virtual_stages"),
    *("sharding", "checkpointing", "micro_batch", "prefill_replicas"),
)


def of_row(workload: Workload, row: PlanRow) -> Predicted | None:
    """Prediction of a row of the plan for `workload`; None if it has no layout."""
    layout = row.answer.layout
    if layout is None:
        return None
    asked: dict[str, Any] = {key: getattr(workload, key) for key in msgspec.to_builtins(workload) if key not in OF_SEARCH}
    degrees = {name: degree for name in DEGREES if (degree := getattr(layout, name)) not in (None, 0)}
    if layout.batch and workload.request_rate_per_s is None and workload.task == "serve":
        asked["concurrency"] = layout.batch * layout.dp
    request = Request(**(asked | degrees | {"gpu": row.gpu}))
    return of_answer(request, row.answer, "plan", row.basis)


def of_answer(request: Request, answer: Answer, origin: Origin, basis: str) -> Predicted | None:
    """Prediction that `answer` to `request` is; None if it has no figure that could be measured."""
    found: dict[str, Figure] = {}
    for name in TRAINING if trains(request.task) else GENERATING:
        figure = getattr(answer, name)
        if figure is not None:
            found[name] = figure if isinstance(figure, Figure) else figure.mean
    if answer.memory_bytes and request.task != "serve":  # a service's engine takes its share at start
        found[MEMORY] = answer.memory_bytes.total
    figures = {name: Range(figure.value, figure.low, figure.high) for name, figure in found.items() if figure.value > 0}
    if not figures:
        return None
    kinds = {name: kind_of(name, request) for name in figures}
    if request.task != "serve":
        kinds = {name: OF_A_BATCH.get(kind, kind) for name, kind in kinds.items()}
    asked: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(request, id=None))
    return Predicted(
        id=identity(asked, figures),
        at=utc_now(),
        origin=origin,
        request=asked,
        figures=figures,
        kinds=kinds,
        basis=basis,
        version=planner.__version__,
    )


def results(predicted: Predicted, seen: Mapping[str, float], source: str) -> list[Seen]:
    """`seen` (figure -> value in SI) as results of `predicted`."""
    return [Seen(id=predicted.id, figure=name, value=value, at=utc_now(), source=source) for name, value in seen.items()]


def log_plan(session: Session, workload: Workload, plan: Plan) -> str:
    """Keep the prediction for the first row of `plan` for later comparison; a note for the user the first time, else ""."""
    said, begun = of_row(workload, plan.best) if plan.best else None, session.predictions.begun
    if said is None or not session.predictions.add(said).kept or begun:
        return ""
    return f"predictions are stored in {session.predictions.path}, to be compared with results (gpu-planner predictions)"


def predicted_and_seen(
    session: Session, request: Request, seen: Mapping[str, float], origin: Origin, source: str = ""
) -> tuple[Predicted, list[Seen]]:
    """Prediction for `request` now, and `seen` (figure of an answer -> value in SI) as its results; raises `UserError`."""
    (answer,) = session.estimate([request])
    if isinstance(answer, UserError):
        raise answer
    said = of_answer(request, answer, origin, answer.memory_bytes.total.basis if answer.memory_bytes else "spec")
    unknown = [name for name in seen if said is None or name not in said.figures]
    if said is None or unknown:
        known = ", ".join(said.figures) if said else "nothing"
        raise UserError([Problem(source, name, f"is not predicted of this; {known} is.") for name in unknown or seen])
    return said, results(said, seen, source)


def log_results(session: Session, pairs: Sequence[tuple[Predicted, Sequence[Seen]]]) -> None:
    """Keep predictions with their results, so that ranges learn from them; raises `NotStoredError`."""
    for said, seen in pairs:
        session.predictions.add(said).require()
        session.predictions.add_seen(*seen).require()
    session.refresh()
