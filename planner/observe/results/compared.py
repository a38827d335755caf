"""Results compared with their predictions, and unstated settings that would explain a difference.

Every result of a file is estimated as a request; each open setting is tried alone, by the engine's own estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.observe.results.request import Finders, request_of
from planner.observe.results.result import Result
from planner.workload.published.names import Quantity
from planner.workload.tasks import Request

Estimate = Callable[[Sequence[Request]], list[Answer | UserError]]
WORTH_EXPLAINING = 0.1
"""Logarithmic deviation below which no explanation is sought."""
CLOSED = 0.5
"""Share of the deviation that a change has to remove to be named."""
MOST_NAMED = 3


class ComparedValue(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value with its prediction; `predicted` is None if there is none."""

    quantity: Quantity
    seen: float
    predicted: Figure | None

    @property
    def off(self) -> float | None:
        """Error of the prediction: measured ÷ predicted − 1."""
        return self.seen / self.predicted.value - 1 if self.predicted is not None and self.predicted.value else None

    @property
    def inside(self) -> bool | None:
        """True if the range holds the measured value."""
        return None if self.predicted is None else self.predicted.low <= self.seen <= self.predicted.high


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one setting and the resulting prediction."""

    setting: str
    value: Any
    quantity: Quantity
    predicted: float
    off: float
    """Remaining error: measured ÷ predicted with the change − 1."""


def verdicts(answer: Answer | UserError, seen: Mapping[Quantity, float]) -> list[ComparedValue]:
    """Every measured value with its prediction."""
    return [ComparedValue(quantity=name, seen=value, predicted=_figure(answer, name)) for name, value in seen.items()]


def explanations(request: Request, found: Sequence[ComparedValue], stated: frozenset[str], estimate: Estimate) -> list[Explanation]:
    """Settings not in `stated` whose change removes most of the largest deviation, the best first; empty if all deviations are small."""
    worst = max((one for one in found if _gap(one) is not None), key=lambda one: abs(_gap(one) or 0.0), default=None)
    gap = _gap(worst) if worst is not None else None
    if worst is None or gap is None or abs(gap) < WORTH_EXPLAINING:
        return []
    tried = [(name, value) for name, value in _changes(request) if name not in stated]
    answers = estimate([msgspec.structs.replace(request, **{name: value}) for name, value in tried])
    named = []
    for (name, value), answer in zip(tried, answers, strict=True):
        figure = _figure(answer, worst.quantity)
        left = math.log(worst.seen / figure.value) if figure is not None and figure.value > 0 else None
        if figure is not None and left is not None and abs(left) <= (1 - CLOSED) * abs(gap):
            named.append(
                Explanation(setting=name, value=value, quantity=worst.quantity, predicted=figure.value, off=math.expm1(left))
            )
    return sorted(named, key=lambda one: abs(math.log1p(one.off)))[:MOST_NAMED]


def _changes(request: Request) -> Iterator[tuple[str, Any]]:
    """Settings that clients of a benchmark do not see, with common values, one at a time."""
    for name in ("fp8", "awq", "bf16"):
        if name not in {request.weight_dtype, request.weight_dtype or request.dtype}:
            yield "weight_dtype", name
    for name in ("fp8", "bf16"):
        if request.kv_dtype != name:
            yield "kv_dtype", name
    tokens = request.input_tokens if isinstance(request.input_tokens, int) else None
    if tokens and request.task == "serve" and request.prefix_tokens is None:
        yield from (("prefix_tokens", round(tokens * share)) for share in (0.5, 0.9))
    if (request.gpus or 1) > 1 and request.link is None:
        yield "link", "pcie"
    if request.task in {"serve", "generate"} and request.memory_fraction is None:
        yield "memory_fraction", 0.5
    if request.task == "serve" and isinstance(request.concurrency, int) and request.concurrency > 1:
        yield "concurrency", max(1, request.concurrency // 2)
    if request.gpus and request.tp == request.gpus > 1 and request.dp is None:
        yield "tp", max(1, request.gpus // 2)


def _gap(one: ComparedValue) -> float | None:
    """Logarithm of measured ÷ predicted."""
    off = one.off
    return None if off is None or off <= -1 else math.log1p(off)


def _figure(answer: Answer | UserError, quantity: Quantity) -> Figure | None:
    if isinstance(answer, UserError):
        return None
    found = getattr(answer, quantity)
    return found if found is None or isinstance(found, Figure) else found.mean


class Estimates(Protocol):
    """Part of a planning session that a comparison needs."""

    def estimate(self, requests: Sequence[Request]) -> list[Answer | UserError]:
        """One answer per request, in order."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One result with its prediction and the settings that would explain the difference."""

    title: str
    tool: str
    source: str
    """Name of its file, without its folder and ending."""
    request: Request
    seen: dict[Quantity, float]
    verdicts: tuple[ComparedValue, ...]
    why: tuple[Explanation, ...]
    refused: str
    """Reason why nothing is predicted; empty if there is a prediction."""
    taken_at: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file's results with the settings that were given with it."""

    where: str
    name: str
    results: Sequence[Result]
    settings: Mapping[str, Any]


def compare(session: Estimates, given: ResultFile, find_gpu: Callable[[str], Gpu | None], models: Iterable[str]) -> list[Compared]:
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


def _compared(session: Estimates, given: ResultFile, result: Result, request: Request, answer: Answer | UserError) -> Compared:
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
