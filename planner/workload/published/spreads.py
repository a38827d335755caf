"""Errors of predictions of published measurements: half widths of ranges by kind, and facts that widen them (`presets/spreads/`)."""

import datetime as dt  # msgspec resolves the annotations of a struct at run time
import math
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
"""Kinds of figures that have their own half width; kinds of a family borrow from each other where sources are few."""
OF_A_BATCH = {"request time": "batch request time", "time to first token": "prefill", "time per output token": "decode"}
"""Kind that a latency counts as where one fixed batch is timed."""
ENGINE_OPEN, RELEASE_OPEN = "engine not named", "release of the engine not named"
PROGRAM_OPEN = "training program not compared with published peaks"
"""Fact that a library is named with which many programs train (PyTorch, Transformers, Megatron), or a program without published peaks."""
NOMINAL = 0.9
"""Share of the true values that a range should contain."""
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Classes(NamedTuple):
    """Names of the classes of one sort, and the number of each row's class."""

    names: Sequence[str | None]
    """None: a class that does not matter."""
    rows: NDArray[np.int64]


class HalfWidth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Half width of the range (`NOMINAL`) of ln(measured ÷ predicted), where nothing makes it wider."""

    half_width: Positive
    values: int
    sources: int
    engines: dict[str, float] = {}
    """Logarithm of the factor for each engine, wider or narrower."""
    classes: list[str] = []
    """Architectures of GPUs, shapes of models and engines of services that have published values."""
    collected: dict[str, float] = {}
    """Architecture of a GPU without such values -> factor on the half width that measurements collected in addition call for."""
    skew: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the half width by which the range reaches further up, and less far down."""

    def seen(self, name: str | None) -> bool:
        """True if there are values of the class `name`; None is a class that does not matter."""
        return name is None or name in self.classes or name in self.collected


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
    """(share of the truths, half width that contains it ÷ half width of `NOMINAL`), ascending."""
    shared: Shared = Shared()
    unseen_class: Annotated[float, msgspec.Meta(ge=1)] = 1.0
    """Factor on the half widths of times and rates for a class without published values of the kind."""

    def class_factor(self, kind: str, name: str | None) -> float:
        """Factor on the half width of `kind` for the class `name`; 1 for one with published values."""
        one = self.kinds[kind]
        return one.collected.get(name or "", 1.0) if one.seen(name) else self.unseen_class

    def slope(self, kind: str, fact: str) -> float:
        """Logarithm of the factor on the half width of `kind` for each unit of `fact`; 0 for an unknown fact."""
        known = self.wider.get(fact, Wider())
        return (known.memory if KINDS[kind] == "memory" else known.times) + self.kinds[kind].engines.get(fact, 0.0)

    def half_width(self, kind: str, facts: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Half width of `kind`, with the amounts of facts in the columns `facts`."""
        slopes = {fact: slope for fact in sorted(facts) if (slope := self.slope(kind, fact))}
        logs = sum((slope * facts[fact] for fact, slope in slopes.items()), start=np.zeros(1))
        return np.asarray(self.kinds[kind].half_width * np.exp(logs))


class Collected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors from measurements that were collected in addition to those that ranges are fitted to."""

    source: str
    retrieved: dt.date
    method: str
    classes: dict[str, dict[str, Annotated[float, msgspec.Meta(ge=1)]]]
    """Kind of figure -> generation of GPUs -> factor on the half width with which these measurements lie inside."""
    open_programs: dict[str, Annotated[float, msgspec.Meta(ge=1)]]
    """Kind of figure -> factor on the half width where `PROGRAM_OPEN` holds."""


@cache
def published_spreads() -> Spreads:
    """Shipped spreads; raises `UserError`."""
    found = read_shipped(Spreads, "spreads", "published.toml")
    if missing := [kind for kind in KINDS if kind not in found.kinds]:
        raise UserError(Problem("presets/spreads/published.toml", "kinds", f"no half width of {', '.join(missing)}."))
    also = read_shipped(Collected, "spreads", "collected.toml")
    programs = {kind: {PROGRAM_OPEN: math.log(factor)} for kind, factor in also.open_programs.items()}
    kinds = {
        kind: replace(one, collected=also.classes.get(kind, {}), engines=one.engines | programs.get(kind, {}))
        for kind, one in found.kinds.items()
    }
    return replace(found, kinds=kinds)
