"""Comparison of predictions with measurements: pairs of values, and what they say about the error and the ranges.

error      predicted ÷ measured − 1, of what was measured (a time is compared as a time, a rate as a rate)
coverage   share of the measured values inside low–high width      high ÷ low, the median over the values
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.job.engines import find_engine
from planner.workload.tasks import Request, trains

if TYPE_CHECKING:
    from planner.workload.published.experiments import Experiment, PublishedValue

KINDS = {
    "step_s": "training speed",
    "tokens_per_s": "training speed",
    "tokens_per_s_per_gpu": "training speed",
    "prefill_s": "prefill",
    "decode_tokens_per_s": "decode",
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "request_s": "request time",
    "fits": "fits",
}
KEPT_BY_DRIVER = 0.011
"""Memory that NVML counts as used but no process has, relative to what a job may use: an A100 of 81,920 MiB gives PyTorch 79.15 GiB and
keeps 870 MiB (`used` of nvmlMemory_t includes what nvmlMemory_v2_t calls `reserved`)."""
LEAST_OF_A_SOURCE = 3
"""Minimum number of values of a source for it to be called bad."""
MOST_NAMED = 10
"""Number of the worst groups that are named."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value and its prediction; `predicted` None: not answered."""

    kind: str
    source: str
    framework: str
    experiment: str
    line: int = 0
    """Line of the file it was published in."""
    gpu: str
    model: str = ""
    gpus: int = 1
    measured: float
    predicted: float | None
    low: float | None
    high: float | None
    part_bytes: float = 0.0
    """Part of the predicted memory that the measurement does not count."""
    known_bytes: float = 0.0
    """Weights, states and cache of the predicted memory, below which no range goes."""

    @property
    def error(self) -> float | None:
        """Predicted ÷ measured − 1."""
        return self.predicted / self.measured - 1 if self.predicted is not None and self.measured else None

    @property
    def inside(self) -> bool | None:
        """True if the range contains the measured value; None without a range."""
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Predictions of one kind, of all sources or of one."""

    kind: str
    source: str | None = None
    framework: str | None = None
    n: int
    """Number of measured values."""
    answered: int
    """Number of measured values that were predicted."""
    median_error: float | None = None
    """Median of |predicted ÷ measured − 1|."""
    p90_error: float | None = None
    signed_error: float | None = None
    """Median of predicted ÷ measured − 1."""
    coverage: float | None = None
    width: float | None = None
    right: int | None = None
    """Number of correct predictions of `fits`."""
    wrongly_fit: int | None = None
    """Predictions of `fits` for jobs that did not fit; worse than the opposite error."""
    reason: str | None = None
    """Known reason for the error; None if there is none."""


def compared(experiments: Sequence[Experiment], answers: Sequence[Answer | Exception]) -> list[Comparison]:
    """Every published value with the answer of its experiment."""
    return [
        _comparison(experiment, value, answer)
        for experiment, answer in zip(experiments, answers, strict=True)
        for value in experiment.values
    ]


def _comparison(experiment: Experiment, value: PublishedValue, answer: Answer | Exception) -> Comparison:
    predicted = predicted_of(value.quantity, answer, experiment.request) if isinstance(answer, Answer) else Predicted(None)
    figure = predicted.figure
    return Comparison(
        kind=kind_of(value.quantity, experiment.request),
        source=experiment.source,
        framework=experiment.framework,
        experiment=experiment.name,
        line=value.line,
        gpu=experiment.gpu,
        model=experiment.model,
        gpus=experiment.request.gpus or 1,
        measured=value.value,
        predicted=figure.value if figure else None,
        low=figure.low if figure and value.quantity != "fits" else None,
        high=figure.high if figure and value.quantity != "fits" else None,
        part_bytes=predicted.part_bytes,
        known_bytes=predicted.known_bytes,
    )


def kind_of(quantity: str, request: Request) -> str:
    """Kind of metric of a quantity of a request."""
    train = trains(request.task)
    if quantity.endswith("_bytes"):
        return "training memory" if train else "inference memory"
    return KINDS.get(quantity) or ("serving throughput" if request.task == "serve" else "batch throughput")


class Predicted(NamedTuple):
    """Predicted figure of a quantity; bytes as in `Comparison`."""

    figure: Figure | None
    part_bytes: float = 0.0
    known_bytes: float = 0.0


def predicted_of(quantity: str, answer: Answer, request: Request) -> Predicted:
    """Figure of `answer` that a measured `quantity` is compared with."""
    if quantity == "fits":
        return Predicted(Figure(float(answer.fits), 0.0, 1.0, "spec"))
    if quantity.endswith("_bytes"):
        return _memory(quantity, answer, request)
    found = getattr(answer, quantity)
    return Predicted(found if found is None or isinstance(found, Figure) else found.mean)


def _memory(quantity: str, answer: Answer, request: Request) -> Predicted:
    """Memory comparable with `quantity`: device: all; used: and the driver's; reserved: no context or communicators; allocated: no overhead."""
    memory = answer.memory_bytes
    if memory is None:
        return Predicted(None)
    apart = 0.0
    if quantity == "used_bytes":
        apart = -KEPT_BY_DRIVER * memory.capacity
    elif quantity != "device_bytes":
        apart = memory.overhead
    if quantity == "reserved_bytes":
        engine = find_engine(request.engine or str(answer.assumed["engine"]))
        alone = answer.gpus == 1
        apart = min(apart, engine.context_bytes + (0.0 if alone else engine.communicator_bytes))
    known = memory.weights + memory.optimizer + memory.kv_cache
    total = memory.total
    return Predicted(Figure(total.value - apart, max(total.low - apart, 0.0), total.high - apart, total.basis), apart, known)


def score(kind: str, group: Sequence[Comparison], *, source: str | None = None, framework: str | None = None) -> Score:
    """Statistics of one group of comparisons of one kind."""
    answered = [one for one in group if one.predicted is not None]
    empty = Score(kind=kind, source=source, framework=framework, n=len(group), answered=len(answered))
    if kind == "fits":
        wrong = sum(one.predicted == 1 and one.measured == 0 for one in answered)
        right = sum(one.predicted == one.measured for one in answered)
        return msgspec.structs.replace(empty, right=right, wrongly_fit=wrong)
    errors = sorted(error for one in answered if (error := one.error) is not None)
    ranged = [one for one in answered if one.inside is not None]
    return msgspec.structs.replace(
        empty,
        median_error=quantile(sorted(map(abs, errors)), 0.5),
        p90_error=quantile(sorted(map(abs, errors)), 0.9),
        signed_error=quantile(errors, 0.5),
        coverage=sum(bool(one.inside) for one in ranged) / len(ranged) if ranged else None,
        width=quantile(sorted(one.high / one.low for one in ranged if one.low and one.high), 0.5),
    )


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Quantile of values in ascending order, interpolated linearly; None for an empty sequence."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def by_kind(comparisons: Iterable[Comparison]) -> list[Score]:
    """One score per kind, in alphabetical order."""
    return [score(key[0], group) for key, group in _grouped(comparisons, lambda one: (one.kind,))]


def by_source(comparisons: Iterable[Comparison]) -> list[Score]:
    """One score per kind and source."""
    groups = _grouped(comparisons, lambda one: (one.kind, one.source))
    return [score(key[0], group, source=key[1]) for key, group in groups]


def worst(comparisons: Iterable[Comparison]) -> list[Score]:
    """Kinds, sources and frameworks with the largest median error."""
    groups = _grouped(comparisons, lambda one: (one.kind, one.source, one.framework))
    scores = [score(key[0], group, source=key[1], framework=key[2]) for key, group in groups if len(group) >= LEAST_OF_A_SOURCE]
    return sorted((one for one in scores if one.median_error is not None), key=lambda one: -(one.median_error or 0.0))[:MOST_NAMED]


def _grouped(
    comparisons: Iterable[Comparison], key: Callable[[Comparison], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Comparison]]]:
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault(key(one), []).append(one)
    return sorted(groups.items())
