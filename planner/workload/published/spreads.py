"""Errors of predictions of published measurements: half widths of ranges by kind, and facts that widen them (`presets/spreads/`)."""

from __future__ import annotations

import datetime as dt  # msgspec resolves the annotations of a struct at run time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from planner.errors import Problem, UserError
from planner.paths import read_shipped

Family = Literal["training", "batch", "service", "memory"]
KINDS: Mapping[str, Family] = {
    "training speed": "training",
    "prefill": "batch",
    "decode": "batch",
    "batch throughput": "batch",
    "batch request time": "batch",
    "serving throughput": "service",
    "time to first token": "service",
    "time per output token": "service",
    "request time": "service",
    "training memory": "memory",
    "inference memory": "memory",
}
"""Kinds of figures that have a half width of their own; kinds of a family borrow from each other where sources are few."""
OF_A_BATCH = {"request time": "batch request time", "time to first token": "prefill", "time per output token": "decode"}
"""Kind that a latency counts as where one fixed batch is timed."""
ENGINE_OPEN, RELEASE_OPEN = "engine not named", "release of the engine not named"
PROGRAM_OPEN = "training program not compared with published peaks"
"""A library is named that many programs train by (PyTorch, Transformers, Megatron), or a program without published peaks."""
NOMINAL = 0.9
"""Share of the truths that a range should hold."""
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Classes(NamedTuple):
    """Names of classes of one sort, and the number of the one that each row is of."""

    names: Sequence[str | None]
    """None: of no class that matters."""
    rows: NDArray[np.int64]


class HalfWidth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Half width of the range (`NOMINAL`) of ln(measured ÷ predicted), where nothing makes it wider."""

    half_width: Positive
    values: int
    sources: int
    engines: dict[str, float] = {}
    """Factor by engine, wider or narrower, as its logarithm."""
    classes: list[str] = []
    """Architectures of GPUs, shapes of models and engines of services that have published values."""
    skew: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the half width by which the range reaches further up, and less far down."""


class Wider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logarithm of the factor by which each unit of a fact widens the range."""

    times: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    memory: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    sources: int = 0


class Shared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Correlation of the errors of two candidates for one workload: of any two, and of two on the same GPU."""

    plan: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    gpu: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0


class Spreads(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Half widths by kind, and how they grow."""

    source: str
    retrieved: dt.date
    method: str
    kinds: dict[str, HalfWidth]
    wider: dict[str, Wider]
    quantiles: list[tuple[float, float]]
    """(share of the truths, half width that holds it over the half width of `NOMINAL`), ascending."""
    shared: Shared = Shared()
    unseen_class: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    """Factor on the half widths of times and rates of a class that a kind has no published values of."""

    def slope(self, kind: str, fact: str) -> float:
        """Logarithm of the factor on the half width of `kind` for each unit of `fact`; 0 of one that nothing is known of."""
        known = self.wider.get(fact, Wider())
        return (known.memory if KINDS[kind] == "memory" else known.times) + self.kinds[kind].engines.get(fact, 0.0)

    def half_width(self, kind: str, facts: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """The half width of `kind` where the columns `facts` say how much of each there is."""
        slopes = {fact: slope for fact in sorted(facts) if (slope := self.slope(kind, fact))}
        logs = sum((slope * facts[fact] for fact, slope in slopes.items()), start=np.zeros(1))
        return np.asarray(self.kinds[kind].half_width * np.exp(logs))


class Collected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Classes that measurements tell of which were collected beside those that ranges are fitted to."""

    source: str
    retrieved: dt.date
    method: str
    classes: dict[str, list[str]]
    """Kind of figure -> generations of GPUs."""


@cache
def published_spreads() -> Spreads:
    """The shipped ones; raises `UserError`."""
    found = read_shipped(Spreads, "spreads", "published.toml")
    if missing := [kind for kind in KINDS if kind not in found.kinds]:
        raise UserError(Problem("presets/spreads/published.toml", "kinds", f"no half width of {', '.join(missing)}."))
    also = read_shipped(Collected, "spreads", "collected.toml").classes
    kinds = {kind: replace(one, classes=[*one.classes, *also.get(kind, ())]) for kind, one in found.kinds.items()}
    return replace(found, kinds=kinds)
