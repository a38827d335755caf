"""Results beside what is predicted of them: every result of a file as a request, all of them estimated together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from planner.engine.answers.answer import Answer
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.observe.results.explain import Explanation, Verdict, explanations, verdicts
from planner.observe.results.request import Finders, request_of
from planner.observe.results.result import Result
from planner.workload.published.values import Quantity
from planner.workload.tasks import Request


class Estimates(Protocol):
    """The part of a planning session that a comparison needs."""

    def estimate(self, requests: Sequence[Request]) -> list[Answer | UserError]:
        """One answer a request, in order."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One result with its prediction and what would explain the difference."""

    title: str
    tool: str
    source: str
    """Name of its file, without its folder and ending."""
    request: Request
    seen: dict[Quantity, float]
    verdicts: tuple[Verdict, ...]
    why: tuple[Explanation, ...]
    refused: str
    """Reason why nothing is predicted; empty where something is."""
    taken_at: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """One file's results with the settings that were given beside it."""

    where: str
    name: str
    results: Sequence[Result]
    settings: Mapping[str, Any]


def compare(session: Estimates, given: Given, find_gpu: Callable[[str], Gpu | None], models: Iterable[str]) -> list[Compared]:
    """Every result of a file, compared; raises `UserError` with each setting that is missing or wrong, once."""
    find = Finders(find_gpu, frozenset(models))
    requests, problems = list[Request](), list[Problem]()
    for one in given.results:
        try:
            requests.append(request_of(one, given.settings, given.where, find))
        except UserError as wrong:
            problems += wrong.problems
    if problems:
        raise UserError(dict.fromkeys(problems))
    answers = session.estimate(requests)
    return [
        _compared(session, given, result, request, answer)
        for result, request, answer in zip(given.results, requests, answers, strict=True)
    ]


def _compared(session: Estimates, given: Given, result: Result, request: Request, answer: Answer | UserError) -> Compared:
    found = verdicts(answer, result.seen)
    stated = frozenset(given.settings) | frozenset(result.settings)
    refused = str(answer) if isinstance(answer, UserError) else ""
    return Compared(
        title=" · ".join(filter(None, (given.name, result.tool, result.name))),
        tool=result.tool,
        source=given.name,
        request=request,
        seen=dict(result.seen),
        verdicts=tuple(found),
        why=() if refused else tuple(explanations(request, found, stated, session.estimate)),
        refused=refused,
        taken_at=result.taken_at,
        notes=result.notes,
    )
